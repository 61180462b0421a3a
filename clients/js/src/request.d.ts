import type { Retry } from "./retry.js";

export interface RequestOptions {
  /** Headers of every request; a function is called for each one, for example to renew a token. */
  headers?: HeadersInit | (() => HeadersInit | Promise<HeadersInit>);
  /** Ends the request and everything that follows it. It does not stop the turn. */
  signal?: AbortSignal | null;
  /** How often a request is tried without any progress in between; 1 never repeats one. Default: 10. */
  attempts?: number;
  /** Replaces the global `fetch`, for example to add `credentials`. */
  fetch?: typeof globalThis.fetch;
}

/** @internal */
export interface RequestInitOfTurn {
  accept?: string;
  body?: unknown;
  method?: string;
}
/** @internal */
export function send(url: string, options: RequestOptions, init: RequestInitOfTurn): Promise<Response>;
/** @internal */
export function repeat(
  retry: Retry,
  isSafe: (error: unknown) => boolean,
  url: string,
  options: RequestOptions,
  init: RequestInitOfTurn,
): Promise<Response>;
/** @internal */
export function isRefusedForNow(error: unknown): boolean;
