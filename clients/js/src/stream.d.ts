import type { DecoderOptions, FramedError, Item, Phase } from "./framed.js";
import type { SnapshotItem } from "./indexed.js";

/** The stream ended before its trailer did: what was shown is not the whole answer. */
export type TruncatedItem = { type: "truncated"; phase: Exclude<Phase, "ended"> };
export type StreamItem = Item | TruncatedItem;

/**
 * Yields the items of a stream as they arrive, and a `truncated` item last where the trailer is missing.
 * Throws a `FramedError` where the stream breaks the rules. Leaving the loop early cancels the stream.
 */
export function decodeFramed(
  readable: ReadableStream<Uint8Array>,
  options?: DecoderOptions,
): AsyncGenerator<StreamItem, void, void>;

/** What `decodeStream` needs of a decoder: `FramedDecoder`, `SseDecoder` and `NdjsonDecoder` have it. */
export interface Decoder<T extends Item | SnapshotItem> {
  readonly error: FramedError | null;
  feed(chunk: Uint8Array): T[];
  finish(): { items: T[]; status: "complete" } | { items: T[]; status: "truncated"; phase: Exclude<Phase, "ended"> };
}

/** `decodeFramed` for a decoder of any wire, new for each stream. */
export function decodeStream<T extends Item | SnapshotItem>(
  readable: ReadableStream<Uint8Array>,
  decoder: Decoder<T>,
): AsyncGenerator<T | TruncatedItem, void, void>;

/** `decodeFramed` as a pair for `pipeThrough`. */
export class FramedDecoderStream {
  constructor(options?: DecoderOptions);
  readonly writable: WritableStream<Uint8Array>;
  readonly readable: ReadableStream<StreamItem>;
}
