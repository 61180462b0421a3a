import type { RequestOptions } from "./request.js";

export interface ChatOptions extends Omit<RequestOptions, "signal"> {
  /** The route of the chat. Default: `/api/chat`. */
  api?: string;
  /** Members to add to the body of each question. */
  body?: Record<string, unknown>;
  /** After how many milliseconds without a byte the connection counts as lost. Default: 45000. */
  idleTimeout?: number;
}

/**
 * A `ChatTransport` for `useChat` of npm `ai` 5, 6 and 7, in place of `DefaultChatTransport`. An answer
 * whose connection breaks continues in the same message; an answer that was being written when the
 * page was loaded again is continued by `resume: true` or `resumeStream()`.
 *
 * The types of `ai` are not imported, because each of its versions has its own.
 */
export class RagwireChatTransport {
  constructor(options?: ChatOptions);
  readonly api: string;

  sendMessages(request: {
    trigger: "submit-message" | "regenerate-message";
    chatId: string;
    messageId: string | undefined;
    messages: object[];
    abortSignal: AbortSignal | undefined;
    headers?: Record<string, string> | Headers;
    body?: object;
    metadata?: unknown;
  }): Promise<ReadableStream<any>>;

  /** Continues the answer that is being written in the chat, or returns null if there is none. */
  reconnectToStream(request: {
    chatId: string;
    headers?: Record<string, string> | Headers;
    body?: object;
    metadata?: unknown;
  }): Promise<ReadableStream<any> | null>;
}
