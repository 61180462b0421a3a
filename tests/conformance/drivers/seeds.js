// The readers that the seeds print, as they stand there.
import { streamQuery } from "../../clients/wires/seed_readers/forge.mjs";
import { streamChat } from "../../clients/wires/seed_readers/session_chat.mjs";
import { broke, nothing } from "../record.js";

/** Takes an event of Forge as its reader hands it on. */
export function forgeEvent(seen, { type, ...data }) {
  if (type === "token") seen.text += data.content;
  else if (type === "error") {
    seen.outcome = "failed";
    seen.error = { code: data.code, message: data.message };
  } else if (type === "done") {
    // After an `error` too; that one has said how it ended.
    if (seen.outcome === "unreported") seen.outcome = data.status ?? "completed";
  } else {
    seen.events.push(type);
    if (type === "sources") seen.citations = data.sources.length;
  }
}

export async function forge(url, prompt) {
  const seen = nothing();
  try {
    await streamQuery(`${url}/api/query/stream`, prompt, "direct", (event) => forgeEvent(seen, event));
  } catch (error) {
    broke(seen, error);
  }
  return seen;
}

/** Takes an event of the session chat as its reader hands it on. */
export function sessionEvent(seen, { type, ...data }) {
  if (type === "complete") {
    seen.outcome = data.response.finished ? "completed" : "stopped";
    seen.text = data.response.content;
    seen.citations = data.metadata?.citations?.length ?? null;
  } else if (type === "error") {
    seen.outcome = "failed";
    seen.error = { message: data.error };
  } else {
    seen.events.push(type);
  }
}

export async function sessionChat(url, prompt) {
  const seen = nothing();
  try {
    const path = `/v1/sessions/${crypto.randomUUID()}/chat/stream`;
    await streamChat(url + path, prompt, (event) => sessionEvent(seen, event));
  } catch (error) {
    // It throws `HTTP 500` for a status that is no success.
    const status = /^HTTP (\d+)$/.exec(error.message)?.[1];
    if (status) Object.assign(seen, { outcome: "http-error", status: Number(status) });
    else broke(seen, error);
  }
  return seen;
}
