// @ts-check
/**
 * The wires that a turn is read on. A cursor is a reader's position in its turn; it makes a decoder
 * for each connection, which returns only what the reader does not have yet.
 */

import { FramedDecoder } from "./framed.js";
import { NdjsonDecoder } from "./ndjson.js";
import { Replay } from "./replay.js";
import { SseDecoder } from "./sse.js";

/** @typedef {import("./wires.js").CursorOptions} CursorOptions */
/** @typedef {import("./wires.js").Wire} Wire */
/** @typedef {import("./framed.js").Item} Item */
/** @typedef {import("./indexed.js").IndexedItem} IndexedItem */
/** @typedef {import("./indexed.js").SnapshotItem} SnapshotItem */

/** @type {Wire} */
export const framed = { accept: "text/plain", cursor: framedCursor };

/** @type {Wire} */
export const sse = { accept: "text/event-stream", cursor: (options) => new IndexedCursor(SseDecoder, options) };

/** @type {Wire} */
export const ndjson = { accept: "application/x-ndjson", cursor: (options) => new IndexedCursor(NdjsonDecoder, options) };

/**
 * Without an index: each connection begins at the beginning.
 *
 * @param {CursorOptions} options
 */
function framedCursor(options) {
  let replay = new Replay();
  let isReplaced = false;
  if (options.from) throw new RangeError("the framed wire has no index");

  /** @param {Item[]} items */
  const unread = (items) => {
    /** @type {(Item | SnapshotItem)[]} */
    const all = isReplaced ? [{ type: "snapshot", events: [], text: "" }] : [];
    isReplaced = false;
    try {
      for (const item of items) {
        const text = item.type === "text" && item.text;
        const part = replay.newPart(text || JSON.stringify(item));
        if (part) all.push(text ? { type: "text", text: part } : item);
        // The stream is shorter than before.
        else if (item.type === "end") throw item;
      }
    } catch {
      // Another stream than before: it replaces everything, from the next connection on.
      replay = new Replay();
      isReplaced = true;
      throw new Error("the stream differs");
    }
    return all;
  };

  return {
    from: 0,
    connect() {
      const decoder = new FramedDecoder(options);
      replay.restart();
      return {
        get error() {
          return decoder.error;
        },
        feed: (/** @type {Uint8Array} */ chunk) => unread(decoder.feed(chunk)),
        // A character that is cut in two comes with the next connection.
        finish: () => ({ ...decoder.finish(), items: [] }),
      };
    },
  };
}

/** With an index: each connection begins at the first frame that the reader does not have. */
class IndexedCursor {
  /**
   * @param {typeof SseDecoder | typeof NdjsonDecoder} Decoder
   * @param {CursorOptions} options
   */
  constructor(Decoder, options) {
    this.Decoder = Decoder;
    this.options = options;
    this.from = options.from ?? 0;
  }

  connect() {
    const decoder = new this.Decoder({ ...this.options, from: this.from });
    return {
      get error() {
        return decoder.error;
      },
      feed: (/** @type {Uint8Array} */ chunk) => {
        const items = decoder.feed(chunk);
        // Not at the end: after `unavailable` its index is that of the frame which is missing.
        for (const item of items) if (item.type !== "end") this.from = item.index + 1;
        return items;
      },
      finish: () => decoder.finish(),
    };
  }
}
