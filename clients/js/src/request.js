// @ts-check
/** One request to the server, repeated as far as that is safe. */

import { RequestError, refusalOf } from "./errors.js";

/** @typedef {import("./request.js").RequestOptions} RequestOptions */

/**
 * Sends a request and returns its response if the status is 2xx, else throws a `RequestError`.
 *
 * @param {string} url
 * @param {RequestOptions} options
 * @param {{accept?: string, body?: unknown, method?: string}} init
 */
export async function send(url, { fetch = globalThis.fetch, headers, signal }, { accept, body, method }) {
  const all = new Headers(await (typeof headers === "function" ? headers() : headers));
  if (accept) all.set("accept", accept);
  if (body !== undefined) all.set("content-type", "application/json");
  const response = await fetch(url, { method, headers: all, signal, body: JSON.stringify(body) }).catch((cause) => {
    signal?.throwIfAborted();
    throw new RequestError("unreachable", "the server cannot be reached", { cause });
  });
  if (response.ok) return response;
  throw await refusalOf(response);
}

/**
 * Sends a request until it succeeds, as long as `isSafe` says that the error allows another attempt.
 *
 * @param {import("./retry.js").Retry} retry
 * @param {(error: unknown) => boolean} isSafe
 * @param {Parameters<typeof send>} request
 */
export async function repeat(retry, isSafe, ...request) {
  for (;;) {
    try {
      return await send(...request);
    } catch (error) {
      if (!isSafe(error) || !(await retry.wait(error))) throw error;
    }
  }
}

/**
 * Returns whether the server refused a question before any work was done for it, and may accept it
 * later. After any other failure it may be answering the question already.
 *
 * @param {unknown} error
 */
export function isRefusedForNow(error) {
  return error instanceof RequestError && error.retryAfter !== undefined && /429|503/.test(`${error.status}`);
}
