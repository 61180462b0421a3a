// The reference server's routes of Eve, with two published clients of version 16.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import * as eve011 from "eve/client";
import * as eve018 from "eve018/client";
import { startProxy, startServer } from "../harness.js";

const CLIENTS = { "eve 0.11.10": eve011, "eve 0.18.2": eve018 };
const FALLBACK = "I hit an internal error while gathering evidence. Please retry.";

let server;
before(async () => (server = await startServer()));
after(() => server.stop());

/** A session as a page uses it: `send` returns a turn's result, and all events go through the reducer. */
function open(eve, host = server.url) {
  const session = new eve.Client({ host }).session();
  const reducer = eve.defaultMessageReducer();
  let data = reducer.initial();
  return {
    session,
    async send(message) {
      const result = await (await session.send(message)).result();
      for (const event of result.events) data = reducer.reduce(data, event);
      return result;
    },
    get messages() {
      return data.messages;
    },
  };
}

const texts = (message) => message.parts.filter((part) => part.type === "text").map((part) => part.text);
const types = ({ events }) => events.map((event) => event.type);

/** Every event of a session from its beginning, read by a new client. */
async function replay(eve, { sessionId }, startIndex = 0) {
  const session = new eve.Client({ host: server.url }).session({ sessionId, streamIndex: 0 });
  const events = [];
  for await (const event of session.stream({ startIndex })) events.push(event);
  return events;
}

