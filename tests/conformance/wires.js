// How each wire sends the content of a turn, as PROTOCOL.md specifies, and whether the end has
// arrived.

const isJson = (text) => {
  try {
    return JSON.parse(text), true;
  } catch {
    return false;
  }
};
/**
 * For wires of lines: the content of the end has arrived with its line, which matches `mark`, and
 * the whole body with `tail`.
 */
const lines = (mark, tail) => {
  const isEnd = (line) => mark.test(line) && isJson(line.slice(line.indexOf("{")));
  const hasEnd = (body) => body.split("\n").some(isEnd);
  return { hasEnd, isWhole: (body) => hasEnd(body) && body.endsWith(tail) };
};
/** Adds the events after the text. */
const late = (seen, kase) => seen.events.push(...(kase.late ?? []));
const framedIsWhole = (body) => body.includes("\x1e") && isJson(body.slice(body.indexOf("\x1e") + 1));

/**
 * `shows` turns the content of a turn into what its wire sends. For the body of a turn that was
 * cut, `hasEnd` returns whether the content of its end has arrived, and `isWhole` whether its last
 * byte has, too.
 */
export const WIRES = {
  framed: {
    shows(seen) {
      // F-05 and F-08.
      seen.text = seen.text.replaceAll("\u001d", "\u241d").replaceAll("\u001e", "\u241e");
      if (seen.outcome === "failed") seen.text += (seen.text && "\n\n") + seen.error.message;
    },
    hasEnd: framedIsWhole,
    isWhole: framedIsWhole,
  },
  sse: { shows: late, ...lines(/^data: \{"end":/, "\n\n") },
  ndjson: { shows: late, ...lines(/^\{"index":\d+,"end":/, "\n") },
  forge: {
    shows(seen, { sources, late = [] }) {
      if (late.length > 0) {
        // As Forge's page specifies, `sources` is sent after the answer.
        seen.events = [...seen.events.filter((name) => name !== "sources"), ...late, "sources"];
      }
      if (seen.error) seen.error.code = seen.error.code === "chat_failed" ? "LLM_ERROR" : seen.error.code.toUpperCase();
      // It sends citations only as sources, and only if the orchestrator has not sent its own
      // `sources`.
      if (sources !== undefined) seen.citations = sources;
      else if (seen.citations) seen.events.push("sources");
      else seen.citations = null;
    },
    ...lines(/^data: \{"type":"done"/, "\n\n"),
  },
  session_chat: {
    shows(seen, kase) {
      late(seen, kase);
      // The whole answer is sent with the end; a failure has only a message.
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
      // A failure is only the error object.
      if (seen.outcome === "failed") seen.citations = null;
    },
    ...lines(/^data: \{.*"finish_reason":"stop"/, "data: [DONE]\n\n"),
  },
  openai_whole: {
    shows(seen) {
      seen.events = [];
      if (seen.outcome !== "failed") return;
      // Nothing was sent before the failure, however late it was.
      const status = seen.error.code === "chat_failed" ? 500 : 503;
      Object.assign(seen, { outcome: "http-error", status, text: "", citations: null });
    },
    hasEnd: isJson,
    isWhole: isJson,
  },
  eve: { shows: late, ...lines(/^\{"type":"session\.waiting"/, "\n") },
  trustgraph: {
    shows(seen) {
      // T-08: the clients show nothing for events.
      seen.events = [];
      seen.citations = null;
      if (seen.error) seen.error.code = seen.error.code === "chat_failed" ? "graph-rag-error" : "gateway-error";
    },
    // The messages on a socket are uncompressed JSON.
    hasEnd: (body) => body.includes('"complete":true}'),
    isWhole: (body) => body.includes('"complete":true}'),
  },
};
