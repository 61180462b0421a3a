// @ts-check
/**
 * Asks a question and reads its turn to the end, however often the connection breaks; stops a turn,
 * and answers its questions.
 */

import { follow } from "./follow.js";
import { isRefusedForNow, repeat, send } from "./request.js";
import { Retry, isTemporary } from "./retry.js";
import { framed } from "./wires.js";

/** @typedef {import("./turn.js").TurnOptions} TurnOptions */
/** @typedef {import("./turn.js").TurnItem} TurnItem */
/** @typedef {import("./request.js").RequestOptions} RequestOptions */

/**
 * Sends a question, and returns its turn once the response has begun.
 *
 * @param {string} server
 * @param {string | import("./turn.js").Question} question
 * @param {import("./turn.js").AskOptions} [options]
 */
export async function ask(server, question, options = {}) {
  const { path = "/v1/turns" } = options;
  const wire = wireOf(options);
  const retry = new Retry(options);
  const body = typeof question === "string" ? { prompt: question } : question;
  const init = { method: "POST", accept: wire.accept, body };
  return turnOf(server, await repeat(retry, isRefusedForNow, base(server) + path, options, init), options, retry);
}

/**
 * Reads a turn by its ID.
 *
 * @param {string} server
 * @param {string} id
 * @param {import("./turn.js").ResumeOptions} [options]
 */
export async function resume(server, id, options = {}) {
  const { from = 0 } = options;
  const wire = wireOf(options);
  const retry = new Retry(options);
  const url = urlOf(server, id, `stream?from=${from}`);
  return turnOf(server, await repeat(retry, isTemporary, url, options, { accept: wire.accept }), options, retry, id);
}

/**
 * Stops a turn, and returns false if it had already ended.
 *
 * @param {string} server
 * @param {string} id
 * @param {RequestOptions} [options]
 * @returns {Promise<boolean>}
 */
export async function stop(server, id, options = {}) {
  return (await post(urlOf(server, id, "stop"), undefined, options)).stopped;
}

/**
 * Answers a question of a turn, and returns false if it already had this answer.
 *
 * @param {string} server
 * @param {string} id
 * @param {string} requestId
 * @param {unknown} response
 * @param {RequestOptions} [options]
 * @returns {Promise<boolean>}
 */
export async function answer(server, id, requestId, response, options = {}) {
  return (await post(urlOf(server, id, "answer"), { request_id: requestId, response }, options)).accepted;
}

/**
 * @param {string} server
 * @param {Response} response
 * @param {TurnOptions & {from?: number}} options
 * @param {Retry} retry
 * @param {string | null} [id]
 * @returns {import("./turn.js").Turn}
 */
function turnOf(server, response, options, retry, id = response.headers.get("x-ragwire-turn")) {
  const { wire = framed } = options;
  const open = id === null ? null : (/** @type {number} */ from) => send(urlOf(server, id, `stream?from=${from}`), options, { accept: wire.accept });
  const items = follow({ response, open, cursor: wire.cursor(options), retry, options });
  // Without an ID the server answers 404.
  return {
    id,
    stop: () => stop(server, id + "", options),
    answer: (requestId, response) => answer(server, id + "", requestId, response, options),
    [Symbol.asyncIterator]: () => items,
  };
}

/**
 * @param {string} url
 * @param {unknown} body
 * @param {RequestOptions} options
 */
async function post(url, body, options) {
  // Both requests may be repeated: a second one changes nothing.
  return (await repeat(new Retry(options), isTemporary, url, options, { method: "POST", body })).json();
}

/** @param {string} server */
function base(server) {
  return server.replace(/\/$/, "");
}

/**
 * Returns the wire, before anything is asked on it.
 *
 * @param {TurnOptions} options
 */
function wireOf({ wire = framed }) {
  if (!wire.cursor) throw new TypeError(`wire is not framed, sse or ndjson of this package: ${wire}`);
  return wire;
}

/**
 * @param {string} server
 * @param {string} id
 * @param {string} action
 */
function urlOf(server, id, action) {
  return `${base(server)}/v1/turns/${encodeURIComponent(id)}/${action}`;
}
