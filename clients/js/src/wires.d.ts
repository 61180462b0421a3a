import type { DecoderOptions, Item } from "./framed.js";
import type { SnapshotItem } from "./indexed.js";
import type { Decoder } from "./stream.js";

export interface CursorOptions extends DecoderOptions {
  /** The index of the first frame; only on wires with an index. Default: 0. */
  from?: number;
}

/** A wire that a turn is read on: `framed`, `sse` or `ndjson`. */
export interface Wire {
  /** Its media type. */
  readonly accept: string;
  /** @internal */
  cursor(options: CursorOptions): Cursor;
}

/** @internal */
export interface Cursor<T extends { type: string } = Item | SnapshotItem> {
  /** The index from which the next connection reads. */
  readonly from: number;
  /** Returns a decoder for the next connection, which leaves out what was read before. */
  connect(): Decoder<T>;
}

/** The framed wire. After a lost connection it is read from the beginning, and what was read before is left out. */
export const framed: Wire;
/** Server-sent events. After a lost connection only the rest is read. */
export const sse: Wire;
/** JSON lines. After a lost connection only the rest is read. */
export const ndjson: Wire;
