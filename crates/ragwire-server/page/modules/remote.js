// The chats that the server stores: its sessions, and the finished turns of each. A server that serves several people
// without knowing who is who lists none; the chats of this browser are then all there are.

import { Counts } from "./steps.js";
import { mergeCitations } from "./cite.js";

/** Returns the JSON of a request, or `null` if it was refused or the server cannot be reached. */
async function call(path, { method = "GET", body } = {}) {
  try {
    const sent = body === undefined ? {} : { headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    const response = await fetch(path, { method, ...sent });
    if (!response.ok) return null;
    return response.status === 204 ? {} : await response.json();
  } catch {
    return null;
  }
}

const at = (id) => `/v1/sessions/${encodeURIComponent(id)}`;

/** Returns the chats `{id, title, at}`, or `null` if the server does not list them. */
export async function chats() {
  const listed = await call("/v1/sessions");
  return listed?.sessions.map(({ id, title, updated_at: seconds }) => ({ id, title: title ?? "", at: seconds * 1000 })) ?? null;
}

export const rename = (id, title) => call(at(id), { method: "PATCH", body: { title } });
export const remove = (id) => call(at(id), { method: "DELETE" });

/** Returns the records of the finished turns of a chat, or `null` if the server does not have it. */
export async function turns(id) {
  const found = await call(`${at(id)}/turns`);
  return found?.turns.map(recordOf) ?? null;
}

/** Returns the record of a finished turn, or `null`. */
export async function turn(id) {
  const found = await call(`/v1/turns/${encodeURIComponent(id)}`);
  return found && recordOf(found);
}

/** Removes a turn of a chat and those after it, and returns whether the server had the turn. */
export const rewind = async (chat, id) => (await call(`${at(chat)}/turns/${id}`, { method: "DELETE" })) !== null;

/** Stores feedback on a turn; `null` removes it. Returns whether it was stored. */
export const rate = async (id, feedback) => (await call(`/v1/turns/${id}/feedback`, { method: "POST", body: feedback ?? { rating: null } })) !== null;

/** Returns what the page shows of a turn. The steps are only in the browser that asked. */
function recordOf({ turn_id: id, question, answer, status, message = "", answered, citations, elapsed_ms: milliseconds = null, feedback = null }) {
  const cited = mergeCitations(citations, new Map());
  const state = status === "completed" && answered === false ? "refused" : status;
  return { id, question, answer, message, state, steps: [], thoughts: [], cited, feedback, counts: { ...new Counts(), used: cited.passages.length, milliseconds } };
}
