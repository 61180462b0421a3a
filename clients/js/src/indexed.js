// @ts-check
/**
 * The base of the decoders in `sse.js` and `ndjson.js` (PROTOCOL.md, N-02 to N-10): lines within a
 * limit, frames that are objects, and their indexes. It does not know how a wire separates objects.
 */

import {
  DEFAULT_MAX_LINE_BYTES,
  DEFAULT_MAX_TRAILER_BYTES,
  FramedError,
  ByteBuffer,
  dropNulls,
  isObject,
  isStatus,
  toEnd,
  toEvent,
} from "./framed.js";

/** @typedef {import("./indexed.js").IndexedOptions} IndexedOptions */
/** @typedef {import("./framed.js").EndItem} EndItem */
/** @typedef {import("./framed.js").Item} Item */
/** @typedef {import("./framed.js").Phase} Phase */
/** @typedef {import("./indexed.js").IndexedItem} IndexedItem */
/** @typedef {import("./indexed.js").SnapshotItem} SnapshotItem */
/** @typedef {import("./indexed.js").IndexedFinish} IndexedFinish */

const LF = 0x0a;
const CR = 0x0d;

/** The base class of both decoders, which define what a line contains and what may follow the end. */
export class IndexedDecoder {
  /** @type {Phase} */
  #phase = "events";
  /** @type {FramedError | null} */
  #error = null;
  #finished = false;
  #unfinished = new ByteBuffer();
  #maxBytes;
  #crEndsLine;
  #afterCr = false;
  /** @type {number | null} */
  #nextIndex = null;
  /** @type {IndexedItem[]} */
  #items = [];

  /**
   * @param {IndexedOptions} options
   * @param {boolean} crEndsLine whether CR and CR LF end lines too
   */
  constructor({ maxLineBytes = DEFAULT_MAX_LINE_BYTES, maxTrailerBytes = DEFAULT_MAX_TRAILER_BYTES, from = null }, crEndsLine) {
    for (const limit of [maxLineBytes, maxTrailerBytes]) {
      if (!Number.isSafeInteger(limit) || limit < 1) throw new RangeError("a limit must be a positive integer");
    }
    this.#maxBytes = Math.max(maxLineBytes, maxTrailerBytes);
    this.#crEndsLine = crEndsLine;
    this.#nextIndex = from;
  }

  /** The phase that the stream has reached. */
  get phase() {
    return this.#phase;
  }

  /** The error that ended the stream, or null. */
  get error() {
    return this.#error;
  }

  /** The index of the next frame, or null before the first one. */
  get nextIndex() {
    return this.#nextIndex;
  }

  /** The limit of a line in bytes. */
  get maxBytes() {
    return this.#maxBytes;
  }

