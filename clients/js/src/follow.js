// @ts-check
/** Reads a turn to its end, over as many connections as that takes. */

import { RequestError } from "./errors.js";
import { FramedError } from "./framed.js";
import { readItems } from "./stream.js";

/** Three times the interval in which the server sends keep-alives. */
const DEFAULT_IDLE_TIMEOUT_MS = 45_000;

/**
 * Yields the items of a turn. Whatever breaks a connection, the next one continues where it broke.
 * If none does within the attempts, the last item is `truncated`.
 *
 * @template {{type: string}} T
 * @param {object} reading
 * @param {Response | null} reading.response the first response
 * @param {((from: number) => Promise<Response>) | null} reading.open null if the turn cannot be read again
 * @param {import("./wires.js").Cursor<T>} reading.cursor
 * @param {import("./retry.js").Retry} reading.retry
 * @param {{signal?: AbortSignal | null, idleTimeout?: number}} reading.options
 * @returns {AsyncGenerator<T | import("./stream.js").TruncatedItem, void, void>}
 */
export async function* follow({ response, open, cursor, retry, options: { signal, idleTimeout = DEFAULT_IDLE_TIMEOUT_MS } }) {
  if (response?.status === 204) return;
  /** @type {"events" | "text"} */
  let phase = "events";
  let hasEnded = false;
  /** @type {T | import("./stream.js").TruncatedItem | null} */
  let last;
  /** @type {unknown} */
  let error;
  do {
    last = null;
    error = undefined;
    try {
      response ??= await /** @type {NonNullable<typeof open>} */ (open)(cursor.from);
      for await (const item of readItems(watch(response, idleTimeout), cursor.connect())) {
        // `unavailable`: the journal's server cannot be reached, and the turn continues.
        if (item.type === "truncated" || /** @type {any} */ (item).error?.code === "unavailable") {
          last = item;
          break;
        }
        retry.reset();
        if (item.type === "text") phase = "text";
        hasEnded = item.type === "end";
        yield item;
      }
      if (!last) return;
    } catch (thrown) {
      // What breaks a rule of the wire would do so again.
      if (thrown instanceof FramedError || signal?.aborted) throw thrown;
      if (hasEnded) return;
      error = thrown;
    }
    response = null;
  } while (open && (await retry.wait(error)));
  yield last ?? { type: "truncated", phase, error };
}

/**
 * Returns a reader of a response, whose reads fail when nothing arrives for too long: a connection
 * that was lost without a word would otherwise stay open for ever.
 *
 * @param {Response} response
 * @param {number} timeout
 * @returns {import("./stream.js").ByteReader}
 */
function watch({ body, status }, timeout) {
  // Also 204, where an end was expected.
  if (!body) throw new RequestError("no_body", "the response has no body", { status });
  const reader = body.getReader();
  return {
    cancel: (reason) => reader.cancel(reason),
    read: () =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(() => reject(new RequestError("idle", `nothing arrived for ${timeout} ms`)), timeout);
        reader.read().then(resolve, reject).finally(() => clearTimeout(timer));
      }),
  };
}
