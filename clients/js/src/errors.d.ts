/**
 * A request that got no stream: the server refused it, or cannot be reached.
 *
 * The codes of the server are in PROTOCOL.md and in the OpenAPI document. This client adds:
 *
 * | code | when |
 * |---|---|
 * | `unreachable` | `fetch` failed; `cause` is its error |
 * | `idle` | no byte arrived for `idleTimeout` |
 * | `http` | another status than 2xx without an error of the server in its body |
 * | `no_body` | the response has no body |
 * | `gone` | also: the stream that was sent again differs from the one that broke |
 */
export class RequestError extends Error {
  constructor(code: string, message: string, rest?: Partial<RequestError>);
  readonly name: "RequestError";
  readonly code: string;
  /** The HTTP status, or 0 if there was no response. */
  readonly status: number;
  /** Whether the same request may succeed later. */
  readonly recoverable: boolean;
  /** Names the refusal in the server's log. */
  readonly requestId?: string;
  /** Milliseconds until a retry makes sense, if the server sent `Retry-After`. */
  readonly retryAfter?: number;
  readonly cause?: unknown;
}

/** @internal */
export function refusalOf(response: Response): Promise<RequestError>;
