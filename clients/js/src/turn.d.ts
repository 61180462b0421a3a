import type { Item, DecoderOptions } from "./framed.js";
import type { SnapshotItem } from "./indexed.js";
import type { RequestOptions } from "./request.js";
import type { TruncatedItem } from "./stream.js";
import type { Wire } from "./wires.js";

/** The body of `POST /v1/turns`. */
export interface Question {
  prompt: string;
  /** The session that the question belongs to. */
  session_id?: string;
  mode?: "agentic" | "direct";
  reasoning_effort?: "none" | "low" | "medium" | "high" | "xhigh";
  /** Whether the review of the evidence is reported. */
  review_enabled?: boolean;
  /** Which documents to search, as the server's orchestrator defines it. */
  filter?: unknown;
  /** The earlier messages, oldest first, of a client that keeps its conversation itself. Not together with `session_id`. */
  history?: { role: "user" | "assistant"; text: string }[];
  options?: QuestionOptions;
}

export interface QuestionOptions {
  /** Instructions for a model, as a system message. */
  instructions?: string;
  /** The JSON schema of the answer, which comes as the event `structured_result`. Refused by servers without structured results. */
  output_schema?: object;
  /** Members for the application. */
  extra?: Record<string, unknown>;
  review?: boolean;
  /** Whether the claims of the finished answer are verified. Default: true. */
  verify?: boolean;
  /** Whether the sources come after the answer instead of before it. Default: false. */
  sources_last?: boolean;
}

export interface TurnOptions extends RequestOptions, DecoderOptions {
  /** `framed`, `sse` or `ndjson`. Default: `framed`. */
  wire?: Wire;
  /** After how many milliseconds without a byte the connection counts as lost. Default: 45000. */
  idleTimeout?: number;
}

export interface AskOptions extends TurnOptions {
  /** The path of the question. Turns are resumed, stopped and answered below `/v1/turns`. Default: `/v1/turns`. */
  path?: string;
}

export interface ResumeOptions extends TurnOptions {
  /** The index of the first frame that is needed, on `sse` and `ndjson`. Default: 0. */
  from?: number;
}

/**
 * What `ask` and `resume` yield. `index` is the item's position in the turn, on `sse` and `ndjson`. A
 * `snapshot` replaces everything before it.
 */
export type TurnItem = ((Item | SnapshotItem) & { index?: number }) | TruncatedItem;

/**
 * A turn, which can be iterated once: the last item is `end`, or `truncated` if no connection within
 * the attempts brought it. Leaving the loop disconnects, and does not stop the turn.
 */
export interface Turn extends AsyncIterable<TurnItem> {
  /** Names the turn for `resume`, `stop` and `answer`; null if the turn cannot be read again. */
  readonly id: string | null;
  [Symbol.asyncIterator](): AsyncGenerator<TurnItem, void, void>;
  /** Stops the turn, and returns false if it had already ended. Its items end with `stopped`. */
  stop(): Promise<boolean>;
  /** Answers an `input_requested` event, and returns false if it already had this answer. */
  answer(requestId: string, response: unknown): Promise<boolean>;
}

/**
 * Sends a question to a server with ragwire's routes (`https://host/prefix`, or `""` for the page's
 * own), and returns its turn once the response has begun. The question is repeated only if the server refused it and sent `Retry-After`.
 *
 * @throws {RequestError} the server refused the question or cannot be reached
 */
export function ask(server: string, question: string | Question, options?: AskOptions): Promise<Turn>;

/**
 * Reads a turn by its ID, for example after a page was loaded again.
 *
 * @throws {RequestError} with status 404 or 410 if the server no longer has the turn or its beginning
 */
export function resume(server: string, id: string, options?: ResumeOptions): Promise<Turn>;

/** Stops a turn, and returns false if it had already ended. */
export function stop(server: string, id: string, options?: RequestOptions): Promise<boolean>;

/**
 * Answers a question of a turn (`input_requested`), and returns false if it already had this answer.
 *
 * @throws {RequestError} with the code `ask_unknown`, `ask_answered`, `ask_over` or `answer_invalid`
 */
export function answer(
  server: string,
  id: string,
  requestId: string,
  response: unknown,
  options?: RequestOptions,
): Promise<boolean>;
