import type { TurnEvent } from "./events.js";

/** The phase that a stream has reached. */
export type Phase = "events" | "text" | "trailer" | "ended";

/** Why a stream was rejected; see "Error codes" in PROTOCOL.md. */
export type FramedErrorCode =
  | "line_too_long"
  | "trailer_too_long"
  | "bad_event"
  | "bad_trailer"
  | "stray_separator"
  | "gap"
  | "trailing_bytes";

/** One piece of evidence for the answer. */
export interface Citation {
  document_id: string;
  chunk_id: string;
  page_number?: number;
  supporting_quote: string;
  source_tool: string;
  score?: number;
  heading?: string;
}

/** The metadata of the answer. */
export interface Metadata {
  citations: Citation[];
  mode?: string;
  tools_used: string[];
  usage?: {
    input_tokens?: number;
    cached_input_tokens?: number;
    output_tokens?: number;
    /** The tokens of the answer alone, if other models generated too. */
    answer_tokens?: number;
    prompt_ms?: number;
    generation_ms?: number;
    /**
     * The speed of the model that wrote the answer, after its first token. It is not
     * `output_tokens` divided by the whole time, because other models may have judged.
     */
    tokens_per_second?: number;
    /** How many generations that model runs concurrently, and the most that it ran during this one. */
    slots?: number;
    slots_busy?: number;
    model?: string;
  };
  queue_stats?: { was_queued: boolean; queue_position: number; queue_wait_ms?: number };
  /** The number of events that were not sent. */
  events_dropped?: number;
  /** Citations or late events were shortened to fit the limit. */
  truncated?: boolean;
  [member: string]: unknown;
}

/** The failure of a turn. */
export interface Failure {
  code: string;
  message: string;
  recoverable: boolean;
}

export type EventItem = { type: "event"; event: TurnEvent };
export type TextItem = { type: "text"; text: string };
/** The time at which the turn ended, if the wire sends it. */
export interface Timing {
  /** RFC 3339, UTC. */
  timestamp: string;
  /** Milliseconds since the turn began. */
  elapsed_ms: number;
}

export type EndItem =
  | { type: "end"; status: "completed" | "stopped"; metadata: Metadata; error?: undefined; timing?: Timing }
  | { type: "end"; status: "failed"; metadata: Metadata; error: Failure; timing?: Timing };
export type Item = EventItem | TextItem | EndItem;

export type Finish =
  | { items: Item[]; status: "complete" }
  | { items: Item[]; status: "truncated"; phase: Exclude<Phase, "ended"> };

export interface DecoderOptions {
  /** The longest event line, in bytes without its line end. Default: 262144. */
  maxLineBytes?: number;
  /** The longest trailer, in bytes. Default: 1048576. */
  maxTrailerBytes?: number;
}

export const DEFAULT_MAX_LINE_BYTES: 262144;
export const DEFAULT_MAX_TRAILER_BYTES: 1048576;

/** The stream broke a rule of the wire. The error is permanent. */
export class FramedError extends Error {
  constructor(code: FramedErrorCode);
  readonly code: FramedErrorCode;
}

/** Bytes in, items out. */
export class FramedDecoder {
  constructor(options?: DecoderOptions);
  get phase(): Phase;
  /** The error that ended the stream, or null; calls after the `feed` that found it throw it. */
  get error(): FramedError | null;
  /** Takes the next bytes and returns the items that they complete, including items before an error. */
  feed(chunk: Uint8Array): Item[];
  /** Reports the end of the bytes. */
  finish(): Finish;
}

// Shared with the decoders of the other wires; not for applications.

/** @internal */
export class ByteBuffer {
  length: number;
  append(bytes: Uint8Array, limit: number): void;
  take(last: Uint8Array, limit: number): Uint8Array;
  clear(): void;
}
/** @internal */
export function toEvent(value: unknown): TurnEvent | null;
/** @internal */
export function isStatus(status: unknown): status is EndItem["status"];
/** @internal */
export function toEnd(status: EndItem["status"], metadata: Metadata, error: unknown): EndItem;
/** @internal */
export function decodeJson(bytes: Uint8Array, code: FramedErrorCode): string;
/** @internal */
export function parseJson(text: string, code: FramedErrorCode): unknown;
/** @internal */
export function isObject(value: unknown): value is Record<string, unknown>;
/** @internal */
export function dropNulls(object: Record<string, unknown>): void;
