// `useStream` and `Client` of npm `@langchain/langgraph-sdk`, and PyPI `langgraph-sdk`, against the
// reference server: what a chat shows of a question, a failure, a stop and a reload.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client as Client2 } from "@langchain/langgraph-sdk";
import { Client as Client1 } from "langgraph-sdk1";
import { startServer } from "../harness.js";
import { mount, shown, storage, VERSIONS } from "./use_stream.js";

const run = promisify(execFile);
const PYTHON = process.env.TEST_PYTHON ?? "python3";
const SCRIPT = fileURLToPath(new URL("run_langgraph.py", import.meta.url));
const QUESTION = "What is the commit rule?";

let server;
before(async () => (server = await startServer()));
after(() => server.stop());

const human = (content) => ({ messages: [{ type: "human", content }] });
const connect = (Client, options) => new Client({ apiUrl: server.url, apiKey: null, callerOptions: { maxRetries: 0 }, ...options });
const open = (version, options) =>
  mount(version, { apiUrl: server.url, apiKey: null, assistantId: "ragwire", callerOptions: { maxRetries: 0 }, ...options });

for (const version of VERSIONS) {
  test(`useStream of ${version} shows the retrieval while it happens, the answer and its citations`, async () => {
    let thread;
    const page = open(version, { onThreadId: (id) => (thread = id) });
    try {
      await page.until(() => true);
      page.hook().submit(human(QUESTION));
      const { messages, error } = await page.ended();
      assert.equal(error, undefined);
      const all = shown(messages);
      assert.equal(all[0], `user: ${QUESTION}`);
      assert.ok(all.includes("search_documents: success"), all.join("\n"));
      assert.ok(all.some((line) => line.startsWith("text: ")), all.join("\n"));
      assert.match(all.join("\n"), /citations: [1-9]/);
      // A search was shown while it ran, and the text grew.
      const states = page.seen.map((state) => state.shown.join("\n"));
      assert.ok(states.some((state) => !state.includes("text: ") && state.includes("search_documents")));
      assert.ok(thread);
      // The next page of the thread shows the same, from the server.
      const next = open(version, { threadId: thread, fetchStateHistory: true });
      try {
        const loaded = await next.until((state) => state.messages.length > 0);
        assert.deepEqual(shown(loaded.messages), all);
        next.hook().submit(human("And why?"));
        const { messages } = await next.ended();
        assert.equal(shown(messages).filter((line) => line.startsWith("user: ")).length, 2);
      } finally {
        next.unmount();
      }
    } finally {
      page.unmount();
    }
  });

  test(`useStream of ${version} shows a failure, also after a reload`, async () => {
    const client = connect(Client2);
    const { thread_id: threadId } = await client.threads.create();
    const page = open(version, { threadId });
    try {
      await page.until(() => true);
      page.hook().submit(human("fault:text"));
      const { error } = await page.ended();
      assert.deepEqual([error.name, typeof error.message], ["chat_failed", "string"]);
    } finally {
      page.unmount();
    }
    const next = open(version, { threadId, fetchStateHistory: true });
    try {
      const { error } = await next.until((state) => state.error);
      assert.equal(error.name, "chat_failed");
    } finally {
      next.unmount();
    }
  });

  test(`useStream of ${version} shows a question, also after a reload, and the answer to it`, async () => {
    const client = connect(Client2);
    const { thread_id: threadId } = await client.threads.create();
    const page = open(version, { threadId });
    try {
      await page.until(() => true);
      page.hook().submit(human("fault:ask"));
      const { interrupt } = await page.ended();
      assert.equal(interrupt.value.prompt, "Delete 3 files?");
      assert.equal((await client.threads.get(threadId)).status, "interrupted");
      const next = open(version, { threadId, fetchStateHistory: true });
      try {
        const loaded = await next.until((state) => state.interrupt);
        assert.deepEqual(loaded.interrupt, interrupt);
        next.hook().submit(undefined, { command: { resume: "Approve" } });
        const { messages, interrupt: open } = await next.ended();
        assert.equal(shown(messages).at(-1), "text: They are deleted.");
        assert.equal(open, undefined);
      } finally {
        next.unmount();
      }
    } finally {
      page.unmount();
    }
  });

  test(`useStream of ${version} reconnects on mount and shows the whole answer once`, async () => {
    const client = connect(Client2);
    const { thread_id: threadId } = await client.threads.create();
    const options = { threadId, reconnectOnMount: true, fetchStateHistory: true };
    const page = open(version, options);
    await page.until(() => true);
    page.hook().submit(human("fault:slow"));
    await page.until(({ messages }) => shown(messages).some((line) => line.startsWith("text: ")));
    page.unmount();
    assert.ok(storage.getItem(`lg:stream:${threadId}`));
    const next = open(version, options);
    try {
      await next.ended();
      const { messages } = next.state();
      const texts = shown(messages).filter((line) => line.startsWith("text: "));
      assert.equal(texts.length, 1, JSON.stringify(messages));
      const state = await client.threads.getState(threadId);
      assert.deepEqual(shown(messages), shown(state.values.messages));
      assert.equal(storage.getItem(`lg:stream:${threadId}`), null);
    } finally {
      next.unmount();
    }
  });
}

for (const [name, Client] of [["2.0.0", Client2], ["1.15.0", Client1]]) {
  test(`Client of ${name} joins, cancels and lists runs`, async () => {
    const client = connect(Client);
    const { thread_id: thread } = await client.threads.create();
    const created = await client.runs.create(thread, "ragwire", { input: human("fault:slow") });
    const seen = [];
    for await (const part of client.runs.joinStream(thread, created.run_id, { streamMode: ["messages-tuple"] })) {
      seen.push(part);
      if (seen.length === 4) await client.runs.cancel(thread, created.run_id, true);
    }
    assert.equal(seen.at(-1).event, "end");
    assert.equal(seen.at(-1).data.status, "stopped");
    assert.deepEqual((await client.runs.list(thread)).map(({ run_id, status }) => [run_id, status]), [
      [created.run_id, "interrupted"],
    ]);
    // The rest after any event is exactly what came after it.
    for (const at of [0, 2, seen.length - 2]) {
      const rest = [];
      for await (const part of client.runs.joinStream(thread, created.run_id, { lastEventId: seen[at].id })) rest.push(part);
      assert.deepEqual(rest, seen.slice(at + 1));
    }
    const values = await client.runs.wait(thread, "ragwire", { input: human(QUESTION) });
    assert.equal(values.messages.at(-1).type, "ai");
    await assert.rejects(client.threads.getState("unknown-thread"), /404/);
    const stateless = await client.runs.wait(null, "ragwire", { input: human(QUESTION) });
    assert.equal(stateless.messages[0].content, QUESTION);
    assert.equal((await client.assistants.search())[0].assistant_id, "ragwire");
    await client.threads.delete(thread);
    await assert.rejects(client.threads.get(thread), /404/);
  });
}

test("PyPI langgraph-sdk asks, joins, cancels and reads the state", async () => {
  const seen = JSON.parse((await run(PYTHON, [SCRIPT, server.url])).stdout);
  assert.deepEqual(seen.types, ["human", "ai"]);
  assert.ok(seen.text.length > 0);
  assert.equal(seen.text, seen.state);
  assert.deepEqual([seen.ended, seen.status], ["end", "interrupted"]);
  assert.equal(seen.failure, "chat_failed");
});
