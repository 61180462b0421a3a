// @ts-check
/**
 * Connects the decoders to web streams: an async iterable and a stream transformer.
 *
 *     for await (const item of decodeFramed(response.body)) show(item);
 */

import { FramedDecoder } from "./framed.js";

/** @typedef {import("./framed.js").DecoderOptions} DecoderOptions */
/** @typedef {import("./framed.js").Item} Item */
/** @typedef {import("./indexed.js").SnapshotItem} SnapshotItem */
/** @typedef {import("./stream.js").StreamItem} StreamItem */
/** @typedef {import("./stream.js").TruncatedItem} TruncatedItem */
/**
 * @template {Item | SnapshotItem} T
 * @typedef {import("./stream.js").Decoder<T>} Decoder
 */

/**
 * Yields the items of a stream as they arrive. A stream that ends without its trailer yields
 * `{type: "truncated", phase}` last, so that it cannot pass for a complete one. A stream that
 * breaks a rule throws a `FramedError` after the items before it. Leaving the loop early cancels
 * the stream.
 *
 * @param {ReadableStream<Uint8Array>} readable
 * @param {DecoderOptions} [options]
 * @returns {AsyncGenerator<StreamItem, void, void>}
 */
export function decodeFramed(readable, options) {
  return decodeStream(readable, new FramedDecoder(options));
}

/**
 * The same for a decoder of any wire. Create a new decoder for each stream.
 *
 * @template {Item | SnapshotItem} T
 * @param {ReadableStream<Uint8Array>} readable
 * @param {Decoder<T>} decoder
 * @returns {AsyncGenerator<T | TruncatedItem, void, void>}
 */
export async function* decodeStream(readable, decoder) {
  const source = new ItemSource(readable, decoder);
  try {
    for (let item = await source.next(); item; item = await source.next()) yield item;
  } finally {
    await source.cancel();
  }
}

/**
 * The same as a pair for `pipeThrough`.
 *
 * It is not a `TransformStream`, which drops the items in its queue when it errors or when its
 * input ends, whether they were read or not. Here an item is made when it is requested.
 */
export class FramedDecoderStream {
  /** @param {DecoderOptions} [options] */
  constructor(options) {
    /** @type {TransformStream<Uint8Array, Uint8Array>} */
    const bytes = new TransformStream();
    const source = new ItemSource(bytes.readable, new FramedDecoder(options));
    this.writable = bytes.writable;
    /** @type {ReadableStream<StreamItem>} */
    this.readable = new ReadableStream(
      {
        async pull(controller) {
          const item = await source.next();
          if (item) controller.enqueue(item);
          else controller.close();
        },
        cancel: (reason) => source.cancel(reason),
      },
      { highWaterMark: 0 },
    );
  }
}

/**
 * Pulls items one at a time from a stream of bytes.
 *
 * @template {Item | SnapshotItem} T
 */
class ItemSource {
  #reader;
  #decoder;
  /**
   * Items that were decoded and not requested yet, the last one first.
   *
   * @type {(T | TruncatedItem)[]}
   */
  #ready = [];
  #done = false;

  /**
   * @param {ReadableStream<Uint8Array>} readable
   * @param {Decoder<T>} decoder
   */
  constructor(readable, decoder) {
    if (typeof readable?.getReader !== "function") {
      throw new TypeError("pass a readable stream of bytes, for example the body of a response");
    }
    this.#decoder = decoder;
    this.#reader = readable.getReader();
  }

  /** @returns {Promise<T | TruncatedItem | undefined>} undefined at the end */
  async next() {
    while (this.#ready.length === 0 && !this.#done) {
      try {
        await this.#read();
      } catch (error) {
        await this.cancel(error);
        throw error;
      }
    }
    return this.#ready.pop();
  }

  async #read() {
    // At once and not with the next chunk, which may never arrive.
    if (this.#decoder.error) throw this.#decoder.error;
    const { done, value } = await this.#reader.read();
    if (done) {
      const finish = this.#decoder.finish();
      this.#ready = finish.items;
      if (finish.status === "truncated") this.#ready.push({ type: "truncated", phase: finish.phase });
      this.#done = true;
    } else {
      this.#ready = this.#decoder.feed(value);
    }
    this.#ready.reverse();
  }

  /** @param {unknown} [reason] */
  async cancel(reason) {
    if (this.#done) return;
    this.#done = true;
    this.#ready = [];
    try {
      await this.#reader.cancel(reason);
    } catch {
      // The stream has failed by itself, and `read` has reported that.
    }
  }
}

/**
 * Returns the answer without the text that a `retract` event takes back.
 *
 * @param {string} text the answer so far
 * @param {number} kept the event's `kept`
 */
export function withdraw(text, kept) {
  let units = 0;
  // An iterator yields code points, which `kept` counts; `slice` counts UTF-16 code units.
  for (const character of text) {
    if (kept <= 0) break;
    kept -= 1;
    units += character.length;
  }
  return text.slice(0, units);
}
