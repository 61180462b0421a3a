// The readers that the seeds print, as they stand there.
import { streamQuery } from "../../clients/wires/seed_readers/forge.mjs";
import { streamChat } from "../../clients/wires/seed_readers/session_chat.mjs";
import { broke, nothing } from "../record.js";

/** Takes an event as Forge's reader hands it on. */
function forgeEvent(seen, { type, ...data }) {
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

/** Takes an event as the session chat's reader hands it on. */
function sessionEvent(seen, { type, ...data }) {
  if (type === "complete") {
    seen.outcome = data.response.finished ? "completed" : "stopped";
    seen.text = data.response.content;
    // Metadata with nothing in it are left out.
    seen.citations = data.metadata?.citations.length ?? 0;
  } else if (type === "error") {
    seen.outcome = "failed";
    seen.error = { message: data.error };
  } else {
    seen.events.push(type);
  }
}

/** A chat needs a session that is there; nobody's fault is tried on the way to it. */
export async function beginSession(server) {
  return (await (await fetch(`${server}/v1/sessions`, { method: "POST" })).json()).id;
}

export async function sessionChat(url, prompt, server) {
  const seen = nothing();
  const path = `/v1/sessions/${await beginSession(server)}/chat/stream`;
  try {
    await streamChat(url + path, prompt, (event) => sessionEvent(seen, event));
  } catch (error) {
    // It throws `HTTP 500` for a status that is no success.
    const status = /^HTTP (\d+)$/.exec(error.message)?.[1];
    if (status) Object.assign(seen, { outcome: "http-error", status: Number(status) });
    else broke(seen, error);
  }
  return seen;
}
