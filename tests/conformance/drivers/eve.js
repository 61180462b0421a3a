// npm `eve`: one client posts the message to the server, another reads the answer from the
// session's stream through the proxy. If the connection breaks, the client resumes by itself after
// the last event.
import { broke, nothing } from "../record.js";

/** The prefixes of the lines that do not represent an event of ours, or one in Eve's form besides. */
const OF_EVE = /^(session|turn|step|message|reasoning|actions?)\./;

function take(seen, { type, data }) {
  if (type === "reasoning.completed") seen.events.push("reasoning");
  else if (!OF_EVE.test(type)) seen.events.push(type);
  if (type === "turn.failed") seen.error = { code: data.code, message: data.message };
  if (type === "session.waiting" || type === "session.failed") {
    seen.outcome = data.metadata?.status ?? "completed";
    seen.citations = data.metadata?.citations.length ?? 0;
  }
}

const textOf = ({ parts }) => parts.map((part) => (part.type === "text" ? part.text : "")).join("");

export const session = (eve) => async (url, prompt, server) => {
  const seen = nothing();
  const reducer = eve.defaultMessageReducer();
  let shown = reducer.initial();
  try {
    const { sessionId } = await new eve.Client({ host: server }).session().send(prompt);
    const reader = new eve.Client({ host: url }).session({ sessionId, streamIndex: 0 });
    for await (const event of reader.stream()) {
      take(seen, event);
      shown = reducer.reduce(shown, event);
    }
  } catch (error) {
    if (error.name === "ClientError") {
      Object.assign(seen, { outcome: "http-error", status: error.status, error: { message: error.message } });
    } else broke(seen, error);
  }
  seen.text = shown.messages.filter(({ role }) => role === "assistant").map(textOf).join("");
  return seen;
};
