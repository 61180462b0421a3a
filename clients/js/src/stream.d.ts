import type { DecoderOptions, FramedError, Item, Phase } from "./framed.js";
import type { SnapshotItem } from "./indexed.js";

/** The stream ended before its trailer, so the answer is not complete. */
export type TruncatedItem = { type: "truncated"; phase: Exclude<Phase, "ended"> };
export type StreamItem = Item | TruncatedItem;

/**
 * Yields the items of a stream as they arrive, and a `truncated` item last if the trailer is
 * missing. Throws a `FramedError` if the stream breaks a rule. Leaving the loop early cancels the
 * stream.
 */
export function decodeFramed(
  readable: ReadableStream<Uint8Array>,
  options?: DecoderOptions,
): AsyncGenerator<StreamItem, void, void>;

/** The interface of a decoder, implemented by `FramedDecoder`, `SseDecoder` and `NdjsonDecoder`. */
export interface Decoder<T extends Item | SnapshotItem> {
  readonly error: FramedError | null;
  feed(chunk: Uint8Array): T[];
  finish(): { items: T[]; status: "complete" } | { items: T[]; status: "truncated"; phase: Exclude<Phase, "ended"> };
}

/** `decodeFramed` for a decoder of any wire. Create a new decoder for each stream. */
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

/** Returns the answer without the text that a `retract` event takes back: `withdraw(text, event.kept)`. */
export function withdraw(text: string, kept: number): string;
