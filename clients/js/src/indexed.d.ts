import type { DecoderOptions, FramedError, FramedEvent, Item, Phase } from "./framed.js";

/**
 * Stands for all frames up to its index, which are kept no longer. It replaces what was shown of the turn: the answer so far, and
 * the last state of each step.
 */
export interface SnapshotItem {
  type: "snapshot";
  events: FramedEvent[];
  text: string;
  /** How many events it leaves out, since a later one says more. */
  events_dropped?: number;
}

/** An item of a wire that counts its frames. */
export type IndexedItem = (Item | SnapshotItem) & { index: number };

export type IndexedFinish =
  | { items: IndexedItem[]; status: "complete" }
  | { items: IndexedItem[]; status: "truncated"; phase: Exclude<Phase, "ended"> };

/** What the decoders of `sse.js` and `ndjson.js` have in common. */
export class IndexedDecoder {
  /** @internal */
  constructor(options: DecoderOptions, crEndsLine: boolean);
  get phase(): Phase;
  /** What broke the stream, or null; thrown by every call after the `feed` that met it. */
  get error(): FramedError | null;
  /** The index of the frame that has to come next, or null before the first one. */
  get nextIndex(): number | null;
  /** @internal */
  get maxBytes(): number;
  /** Takes the next bytes and returns what they complete; also what came before an error. */
  feed(chunk: Uint8Array): IndexedItem[];
  /** Says that no more bytes come. */
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
