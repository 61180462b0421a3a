// @ts-check
/** The error of a request that got no stream, and the reader of refusals (PROTOCOL.md, F-17). */

export class RequestError extends Error {
  /**
   * @param {string} code
   * @param {string} message
   * @param {Partial<import("./errors.js").RequestError>} [rest]
   */
  constructor(code, message, rest) {
    super(message);
    this.name = "RequestError";
    this.code = code;
    this.status = 0;
    this.recoverable = true;
    Object.assign(this, rest);
  }
}

/**
 * Returns the error for a response with another status than 2xx, whatever its body is: proxies
 * answer too.
 *
 * @param {Response} response
 */
export async function refusalOf(response) {
  const { status } = response;
  const body = await response.json().catch(() => null);
  const { code = "http", message = `the server answered ${status}`, recoverable = status >= 500, request_id: requestId } = body?.error ?? {};
  const after = response.headers.get("retry-after");
  // Seconds or an HTTP date.
  const wait = after ? Math.max(isNaN(+after) ? Date.parse(after) - Date.now() : +after * 1000, 0) || 0 : undefined;
  return new RequestError(code, message, { status, recoverable, requestId, retryAfter: wait });
}