  /**
   * @param {Uint8Array} chunk
   * @returns {IndexedItem[]}
   */
  feed(chunk) {
    // The tag instead of `instanceof`: it also accepts arrays of another realm (frames, test
    // runners).
    if (/** @type {any} */ (chunk)?.[Symbol.toStringTag] !== "Uint8Array") {
      throw new TypeError("feed takes a Uint8Array: the wire is bytes");
    }
    if (this.#error) throw this.#error;
    if (this.#finished) throw new Error("feed after finish");
    this.#items = [];
    try {
      let at = 0;
      while (at < chunk.length) {
        if (this.#phase === "ended") {
          this.trailing(chunk.subarray(at));
          break;
        }
        at = this.#feedLine(chunk, at);
      }
    } catch (error) {
      if (!(error instanceof FramedError)) throw error;
      this.#error = error;
      this.#unfinished.clear();
    }
    return this.#items;
  }

  /** @returns {IndexedFinish} */
  finish() {
    if (this.#error) throw this.#error;
    this.#finished = true;
    this.#unfinished.clear();
    return this.#phase === "ended" ? { items: [], status: "complete" } : { items: [], status: "truncated", phase: this.#phase };
  }

  /**
   * @param {Uint8Array} chunk
   * @param {number} from
   */
  #feedLine(chunk, from) {
    if (this.#afterCr) {
      this.#afterCr = false;
      if (chunk[from] === LF) return from + 1;
    }
    const room = this.#maxBytes - this.#unfinished.length;
    let at = from;
    while (at < chunk.length && chunk[at] !== LF && !(this.#crEndsLine && chunk[at] === CR)) {
      if (at - from === room) throw new FramedError("line_too_long");
      at += 1;
    }
    if (at === chunk.length) {
      this.#unfinished.append(chunk.subarray(from), this.#maxBytes);
      return at;
    }
    this.#afterCr = this.#crEndsLine && chunk[at] === CR;
    this.line(this.#unfinished.take(chunk.subarray(from, at), this.#maxBytes));
    return at + 1;
  }

  /**
   * Takes a line without its end. Subclasses override it.
   *
   * @param {Uint8Array} _line
   */
  line(_line) {}

  /**
   * Takes the bytes after the end.
   *
   * @param {Uint8Array} _bytes
   */
  trailing(_bytes) {
    throw new FramedError("trailing_bytes");
  }

  /**
   * Takes a frame after checking its index. A snapshot may skip indexes, because it replaces the
   * frames that this stream does not have.
   *
   * @param {unknown} given
   * @param {boolean} mayJump whether it is a snapshot
   * @param {() => Item | SnapshotItem} read
   */
  push(given, mayJump, read) {
    if (!Number.isSafeInteger(given) || /** @type {number} */ (given) < 0) throw new FramedError("bad_event");
    const index = /** @type {number} */ (given);
    const follows = this.#nextIndex === null || this.#nextIndex === index || (mayJump && index > this.#nextIndex);
    if (!follows) throw new FramedError("gap");
    const item = read();
    if (item.type === "text" || (item.type === "snapshot" && item.text !== "")) this.#phase = "text";
    if (item.type === "end") this.#phase = "ended";
    this.#nextIndex = index + 1;
    this.#items.push({ ...item, index });
  }
}

/**
 * Returns true if `readFrame` returns either a snapshot or throws for this object.
 *
 * @param {unknown} members
 */
export function isSnapshot(members) {
  const has = (/** @type {string} */ name) =>
    isObject(members) && Object.hasOwn(members, name) && members[name] !== null;
  return !has("event") && has("snapshot");
}

/**
 * Reads the object of a frame, without its index (N-03 to N-06 and N-10).
 *
 * @param {unknown} members
 * @returns {Item | SnapshotItem}
 */
export function readFrame(members) {
  if (!isObject(members)) throw new FramedError("bad_event");
  dropNulls(members);
  // Check for an event first: all its other members, whatever their name, belong to the event.
  if (Object.hasOwn(members, "event")) {
    const event = toEvent(members);
    if (!event) throw new FramedError("bad_event");
    return { type: "event", event };
  }
  const { text, snapshot } = members;
  const kinds = ["text", "end", "snapshot"].filter((kind) => Object.hasOwn(members, kind));
  if (kinds.length !== 1) throw new FramedError("bad_event");
  if (kinds[0] === "end") return readEnd(members);
  if (kinds[0] === "snapshot") return readSnapshot(snapshot);
  if (typeof text !== "string" || text === "") throw new FramedError("bad_event");
  return { type: "text", text };
}

/**
 * @param {unknown} members
 * @returns {SnapshotItem}
 */
function readSnapshot(members) {
  if (!isObject(members)) throw new FramedError("bad_event");
  dropNulls(members);
  const { events = [], text = "", events_dropped } = members;
  if (!Array.isArray(events) || typeof text !== "string") throw new FramedError("bad_event");
  const known = events.map((event) => {
    const read = toEvent(event);
    if (!read) throw new FramedError("bad_event");
    return read;
  });
  const dropped = Number.isSafeInteger(events_dropped) && /** @type {number} */ (events_dropped) > 0;
  return dropped
    ? { type: "snapshot", events: known, text, events_dropped: /** @type {number} */ (events_dropped) }
    : { type: "snapshot", events: known, text };
}

/**
 * @param {Record<string, unknown>} members
 * @returns {EndItem}
 */
function readEnd({ end: status, error, metadata: members = {}, timestamp, elapsed_ms }) {
  if (!isStatus(status)) throw new FramedError("bad_trailer");
  if (!isObject(members)) throw new FramedError("bad_trailer");
  dropNulls(members);
  const metadata = { citations: [], tools_used: [], ...members };
  for (const list of [metadata.citations, metadata.tools_used]) {
    if (!Array.isArray(list)) throw new FramedError("bad_trailer");
  }
  const hasTiming = typeof timestamp === "string" && typeof elapsed_ms === "number" && elapsed_ms >= 0;
  const timing = hasTiming ? { timing: { timestamp, elapsed_ms } } : {};
  return { ...toEnd(status, metadata, error), ...timing };
}
