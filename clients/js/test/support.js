// @ts-check
// A server that is a function, for tests of reconnecting.

/** The default of `idleTimeout`. */
const IDLE_MS = 45_000;

/**
 * Lets delays pass at once and records them, for a test `t`. Idle time-outs never pass.
 *
 * @param {import("node:test").TestContext} t
 */
export function skipDelays(t) {
  /** @type {number[]} */
  const delays = [];
  const { setTimeout } = globalThis;
  globalThis.setTimeout = /** @type {any} */ (
    (/** @type {() => void} */ wake, /** @type {number} */ ms) => {
      if (ms === IDLE_MS) return undefined;
      delays.push(ms);
      return setImmediate(wake);
    }
  );
  t.after(() => {
    globalThis.setTimeout = setTimeout;
  });
  return delays;
}

/**
 * A response whose body is the bytes and then fails with an error, ends, or stays open.
 *
 * @param {Uint8Array | string} bytes
 * @param {Error | "end" | "open"} [last]
 * @param {ResponseInit} [init]
 */
export function respond(bytes, last = "end", init = { headers: { "x-ragwire-turn": "t-1" } }) {
  /** @type {(Uint8Array | null)[]} */
  const parts = [typeof bytes === "string" ? new TextEncoder().encode(bytes) : bytes, null];
  return new Response(
    new ReadableStream({
      pull(controller) {
        const part = parts.shift();
        if (part) return controller.enqueue(part);
        if (last === "end") controller.close();
        else if (last !== "open") controller.error(last);
        else return new Promise(() => {});
      },
    }, { highWaterMark: 0 }),
    init,
  );
}

/**
 * A `fetch` that answers with one reply after the other and records the requests.
 *
 * @param {...(Response | Error | ((url: string) => Response))} replies
 */
export function server(...replies) {
  /** @type {{url: string, method: string, accept: string | null, body: any}[]} */
  const requests = [];
  /** @type {any} */
  const fetch = async (/** @type {string} */ url, /** @type {any} */ { method = "GET", headers, body, signal }) => {
    requests.push({ url, method, accept: headers.get("accept"), body: body === undefined ? undefined : JSON.parse(body) });
    if (signal?.aborted) throw signal.reason;
    const reply = replies.length > 1 ? replies.shift() : replies[0];
    if (reply instanceof Error) throw reply;
    return typeof reply === "function" ? reply(url) : reply;
  };
  return { fetch, requests };
}

/**
 * @param {AsyncIterable<any>} items
 * @returns {Promise<{items: any[], error?: any}>}
 */
export async function collect(items) {
  /** @type {any[]} */
  const all = [];
  try {
    for await (const item of items) all.push(item);
  } catch (error) {
    return { items: all, error };
  }
  return { items: all };
}

/** @param {any[]} items with adjacent texts joined */
export function joined(items) {
  /** @type {any[]} */
  const all = [];
  for (const item of items) {
    if (item.type === "text" && all.at(-1)?.type === "text") all.push({ type: "text", text: all.pop().text + item.text });
    else all.push(item);
  }
  return all;
}
