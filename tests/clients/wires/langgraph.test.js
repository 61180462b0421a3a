// The LangGraph wire, read by `Client.runs.stream` and by the state of `useStream` of npm
// `@langchain/langgraph-sdk`, and by PyPI `langgraph-sdk`.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client as Client2 } from "@langchain/langgraph-sdk";
import { Client as Client1 } from "langgraph-sdk1";
import { mount, shown, VERSIONS } from "./use_stream.js";
import { parks, serve, streams, vectors } from "./vectors.js";

const run = promisify(execFile);
const PYTHON = process.env.TEST_PYTHON ?? "python3";
const SCRIPT = fileURLToPath(new URL("read_langgraph.py", import.meta.url));
const STREAM = { headers: { "content-type": "text/event-stream" } };
/** The history of a thread that the page does not load. */
const HISTORY = { data: [], error: undefined, isLoading: false, mutate: async () => [] };
const VECTORS = new Map([...vectors("langgraph")].filter(([, vector]) => !parks(vector)));

/** The events in the bytes of a vector. */
const events = (chunks) =>
  chunks
    .join("")
    .split("\n\n")
    .filter((block) => block)
    .map((block) => {
      const lines = block.split("\n").map((line) => line.split(/: (.*)/s));
      const field = Object.fromEntries(lines);
      return { id: field.id, event: field.event, data: JSON.parse(field.data) };
    });

async function stream(Client, url) {
  const client = new Client({ apiUrl: url, apiKey: null, callerOptions: { maxRetries: 0 } });
  const seen = [];
  for await (const part of client.runs.stream("t", "rag", { input: {}, streamMode: ["messages-tuple"] })) {
    seen.push({ id: part.id, event: part.event, data: part.data });
  }
  return seen;
}

const clients = {
  "npm 2.0.0": (url) => stream(Client2, url),
  "npm 1.15.0": (url) => stream(Client1, url),
  PyPI: async (url) => JSON.parse((await run(PYTHON, [SCRIPT, url])).stdout),
};

assert.ok(VECTORS.size >= 8);
for (const [id, vector] of VECTORS) {
  for (const [name, read] of Object.entries(clients)) {
    for (const byteAtATime of [false, true]) {
      test(`${name}, ${id}${byteAtATime ? ", one byte per write" : ""}`, async () => {
        const server = await serve(vector.chunks, { ...STREAM, byteAtATime });
        try {
          assert.deepEqual(await read(server.url), events(vector.chunks));
        } finally {
          await server.stop();
        }
      });
    }
  }
}

test("a keep-alive is no event, also after one with an id", async () => {
  const chunks = VECTORS.get("stopped_after_text").chunks;
  const server = await serve([chunks[0], ": keep-alive\n", chunks[1]], STREAM);
  try {
    for (const read of Object.values(clients)) assert.deepEqual(await read(server.url), events(chunks));
  } finally {
    await server.stop();
  }
});

/** What `useStream` shows of a vector. */
const SHOWN = {
  full_turn: ["search_documents: success", "text: Yes.\n", "citations: 1"],
  stopped_after_text: ["text: Ye"],
  stopped_first: [],
  thoughts_and_calls: ["thought: Let me.\n\nSo.", "text: Look:", "t: error", "text: No."],
  retract: ["text: Yes, ok"],
};

for (const version of VERSIONS) {
  for (const [id, expected] of Object.entries(SHOWN)) {
    test(`useStream of ${version}, ${id}`, async () => {
      const server = await serve(VECTORS.get(id).chunks, STREAM);
      const page = mount(version, { apiUrl: server.url, apiKey: null, assistantId: "rag", threadId: "t", thread: HISTORY });
      try {
        await page.until(() => true);
        await page.hook().submit({ messages: [] });
        const { messages, error } = await page.ended();
        assert.deepEqual(shown(messages), expected);
        assert.equal(error, undefined);
      } finally {
        page.unmount();
        await server.stop();
      }
    });
  }

  test(`useStream of ${version} shows a failure and the text before it`, async () => {
    const server = await serve(VECTORS.get("failed_between_tokens").chunks, STREAM);
    const page = mount(version, { apiUrl: server.url, apiKey: null, assistantId: "rag", threadId: "t", thread: HISTORY });
    try {
      await page.until(() => true);
      await page.hook().submit({ messages: [] });
      const { messages, error } = await page.ended();
      assert.deepEqual([error.name, error.message, shown(messages)], ["busy", "Full.", ["text: Ye"]]);
    } finally {
      page.unmount();
      await server.stop();
    }
  });

  test(`useStream of ${version} shows a question and the run after its answer`, async () => {
    const [asked, answered] = streams(vectors("langgraph").get("parks"));
    for (const [chunks, expected, interrupt] of [
      [asked, ["user: Why?", "text: Hm."], { id: "q1", value: { kind: "choice", prompt: "Which?", options: ["a", "b"] } }],
      [answered, ["user: Why?", "text: Hm.", "text: A."], undefined],
    ]) {
      const server = await serve(chunks, STREAM);
      const page = mount(version, { apiUrl: server.url, apiKey: null, assistantId: "rag", threadId: "t", thread: HISTORY });
      try {
        await page.until(() => true);
        await page.hook().submit(undefined, { command: { resume: "a" } });
        const state = await page.ended();
        assert.deepEqual([shown(state.messages), state.interrupt], [expected, interrupt]);
      } finally {
        page.unmount();
        await server.stop();
      }
    }
  });
}
