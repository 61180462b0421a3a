// @ts-check
/**
 * A `ChatTransport` for `useChat` of npm `ai`: the UI message stream of `POST /api/chat`, which
 * continues by itself when the connection breaks.
 */

import { RequestError } from "./errors.js";
import { follow } from "./follow.js";
import { FramedError } from "./framed.js";
import { Replay } from "./replay.js";
import { isRefusedForNow, repeat, send } from "./request.js";
import { Retry, isTemporary } from "./retry.js";

/** @typedef {import("./ai.js").ChatOptions} ChatOptions */
/** @typedef {{type: "chunk", chunk: unknown}} Chunk */

/** A part has at most 256 KiB, and the metadata at the end 1 MiB; in UTF-16 units, with room for the rest. */
const MAX_LINE_UNITS = 2 ** 21;

export class RagwireChatTransport {
  /** @param {ChatOptions} [options] */
  constructor(options = {}) {
    this.options = options;
    this.api = options.api ?? "/api/chat";
  }

  /** @param {Parameters<import("./ai.js").RagwireChatTransport["sendMessages"]>[0]} request */
  async sendMessages({ chatId, messages, trigger, messageId, abortSignal, headers, body, metadata: _, ...others }) {
    const options = this.#with(headers, abortSignal);
    const retry = new Retry(options);
    const content = { ...this.options.body, ...others, ...body, id: chatId, messages, trigger, messageId };
    const response = await repeat(retry, isRefusedForNow, this.api, options, { method: "POST", body: content });
    // The answer to a question continues a message: sent again, its turn would begin before it.
    const continues = /** @type {{role?: string}[]} */ (messages).at(-1)?.role === "assistant";
    return this.#read(response, chatId, options, retry, !continues);
  }

  /** @param {Parameters<import("./ai.js").RagwireChatTransport["reconnectToStream"]>[0]} request */
  async reconnectToStream({ chatId, headers }) {
    const options = this.#with(headers);
    const retry = new Retry(options);
    const response = await repeat(retry, isTemporary, this.#streamOf(chatId), options, {});
    return response.status === 204 ? null : this.#read(response, chatId, options, retry, true);
  }

  /**
   * @param {HeadersInit | undefined} headers
   * @param {AbortSignal} [signal]
   */
  #with(headers, signal) {
    // Cancelling the stream ends the request too, also while it waits for bytes.
    const controller = new AbortController();
    const abort = () => controller.abort(signal?.reason);
    signal?.addEventListener("abort", abort);
    if (signal?.aborted) abort();
    const own = this.options.headers;
    const merged = async () => {
      const all = new Headers(await (typeof own === "function" ? own() : own));
      new Headers(headers).forEach((value, name) => all.set(name, value));
      return all;
    };
    return { ...this.options, headers: merged, signal: controller.signal, abort };
  }

  /** @param {string} chatId */
  #streamOf(chatId, query = "") {
    return `${this.api}/${encodeURIComponent(chatId)}/stream${query}`;
  }

  /**
   * @param {Response} response
   * @param {string} chatId
   * @param {import("./request.js").RequestOptions & {abort: () => void}} options
   * @param {Retry} retry
   * @param {boolean} isWhole whether the response has the turn from its beginning
   * @returns {ReadableStream<any>}
   */
  #read(response, chatId, options, retry, isWhole) {
    const turn = response.headers.get("x-ragwire-turn");
    const open = turn && isWhole ? () => send(this.#streamOf(chatId, `?turn=${turn}`), options, {}) : null;
    const items = follow({ response, open, cursor: new ChunkCursor(), retry, options });
    return new ReadableStream({
      async pull(controller) {
        const { done, value } = await items.next();
        if (done) controller.close();
        else if (value.type === "truncated") throw value.error ?? new RequestError("truncated", "the answer is incomplete");
        else controller.enqueue(value.chunk);
      },
      cancel: options.abort,
    });
  }
}

/** The chunks have no index: each connection begins at the beginning. */
class ChunkCursor {
  from = 0;
  #replay = new Replay();

  connect() {
    this.#replay.restart();
    const text = new TextDecoder();
    let line = "";
    let isDone = false;
    return {
      error: null,
      feed: (/** @type {Uint8Array} */ bytes) => {
        const lines = (line + text.decode(bytes, { stream: true })).split("\n");
        line = /** @type {string} */ (lines.pop());
        if (line.length > MAX_LINE_UNITS) throw new FramedError("line_too_long");
        /** @type {Chunk[]} */
        const chunks = [];
        for (const data of lines) {
          if (data === "data: [DONE]") isDone = true;
          else if (data.startsWith("data: ") && this.#replay.newPart(data)) chunks.push({ type: "chunk", chunk: parse(data.slice(6)) });
        }
        return chunks;
      },
      finish: () => (isDone ? { items: [], status: /** @type {const} */ ("complete") } : { items: [], status: /** @type {const} */ ("truncated"), phase: /** @type {const} */ ("text") }),
    };
  }
}

/** @param {string} json */
function parse(json) {
  try {
    return JSON.parse(json);
  } catch {
    throw new FramedError("bad_event");
  }
}
