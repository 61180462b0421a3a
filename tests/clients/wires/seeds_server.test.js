// What unmodified clients show of the reference server's turns: the store behind Eve's hook, and the
// readers that the pages of the session chat and of Forge print.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as eve011 from "eve/client";
import * as eve018 from "eve018/client";
import { startServer } from "../harness.js";
import { streamQuery } from "./documented_readers/forge.mjs";
import { streamChat } from "./documented_readers/session_chat.mjs";

const CLIENTS = { "eve 0.11.10": eve011, "eve 0.18.2": eve018 };
const QUESTION = "When does the response begin?";
const FALLBACK = "I hit an internal error while gathering evidence. Please retry.";

let server;
before(async () => (server = await startServer()));
after(() => server.stop());

/** The store that `useEveAgent` renders. */
const open = (eve) => new eve.EveAgentStore({ host: server.url, reducer: eve.defaultMessageReducer() });

/** The parts of all messages in order, in short. */
const parts = (store) =>
  store.snapshot.data.messages.flatMap(({ role, parts }) =>
    parts.map((part) => [role, part.type, ...(part.toolName ? [part.toolName] : []), ...(part.state ? [part.state] : [])]),
  );

for (const [name, eve] of Object.entries(CLIENTS)) {
  test(`${name} shows the retrieval of an ordinary question`, async () => {
    const store = open(eve);
    await store.send({ message: QUESTION });
    const tool = (name) => ["assistant", "dynamic-tool", name, "output-available"];
    assert.deepEqual(parts(store), [
      ["user", "text", "done"],
      ["assistant", "step-start"],
      tool("search_documents"),
      tool("search_documents"),
      tool("grade_documents"),
      tool("rerank_documents"),
      ["assistant", "text", "done"],
      tool("verify_answer"),
    ]);
    assert.equal(store.snapshot.status, "ready");
    const [search] = store.snapshot.data.messages[1].parts.filter(({ toolName }) => toolName);
    assert.equal(search.input.query, QUESTION);
    assert.ok(search.output.chunks_found > 0);
  });

  test(`${name} shows a search before its result`, async () => {
    const store = open(eve);
    const seen = new Set();
    store.subscribe(() => parts(store).forEach(([, , tool, state]) => seen.add(`${tool} ${state}`)));
    await store.send({ message: QUESTION });
    assert.ok(seen.has("search_documents input-available"));
  });

  test(`${name} shows every failure as an error, and asks on`, async () => {
    for (const [fault, text] of [
      ["fault:retrieval", []],
      ["fault:text", [["assistant", "text", "done"]]],
      ["fault:panic", []],
    ]) {
      const store = open(eve);
      await store.send({ message: fault });
      const { status, error } = store.snapshot;
      assert.deepEqual([status, error?.name, error?.message], ["error", "chat_failed", FALLBACK], fault);
      const texts = parts(store).filter(([role, type]) => role === "assistant" && type === "text");
      assert.deepEqual(texts, text, "no text is left streaming");
      const tools = parts(store).filter(([, type]) => type === "dynamic-tool");
      assert.ok(tools.every(([, , , state]) => state !== "input-available"), `${fault}: ${tools}`);
      await store.send({ message: "fault:no-events" });
      assert.equal(store.snapshot.status, "ready");
    }
  });
}

test("the session chat's reader shows rounds, tools and the answer", async () => {
  const { id } = await (await fetch(`${server.url}/v1/sessions`, { method: "POST" })).json();
  const events = [];
  await streamChat(`${server.url}/v1/sessions/${id}/chat/stream`, QUESTION, (event) => events.push(event));
  const known = ["round_start", "generating", "thinking", "tool_start", "tool_end", "complete", "error"];
  const shown = events.filter(({ type }) => known.includes(type));
  const pair = (tool) => [`tool_start ${tool} 1`, `tool_end ${tool} 1`];
  assert.deepEqual(
    shown.map(({ type, tool_name, round }) => [type, tool_name, round].filter(Boolean).join(" ")),
    [
      "round_start 1",
      ...pair("search_documents"),
      ...pair("search_documents"),
      ...pair("grade_documents"),
      ...pair("rerank_documents"),
      "generating 1",
      ...pair("verify_answer"),
      "complete",
    ],
  );
  assert.equal(shown[1].tool_args.query, QUESTION);
  assert.ok(JSON.parse(shown[2].tool_result).chunks_found > 0);
  const { response } = shown.at(-1);
  assert.ok(response.content.length > 0);
  assert.deepEqual([response.tool_calls.length, response.tool_results.length, response.rounds_used], [5, 5, 1]);
});

/** The events that Forge's reader gets. */
async function query(url, question, mode) {
  const events = [];
  await streamQuery(`${url}/api/query/stream`, question, mode, (event) => events.push(event));
  return events;
}

const ends = (events) => events.slice(-2).map(({ type, code, mode }) => [type, code ?? mode]);

test("Forge's reader shows an ordinary question", async () => {
  const events = await query(server.url, QUESTION, "direct");
  const types = events.map(({ type }) => type);
  assert.deepEqual(
    types.filter((type, index) => type !== "search" && type !== types[index - 1]),
    [
      "query_analysis",
      "retrieval_start",
      "retrieval_result",
      "retrieval_start",
      "retrieval_result",
      "crag_evaluation",
      "rerank_result",
      "generation_start",
      "token",
      "verification",
      "sources",
      "done",
    ],
  );
  assert.equal(events.at(-1).mode, "direct");
});

test("Forge's reader shows failures and refusals as an error, then done", async () => {
  for (const [question, mode, code, asked] of [
    ["fault:reject", "direct", "LLM_ERROR", "direct"],
    ["fault:text", "agentic", "LLM_ERROR", "agentic"],
    ["fault:panic", "direct", "LLM_ERROR", "direct"],
    [" ", "direct", "INVALID_REQUEST", undefined],
    ["Why?", "other", "INVALID_REQUEST", undefined],
  ]) {
    const events = await query(server.url, question, mode);
    assert.deepEqual(ends(events), [["error", code], ["done", asked]], question);
  }
  const refused = await fetch(`${server.url}/api/query/stream`, { method: "POST", headers: { "content-type": "application/json" }, body: "{" });
  assert.deepEqual([refused.status, refused.headers.get("content-type")], [400, "text/event-stream"]);
});

test("Forge's reader is asked to upload documents if there are none", async () => {
  const docs = mkdtempSync(join(tmpdir(), "ragwire-docs-"));
  const empty = await startServer({ args: ["--docs", docs] });
  try {
    const events = await query(empty.url, QUESTION, "agentic");
    assert.deepEqual(ends(events), [["error", "NO_DOCUMENTS"], ["done", "agentic"]]);
  } finally {
    await empty.stop();
    rmSync(docs, { recursive: true });
  }
});
