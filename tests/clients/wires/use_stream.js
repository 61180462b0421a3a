// Renders `useStream` of npm `@langchain/langgraph-sdk` in a window without a browser, and reports
// the state that a page has.
import { Window } from "happy-dom";

const window = new Window({ url: "http://page.test/" });
for (const [name, value] of Object.entries({ window, document: window.document, sessionStorage: window.sessionStorage })) {
  globalThis[name] = value;
}
globalThis.navigator ??= window.navigator; // Node 20 has none
const { createElement } = await import("react");
const { createRoot } = await import("react-dom/client");
const HOOKS = {
  "2.0.0": (await import("@langchain/langgraph-sdk/react")).useStream,
  "1.15.0": (await import("langgraph-sdk1/react")).useStream,
};

/** The versions of the package. */
export const VERSIONS = Object.keys(HOOKS);
/** The storage in which the hook keeps the run to reconnect to. */
export const storage = window.sessionStorage;

/** Mounts a page. `state()` is what it renders; `until` waits for a state. */
export function mount(version, options) {
  let current;
  const waiting = new Set();
  const seen = [];
  let runs = 0;
  function Page() {
    current = HOOKS[version](options);
    // The hook asks for the modes that a page reads.
    const { messages, values, isLoading, error, interrupt } = current;
    if (seen.at(-1)?.isLoading && !isLoading) runs += 1;
    seen.push({ shown: shown(messages), isLoading });
    for (const check of [...waiting]) check({ messages, values, isLoading, error, interrupt });
    return null;
  }
  const root = createRoot(document.createElement("div"));
  root.render(createElement(Page));
  const state = () => {
    const { messages, values, isLoading, error, interrupt } = current;
    return { messages, values, isLoading, error, interrupt };
  };
  const until = (test, limit = 20_000) =>
    new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`no such state: ${JSON.stringify(current && state())}`)), limit);
      const check = (rendered) => {
        if (!test(rendered)) return;
        clearTimeout(timer);
        waiting.delete(check);
        resolve(rendered);
      };
      waiting.add(check);
      if (current) check(state());
    });
  /** Waits until this many runs have ended. */
  const ended = (number = 1) => until(() => runs >= number);
  return { hook: () => current, state, until, ended, seen, unmount: () => root.unmount() };
}

/** What a chat shows of messages: questions, thoughts, text, calls with their results, citations. */
export function shown(messages) {
  const results = new Map(messages.filter(({ type }) => type === "tool").map((message) => [message.tool_call_id, message]));
  return messages.flatMap((message) => {
    if (message.type === "human") return [`user: ${message.content}`];
    if (message.type !== "ai") return [];
    const { reasoning_content: thought, citations } = message.additional_kwargs ?? {};
    return [
      ...(thought ? [`thought: ${thought}`] : []),
      ...(message.content ? [`text: ${message.content}`] : []),
      ...(message.tool_calls ?? []).map(({ id, name }) => `${name}: ${results.get(id)?.status ?? "running"}`),
      ...(citations?.length ? [`citations: ${citations.length}`] : []),
    ];
  });
}
