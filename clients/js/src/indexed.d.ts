import type { TurnEvent } from "./events.js";
import type { DecoderOptions, FramedError, Item, Phase } from "./framed.js";

/**
 * Represents all frames up to and including its index, some of which are no longer stored. It
 * replaces everything that was shown of the turn with the answer so far and the last state of each
 * step.
 */
export interface SnapshotItem {
  type: "snapshot";
  events: TurnEvent[];
  text: string;
  /** The number of events that it leaves out. */
  events_dropped?: number;
}

export interface IndexedOptions extends DecoderOptions {
  /** The index that the first frame must have. Default: any. A snapshot may have a larger one. */
  from?: number | null;
}

/** An item of a wire whose frames have an index. */
export type IndexedItem = (Item | SnapshotItem) & { index: number };

export type IndexedFinish =
  | { items: IndexedItem[]; status: "complete" }
  | { items: IndexedItem[]; status: "truncated"; phase: Exclude<Phase, "ended"> };

/** The base class of the decoders in `sse.js` and `ndjson.js`. */
export class IndexedDecoder {
  /** @internal */
  constructor(options: IndexedOptions, crEndsLine: boolean);
  get phase(): Phase;
  /** The error that ended the stream, or null; calls after the `feed` that found it throw it. */
  get error(): FramedError | null;
  /** The index of the next frame, from which to resume; before the first frame it is the option `from`, or null. */
  get nextIndex(): number | null;
  /** @internal */
  get maxBytes(): number;
  /** Takes the next bytes and returns the items that they complete, including items before an error. */
  feed(chunk: Uint8Array): IndexedItem[];
  /** Reports the end of the bytes. */
  finish(): IndexedFinish;
  /** @internal */
  line(line: Uint8Array): void;
  /** @internal */
  trailing(bytes: Uint8Array): void;
  /** @internal */
  push(index: unknown, mayJump: boolean, read: () => Item | SnapshotItem): void;
}

/** @internal */
export function isSnapshot(members: unknown): boolean;
/** @internal */
export function readFrame(members: unknown): Item | SnapshotItem;
