import type { DecoderOptions, FramedError, Item, Phase } from "./framed.js";
import type { SnapshotItem } from "./indexed.js";

/** The stream ended before its end, so the answer is not complete. */
export type TruncatedItem = {
  type: "truncated";
  phase: Exclude<Phase, "ended">;
  /** Why the turn could not be read further; only of `ask` and `resume`. */
  error?: unknown;
};
export type StreamItem = Item | TruncatedItem;

/** A `ReadableStream` of bytes, as far as it is needed. */
export interface ByteSource {
  getReader(): ByteReader;
}
export interface ByteReader {
  read(): Promise<{ done: boolean; value?: Uint8Array }>;
  cancel(reason?: unknown): Promise<void>;
}

/**
 * Yields the items of a stream as they arrive, and a `truncated` item last if the trailer is
 * missing. Throws a `FramedError` if the stream breaks a rule, and a `RequestError` if the server
 * refused the request or the response has no body. Leaving the loop early cancels the stream.
 */
export function decodeFramed(
  source: Response | ByteSource | null,
  options?: DecoderOptions,
): AsyncGenerator<StreamItem, void, void>;

/** The interface of a decoder, implemented by `FramedDecoder`, `SseDecoder` and `NdjsonDecoder`. */
export interface Decoder<T extends { type: string } = Item | SnapshotItem> {
  readonly error: FramedError | null;
  feed(chunk: Uint8Array): T[];
  finish(): { items: T[]; status: "complete" } | { items: T[]; status: "truncated"; phase: Exclude<Phase, "ended"> };
}

/** `decodeFramed` for a decoder of any wire. Create a new decoder for each stream. */
export function decodeStream<T extends { type: string }>(
  source: Response | ByteSource | null,
  decoder: Decoder<T>,
): AsyncGenerator<T | TruncatedItem, void, void>;

/** @internal */
export function readItems<T extends { type: string }>(
  reader: ByteReader,
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
