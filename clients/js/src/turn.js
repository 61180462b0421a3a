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
  const body = typeof question === "string" ? { prompt: question } : question;
  return begin(server, options, isRefusedForNow, join(server, options.path ?? "/v1/turns"), { method: "POST", body });
}

/**
 * Reads a turn by its ID.
 *
 * @param {string} server
 * @param {string} id
 * @param {import("./turn.js").ResumeOptions} [options]
 */
export async function resume(server, id, options = {}) {
  return begin(server, options, isTemporary, urlOf(server, id, `stream?from=${options.from ?? 0}`), {}, id);
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
  return (await post(server, id, "stop", options)).stopped;
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
  return (await post(server, id, "answer", options, { request_id: requestId, response })).accepted;
}

/**
 * Sends the request that begins to read a turn. Nothing is sent if the wire is only the name of one.
 *
 * @param {string} server
 * @param {TurnOptions & {from?: number}} options
 * @param {(error: unknown) => boolean} isSafe
 * @param {string} url
 * @param {{method?: string, body?: unknown}} init
 * @param {string | null} [id]
 * @returns {Promise<import("./turn.js").Turn>}
 */
async function begin(server, options, isSafe, url, init, id) {
  const { wire = framed } = options;
  const cursor = wire.cursor(options);
  const retry = new Retry(options);
  const response = await repeat(retry, isSafe, url, options, { accept: wire.accept, ...init });
  const turn = id ?? response.headers.get("x-ragwire-turn");
  const open = turn === null ? null : (/** @type {number} */ from) => send(urlOf(server, turn, `stream?from=${from}`), options, { accept: wire.accept });
  const items = follow({ response, open, cursor, retry, options });
  // Without an ID they ask for the turn `null`, and the server answers 404.
  return {
    id: turn,
    stop: () => stop(server, /** @type {string} */ (turn), options),
    answer: (requestId, response) => answer(server, /** @type {string} */ (turn), requestId, response, options),
    [Symbol.asyncIterator]: () => items,
  };
}

/**
 * @param {string} server
 * @param {string} id
 * @param {string} action
 * @param {RequestOptions} options
 * @param {unknown} [body]
 */
async function post(server, id, action, options, body) {
  // Both requests may be repeated: a second one changes nothing.
  return (await repeat(new Retry(options), isTemporary, urlOf(server, id, action), options, { method: "POST", body })).json();
}

/**
 * @param {string} server
 * @param {string} id
 * @param {string} action
 */
function urlOf(server, id, action) {
  return join(server, `/v1/turns/${encodeURIComponent(id)}/${action}`);
}

/**
 * @param {string} server with or without a slash at its end
 * @param {string} path
 */
function join(server, path) {
  return server.replace(/\/$/, "") + path;
}
