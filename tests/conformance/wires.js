// How each wire tells what is true of a turn, by the words of PROTOCOL.md, and how much of the end of one has arrived.

const isJson = (text) => {
  try {
    return JSON.parse(text), true;
  } catch {
    return false;
  }
};
/** For wires of lines: the end is told with its JSON, that begins with `mark`, and whole with the `tail` of the stream. */
const lines = (mark, tail) => {
  const isEnd = (line) => mark.test(line) && isJson(line.slice(line.indexOf("{")));
  const told = (body) => body.split("\n").some(isEnd);
  return { told, whole: (body) => told(body) && body.endsWith(tail) };
};
/** Events that come after the text. */
const late = (seen, kase) => seen.events.push(...(kase.late ?? []));
const framedIsWhole = (body) => body.includes("\x1e") && isJson(body.slice(body.indexOf("\x1e") + 1));

/**
 * `shows` turns what is true into what the wire tells. `told` says of the body of a turn that is cut whether all that its end says
 * has arrived; `whole` whether its last byte has, too.
 */
export const WIRES = {
  framed: {
    shows(seen) {
      // F-05 and F-08.
      seen.text = seen.text.replaceAll("\u001d", "\u241d").replaceAll("\u001e", "\u241e");
      if (seen.outcome === "failed") seen.text += (seen.text && "\n\n") + seen.error.message;
    },
    told: framedIsWhole,
    whole: framedIsWhole,
  },
  sse: { shows: late, ...lines(/^data: \{"end":/, "\n\n") },
  ndjson: { shows: late, ...lines(/^\{"index":\d+,"end":/, "\n") },
  forge: {
    shows(seen, { sources, late = [] }) {
      if (late.length > 0) {
        // As on Forge's page, the passages are sent once the answer is written.
        seen.events = [...seen.events.filter((name) => name !== "sources"), ...late, "sources"];
      }
      if (seen.error) seen.error.code = seen.error.code === "chat_failed" ? "LLM_ERROR" : seen.error.code.toUpperCase();
      // Of citations it tells only as sources, and not where the orchestrator told of its sources before.
      if (sources !== undefined) seen.citations = sources;
      else if (seen.citations) seen.events.push("sources");
      else seen.citations = null;
    },
    ...lines(/^data: \{"type":"done"/, "\n\n"),
  },
  session_chat: {
    shows(seen, kase) {
      late(seen, kase);
      // The answer comes whole, with the end; of a failure the reader is told in words alone.
      if (seen.outcome === "failed") {
        seen.text = "";
        seen.citations = null;
        delete seen.error.code;
      }
      seen.events = seen.events.map((name) => (name === "reasoning" ? "thinking" : name));
    },
    ...lines(/^data: \{"type":"complete"/, "\n\n"),
  },
  ai_sdk: { shows: late, ...lines(/^data: \{"type":"finish"/, "data: [DONE]\n\n") },
  ag_ui: { shows: late, ...lines(/^data: \{"type":"RUN_FINISHED"/, "\n\n") },
  openai: {
    shows(seen, kase) {
      late(seen, kase);
      // A failure is the error object alone.
      if (seen.outcome === "failed") seen.citations = null;
    },
    ...lines(/^data: \{.*"finish_reason":"stop"/, "data: [DONE]\n\n"),
  },
  openai_whole: {
    shows(seen) {
      seen.events = [];
      if (seen.outcome !== "failed") return;
      // Nothing was sent yet, however late it failed.
      const status = seen.error.code === "chat_failed" ? 500 : 503;
      Object.assign(seen, { outcome: "http-error", status, text: "", citations: null });
    },
    told: isJson,
    whole: isJson,
  },
  eve: { shows: late, ...lines(/^\{"type":"session\.waiting"/, "\n") },
  trustgraph: {
    shows(seen) {
      // T-08: of events the clients show nothing.
      seen.events = [];
      seen.citations = null;
      if (seen.error) seen.error.code = seen.error.code === "chat_failed" ? "graph-rag-error" : "gateway-error";
    },
    // The messages of a socket, each with its JSON as it is.
    told: (body) => body.includes('"complete":true}'),
    whole: (body) => body.includes('"complete":true}'),
  },
};
