// @ts-check
/**
 * Connects the decoders to web streams: an async iterable and a stream transformer.
 *
 *     for await (const item of decodeFramed(await fetch(url))) show(item);
 */

import { RequestError, refusalOf } from "./errors.js";
import { FramedDecoder } from "./framed.js";

/** @typedef {import("./framed.js").DecoderOptions} DecoderOptions */
/** @typedef {import("./stream.js").StreamItem} StreamItem */
/** @typedef {import("./stream.js").TruncatedItem} TruncatedItem */
/** @typedef {import("./stream.js").ByteSource} ByteSource */
/**
 * @template {{type: string}} T
 * @typedef {import("./stream.js").Decoder<T>} Decoder
 */

/**
 * Yields the items of a stream as they arrive. A stream that ends without its trailer yields
 * `{type: "truncated", phase}` last, so that it cannot pass for a complete one. A stream that
 * breaks a rule throws a `FramedError` after the items before it. A response that the server
 * refused, or that has no body, throws a `RequestError`. Leaving the loop early cancels the stream.
 *
 * @param {Response | ByteSource | null} source
 * @param {DecoderOptions} [options]
 * @returns {AsyncGenerator<StreamItem, void, void>}
 */
export function decodeFramed(source, options) {
  return decodeStream(source, new FramedDecoder(options));
}

/**
 * The same for a decoder of any wire. Create a new decoder for each stream.
 *
 * @template {{type: string}} T
 * @param {Response | ByteSource | null} source
 * @param {Decoder<T>} decoder
 * @returns {AsyncGenerator<T | TruncatedItem, void, void>}
 */
export async function* decodeStream(source, decoder) {
  if (source && "ok" in source) {
    if (!source.ok) throw await refusalOf(source);
    source = source.body;
  }
  if (!source) throw new RequestError("no_body", "the response has no body");
  yield* readItems(source.getReader(), decoder);
}

/**
 * The same for a reader. Items that were decoded before an error are yielded before it is thrown.
 *
 * @template {{type: string}} T
 * @param {import("./stream.js").ByteReader} reader
 * @param {Decoder<T>} decoder
 * @returns {AsyncGenerator<T | TruncatedItem, void, void>}
 */
export async function* readItems(reader, decoder) {
  /** @type {unknown} */
  let reason;
  try {
    for (;;) {
      // At once and not with the next chunk, which may never arrive.
      if (decoder.error) throw decoder.error;
      const { done, value } = await reader.read();
      if (done) {
        const finish = decoder.finish();
        yield* finish.items;
        if (finish.status === "truncated") yield { type: "truncated", phase: finish.phase };
        return;
      }
      yield* decoder.feed(/** @type {Uint8Array} */ (value));
    }
  } catch (error) {
    reason = error;
    throw error;
  } finally {
    // A stream that failed by itself cannot be cancelled, and `read` has reported its failure.
    await reader.cancel(reason).catch(() => {});
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
    const reader = bytes.readable.getReader();
    const items = readItems(reader, new FramedDecoder(options));
    this.writable = bytes.writable;
    /** @type {ReadableStream<StreamItem>} */
    this.readable = new ReadableStream(
      {
        async pull(controller) {
          const { done, value } = await items.next();
          if (done) controller.close();
          else controller.enqueue(value);
        },
        // At the reader: the generator may wait for bytes that never arrive.
        cancel: (reason) => reader.cancel(reason),
      },
      { highWaterMark: 0 },
    );
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
