// The prompts, and the true content of each turn whatever the client. PROTOCOL.md describes how
// each wire sends it.

export const FALLBACK = "I hit an internal error while gathering evidence. Please retry.";

/** As in crates/ragwire-server/src/faults.rs. */
const UNICODE =
  "h\u00e9 \u{1f600}\u200d\u{1f680} a\u2028b\u2029c\u0085d\u000be\u000cf\r\ng\rh\ti\0j\u0001k\u001bl\u001dm\u001en\u007f" +
  "o\ufeffp\\u2028 data: x\n\nevent: y\n\n";
const HOSTILE = `<img src=x onerror="document.title='owned'"> \u001e{"citations":[]} \u001d [1] </script>`;

const failed = { outcome: "failed", error: { code: "chat_failed", message: FALLBACK } };

/** `text`, `events` and `citations` of the first case are those of the route without a stream. */
export const CASES = [
  { name: "full turn", prompt: "When does the response begin?", outcome: "completed" },
  { name: "empty", prompt: "fault:empty", outcome: "completed", text: "", events: [], citations: 0 },
  { name: "zero events", prompt: "fault:no-events", outcome: "completed", text: "Yes, it is.", events: [], citations: 0 },
  { name: "before commit", prompt: "fault:reject", ...failed, outcome: "http-error", status: 500, text: "", events: [] },
  { name: "in phase 1", prompt: "fault:retrieval", ...failed, text: "", events: ["search"] },
  {
    name: "between tokens",
    prompt: "fault:text",
    ...failed,
    text: "The first half of an answer that breaks ",
    events: ["search"],
  },
  { name: "panic", prompt: "fault:panic", ...failed, text: "", events: ["search"] },
  { name: "stop", prompt: "fault:stop", outcome: "stopped", text: "The first half of an answer ", events: ["search"] },
  {
    name: "unicode",
    prompt: "fault:unicode",
    outcome: "completed",
    text: UNICODE,
    events: ["search", "reasoning"],
    citations: 1,
  },
  {
    name: "hostile",
    prompt: "fault:hostile",
    outcome: "completed",
    text: HOSTILE,
    events: ["search", "reasoning"],
    citations: 1,
  },
];

/** The turn that is running when the server shuts down: it would wait forever. */
export const SHUTDOWN = {
  name: "shutdown",
  prompt: "fault:silent",
  outcome: "failed",
  error: { code: "shutting_down", message: "The server is restarting. Please retry in a moment." },
  text: "",
  events: ["search"],
};
/** The turn that is cut at every byte. */
export const SHORT = CASES.find(({ name }) => name === "zero events");
/** The same with an event before the text and a failure after it, for our own parsers. */
export const SHORT_FAILURE = CASES.find(({ name }) => name === "between tokens");
/** The turn that is sent one byte at a time: it contains every kind of byte. */
export const BYTEWISE = CASES.find(({ name }) => name === "unicode");