for (const [name, eve] of Object.entries(CLIENTS)) {
  test(`${name}: two turns in one session`, async () => {
    const chat = open(eve);
    const first = await chat.send("When does the response begin?");
    assert.equal(first.status, "waiting");
    assert.equal(types(first)[0], "session.started");
    const second = await chat.send("fault:no-events");
    assert.equal(second.status, "waiting");
    assert.equal(second.message, "Yes, it is.");
    assert.deepEqual(
      chat.messages.map((message) => [message.id, message.role, message.metadata.status, texts(message)]),
      [
        ["turn_0:user", "user", "complete", ["When does the response begin?"]],
        ["turn_0:assistant", "assistant", "complete", [first.message]],
        ["turn_1:user", "user", "complete", ["fault:no-events"]],
        ["turn_1:assistant", "assistant", "complete", ["Yes, it is."]],
      ],
    );
    assert.ok(first.message.length > 0);
    assert.ok(first.events.at(-1).data.metadata.citations.length > 0);
    const all = [...first.events, ...second.events];
    assert.equal(chat.session.state.streamIndex, all.length);
    // A client that connects later, or again, gets the same lines.
    assert.deepEqual(await replay(eve, chat.session.state), all);
    assert.deepEqual(await replay(eve, chat.session.state, first.events.length), second.events);
    assert.deepEqual(await replay(eve, chat.session.state, all.length), []);
  });

  test(`${name}: failures end the session, and stops leave it open`, async () => {
    const chat = open(eve);
    for (const [fault, text, status] of [
      ["fault:stop", ["The first half of an answer "], "waiting"],
      ["fault:empty", [], "waiting"],
      ["fault:text", ["The first half of an answer that breaks "], "failed"],
    ]) {
      const result = await chat.send(fault);
      assert.equal(result.status, status, fault);
      const ends = status === "failed" ? ["turn.failed", "session.failed"] : ["turn.completed", "session.waiting"];
      assert.deepEqual(types(result).slice(-2), ends, fault);
      assert.equal(result.message, text[0], fault);
      assert.deepEqual(texts(chat.messages.at(-1)), text, fault);
    }
    assert.equal(chat.messages.length, 6);
    for (const fault of ["fault:retrieval", "fault:panic"]) {
      const result = await open(eve).send(fault);
      const { code, message } = result.events.at(-1).data;
      assert.deepEqual([result.status, code, message], ["failed", "chat_failed", FALLBACK], fault);
    }
    // The client begins a new session.
    const next = await chat.send("fault:no-events");
    assert.deepEqual([types(next)[0], next.message], ["session.started", "Yes, it is."]);
  });

  test(`${name}: a turn that fails before its first event creates no session`, async () => {
    const chat = open(eve);
    await assert.rejects(chat.send("fault:reject"), { name: "ClientError", status: 500, message: FALLBACK });
    await assert.rejects(chat.send(" "), { name: "ClientError", status: 422, message: "The prompt is empty." });
    assert.equal((await chat.send("fault:no-events")).message, "Yes, it is.");
    const stolen = new eve.Client({ host: server.url }).session({ ...chat.session.state, continuationToken: "x" });
    await assert.rejects(stolen.send("mine"), { status: 409, message: "Stale or missing continuation token." });
  });

  test(`${name}: hostile text arrives as it was sent`, async () => {
    const chat = open(eve);
    const result = await chat.send("fault:unicode");
    const thought = result.events.find((event) => event.type === "reasoning.completed").data.reasoning;
    assert.ok(thought.includes("\u2028b\u2029c\u0085d") && thought.includes("\r\n"));
    assert.equal(result.message, thought);
    assert.deepEqual(texts(chat.messages[1]), [thought]);
  });

  test(`${name}: a cut connection resumes with exactly the rest, and the turn never stops`, async () => {
    const cut = async (cutAfter) => {
      const proxy = await startProxy(server.url, { cutAfter });
      try {
        const { sessionId } = await new eve.Client({ host: server.url }).session().send("fault:slow");
        const client = new eve.Client({ host: proxy.url, maxReconnectAttempts: 100 });
        const seen = [];
        for await (const event of client.session({ sessionId, streamIndex: 0 }).stream()) seen.push(event);
        return [seen, await replay(eve, { sessionId })];
      } finally {
        await proxy.stop();
      }
    };
    // Every connection breaks after that many bytes, including the head of the response.
    for (const [seen, all] of await Promise.all([1500, 2500, 5000].map(cut))) {
      assert.deepEqual(seen, all);
      assert.equal(seen.at(-1).type, "session.waiting");
      assert.ok(seen.filter((event) => event.type === "message.appended").length > 1);
    }
  });

  test(`${name}: health and info`, async () => {
    const client = new eve.Client({ host: server.url });
    assert.deepEqual(await client.health(), { ok: true, status: "ready", workflowId: "ragwire" });
    // 0.18.2 checks every member.
    const info = await client.info();
    assert.deepEqual([info.kind, info.agent.name, info.agent.model.id], ["eve-agent-info", "ragwire", "ragwire"]);
  });
}

test("a session in the documented vocabulary, which has only one kind of failure", async () => {
  const headers = { "content-type": "application/json" };
  const created = await fetch(`${server.url}/eve/v1/session?vocabulary=documented`, {
    method: "POST",
    headers,
    body: JSON.stringify({ message: "fault:text" }),
  });
  assert.equal(created.status, 202);
  const { sessionId, continuationToken } = await created.json();
  const events = await replay(eve018, { sessionId });
  // Pieces that wait together are sent as one, so the number of deltas depends on timing.
  const types = events.map((event) => event.type);
  assert.deepEqual(
    types.filter((type, index) => type !== types[index - 1]),
    [
      "session.started",
      "message.appended",
      "agent.start",
      "agent.tool_call",
      "search",
      "agent.tool_result",
      "agent.content.delta",
      "message.appended",
      "session.failed",
    ],
  );
  assert.equal(events.at(-1).data.error, FALLBACK);
  const again = await fetch(`${server.url}/eve/v1/session/${sessionId}`, {
    method: "POST",
    headers,
    body: JSON.stringify({ continuationToken, message: "more" }),
  });
  assert.equal(again.status, 410);
  assert.deepEqual(await again.json(), { ok: false, error: "Session is terminal." });
});
