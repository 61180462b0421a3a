// The readers that the documentation of Forge and of the session chat prints, unchanged.
import { streamQuery } from "../../clients/wires/documented_readers/forge.mjs";
import { streamChat } from "../../clients/wires/documented_readers/session_chat.mjs";
import { broke, nothing } from "../record.js";

/** Records an event of Forge's reader. */
function forgeEvent(seen, { type, ...data }) {
  if (type === "token") seen.text += data.content;
  else if (type === "error") {
    seen.outcome = "failed";
    seen.error = { code: data.code, message: data.message };
  } else if (type === "done") {
    // It follows an `error` too, which has already set the outcome.
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

/** What the wire derives from other events, which the stream has too. */
const DERIVED = ["round_start", "generating", "tool_start", "tool_end"];

/** Records an event of the session chat's reader. */
function sessionEvent(seen, { type, ...data }) {
  if (type === "complete") {
    seen.outcome = data.response.finished ? "completed" : "stopped";
    seen.text = data.response.content;
    // Empty metadata is left out.
    seen.citations = data.metadata?.citations.length ?? 0;
  } else if (type === "error") {
    seen.outcome = "failed";
    seen.error = { message: data.error };
  } else if (!DERIVED.includes(type)) {
    seen.events.push(type);
  }
}

/** Creates a session for a chat, without faults. */
export async function beginSession(server) {
  return (await (await fetch(`${server}/v1/sessions`, { method: "POST" })).json()).id;
}

export async function sessionChat(url, prompt, server) {
  const seen = nothing();
  const path = `/v1/sessions/${await beginSession(server)}/chat/stream`;
  try {
    await streamChat(url + path, prompt, (event) => sessionEvent(seen, event));
  } catch (error) {
    // The reader throws `HTTP 500` for an error status.
    const status = /^HTTP (\d+)$/.exec(error.message)?.[1];
    if (status) Object.assign(seen, { outcome: "http-error", status: Number(status) });
    else broke(seen, error);
  }
  return seen;
}
