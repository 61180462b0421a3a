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

for (const [name, Client] of [["2.0.0", Client2], ["1.15.0", Client1]]) {
  test(`Client of ${name} changes the messages of a thread, and the next question follows them`, async () => {
    const client = connect(Client);
    const { thread_id: thread } = await client.threads.create();
    const texts = async () => (await client.threads.getState(thread)).values.messages.map(({ type, content }) => [type, content]);
    // A thread that somebody imports.
    const { checkpoint } = await client.threads.updateState(thread, {
      values: { messages: [{ type: "human", content: "Imported?" }, { type: "ai", content: "Yes." }] },
    });
    assert.equal(checkpoint.thread_id, thread);
    assert.deepEqual(await texts(), [["human", "Imported?"], ["ai", "Yes."]]);
    assert.deepEqual((await client.threads.getState(thread, checkpoint.checkpoint_id)).values.messages.length, 2);
    assert.deepEqual((await client.threads.getState(thread, checkpoint)).values.messages.length, 2);
    await client.runs.wait(thread, "ragwire", { input: human(QUESTION) });
    assert.deepEqual((await texts()).filter(([type]) => type === "human").map(([, text]) => text), ["Imported?", QUESTION]);
    // The answer of the newest run, by the ID that the client has seen.
    const { messages } = (await client.threads.getState(thread)).values;
    const answer = messages.findLast(({ type }) => type === "ai");
    assert.ok(answer.additional_kwargs.citations.length > 0);
    await client.threads.updateState(thread, { values: { messages: [{ ...answer, content: "Corrected." }] }, asNode: "model" });
    assert.deepEqual((await texts()).at(-1), ["ai", "Corrected."]);
    await client.threads.updateState(thread, { values: { messages: [{ type: "remove", id: `${thread}-0` }] } });
    assert.deepEqual((await texts()).map(([, text]) => text), ["Yes.", QUESTION, "Corrected."]);
    const [state] = await client.threads.getHistory(thread, { limit: 5 });
    assert.deepEqual(state.values.messages.at(-1).content, "Corrected.");
    assert.deepEqual(await client.threads.getHistory(thread, { before: { configurable: state.checkpoint } }), []);
    for (const [values, status] of [
      [{ topic: "birds" }, /422/],
      [{ messages: [{ type: "tool", content: "x", tool_call_id: "c" }] }, /422/],
      [{ messages: [{ type: "remove", id: "unknown" }] }, /409/],
    ]) {
      await assert.rejects(client.threads.updateState(thread, { values }), status);
    }
    const stale = { values: { messages: [] }, checkpointId: checkpoint.checkpoint_id };
    await assert.rejects(client.threads.updateState(thread, stale), /409/);
    await assert.rejects(client.threads.getState(thread, checkpoint.checkpoint_id), /404/);
    const { run_id: run } = await client.runs.create(thread, "ragwire", { input: human("fault:long") });
    await assert.rejects(client.threads.updateState(thread, { values: { messages: [] } }), /409/);
    await client.runs.cancel(thread, run, true);
  });

  test(`Client of ${name} pages through all runs of a thread`, async () => {
    const client = connect(Client);
    const { thread_id: thread } = await client.threads.create();
    const ids = [];
    for (const question of [QUESTION, "fault:text", "Who?", "What?"]) {
      const { run_id: id } = await client.runs.create(thread, "ragwire", { input: human(question) });
      await client.runs.join(thread, id);
      ids.unshift(id);
    }
    const running = await client.runs.create(thread, "ragwire", { input: human("fault:long") });
    ids.unshift(running.run_id);
    const list = async (options) => (await client.runs.list(thread, options)).map(({ run_id: id, status }) => [id, status]);
    const all = await list();
    assert.deepEqual(all.map(([id]) => id), ids);
    assert.deepEqual(all.map(([, status]) => status), ["running", "success", "success", "error", "success"]);
    const pages = [];
    for (let offset = 0; offset < 6; offset += 2) pages.push(await list({ limit: 2, offset }));
    assert.deepEqual(pages, [all.slice(0, 2), all.slice(2, 4), all.slice(4)]);
    assert.deepEqual(await list({ status: "success", limit: 2, offset: 1 }), [all[2], all[4]]);
    await client.runs.cancel(thread, running.run_id, true);
    assert.equal((await list({ limit: 1 }))[0][1], "interrupted");
    const [newest] = await client.runs.list(thread, { limit: 1 });
    assert.ok(Date.parse(newest.created_at) <= Date.parse(newest.updated_at));
    assert.deepEqual(await client.runs.get(thread, running.run_id), newest);
  });
}

test("threads are searched by their owner, and never by anyone else", async () => {
  const owned = await startServer({ args: ["--owner-header", "x-user"] });
  try {
    const as = (user) => connect(Client2, { apiUrl: owned.url, defaultHeaders: { "x-user": user } });
    const [ada, eva] = [as("ada"), as("eva")];
    const first = await ada.threads.create({ metadata: { topic: "birds" } });
    const second = await ada.threads.create({ metadata: { topic: "rules" } });
    assert.deepEqual(first.metadata, { topic: "birds" });
    await ada.runs.wait(first.thread_id, "ragwire", { input: human(QUESTION) });
    const ids = async (query) => (await ada.threads.search(query)).map(({ thread_id: id }) => id);
    assert.deepEqual(await ids(), [first.thread_id, second.thread_id]);
    assert.deepEqual(await ids({ sortBy: "created_at", sortOrder: "asc" }), [first.thread_id, second.thread_id]);
    assert.deepEqual(await ids({ sortOrder: "asc" }), [second.thread_id, first.thread_id]);
    assert.deepEqual(await ids({ limit: 1, offset: 1 }), [second.thread_id]);
    assert.deepEqual(await ids({ metadata: { topic: "rules" } }), [second.thread_id]);
    // What chats select their threads by.
    assert.deepEqual(await ids({ metadata: { graph_id: "ragwire" } }), [first.thread_id]);
    assert.deepEqual(await ids({ ids: [second.thread_id] }), [second.thread_id]);
    assert.deepEqual(await ids({ status: "error" }), []);
    assert.equal(await ada.threads.count({ status: "idle" }), 2);
    const [found] = await ada.threads.search({ limit: 1 });
    assert.equal(found.values.messages[0].content, QUESTION);
    const changed = await ada.threads.update(second.thread_id, { metadata: { seen: true } });
    assert.deepEqual(changed.metadata, { topic: "rules", seen: true });
    assert.deepEqual(await eva.threads.search(), []);
    await assert.rejects(eva.threads.get(first.thread_id), /404/);
    await ada.threads.delete(first.thread_id);
    assert.deepEqual(await ids(), [second.thread_id]);
    // Without an owner everyone would find the threads of everyone.
    await connect(Client2).threads.create();
    assert.deepEqual(await connect(Client2).threads.search(), []);
  } finally {
    await owned.stop();
  }
});

test("PyPI langgraph-sdk asks, joins, cancels and reads the state", async () => {
  const seen = JSON.parse((await run(PYTHON, [SCRIPT, server.url])).stdout);
  assert.deepEqual(seen.types, ["human", "ai"]);
  assert.ok(seen.text.length > 0);
  assert.equal(seen.text, seen.state);
  assert.deepEqual([seen.ended, seen.status], ["end", "interrupted"]);
  assert.equal(seen.failure, "chat_failed");
  assert.deepEqual(seen.runs, [seen.run, seen.first]);
  assert.deepEqual(seen.edited, ["Imported?", "Yes."]);
  assert.deepEqual([seen.history, seen.found], [1, 0]);
});
