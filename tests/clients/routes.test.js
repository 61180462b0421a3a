// The chat routes of the reference server, called by the clients for which they are made.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { HttpAgent } from "@ag-ui/client";
import * as ai6 from "ai";
import * as ai5 from "ai5";
import * as ai7 from "ai7";
import OpenAI, { APIError, NotFoundError, UnprocessableEntityError } from "openai";
import { FramedDecoder } from "../../clients/js/src/framed.js";
import { ask, startServer } from "./harness.js";

const QUESTION = "When does the response begin?";
const FALLBACK = "I hit an internal error while gathering evidence. Please retry.";
const HALF = "The first half of an answer that breaks ";

let server;
/** The turn as the framed wire sends it. */
let framedTurn;
before(async () => {
  server = await startServer();
  const reply = await fetch(`${server.url}/v1/turns`, ask(QUESTION));
  framedTurn = framed(new Uint8Array(await reply.arrayBuffer()));
});
after(async () => assert.equal(await server.stop(), 0));

function framed(bytes) {
  const decoder = new FramedDecoder();
  const items = decoder.feed(bytes);
  assert.equal(decoder.finish().status, "complete");
  const of = (type) => items.filter((item) => item.type === type);
  return {
    text: of("text").map((item) => item.text).join(""),
    events: of("event").map((item) => item.event.event),
    citations: of("end")[0].metadata.citations,
  };
}

/** Citations with exactly the members of ADR 0007, as the framed wire sends them. */
const strict = (citations) => citations.map(({ heading, ...citation }) => citation);

async function answered(turn, request_id, response) {
  const reply = await fetch(`${server.url}/v1/turns/${turn}/answer`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ request_id, response }),
  });
  return [reply.status, await reply.json()];
}

const CLIENTS = { "ai 5.0.277": ai5, "ai 6.0.322": ai6, "ai 7.0.173": ai7 };
const history = (...texts) =>
  texts.map((text, at) => ({
    id: `m${at}`,
    role: at % 2 ? "assistant" : "user",
    parts: [...(at % 2 ? [{ type: "step-start" }] : []), { type: "text", text }],
  }));

for (const [name, ai] of Object.entries(CLIENTS)) {
  const send = (messages, options) =>
    new ai.DefaultChatTransport({ api: `${server.url}/api/chat`, ...options }).sendMessages({
      chatId: "chat",
      messages,
      trigger: "submit-message",
    });

  test(`${name} chats`, async () => {
    for (const messages of [history(QUESTION), history("What is BM25?", "A ranking.", QUESTION)]) {
      const errors = [];
      const stream = await send(messages, { body: { model: "added by the page" } });
      let message;
      for await (const state of ai.readUIMessageStream({ stream, onError: (error) => errors.push(error) })) message = state;
      assert.deepEqual(errors, []);
      assert.match(message.id, /^[0-9a-f]{32}$/);
      const texts = message.parts.filter((part) => part.type === "text");
      assert.deepEqual(texts.map(({ text, state }) => [text, state]), [[framedTurn.text, "done"]]);
      assert.deepEqual(strict(message.metadata.citations), framedTurn.citations);
    }
  });

  test(`${name} reports failures`, async () => {
    const errors = [];
    let message;
    const stream = await send(history("fault:text"));
    for await (const state of ai.readUIMessageStream({ stream, onError: (error) => errors.push(error.message) })) message = state;
    assert.deepEqual(errors, [FALLBACK]);
    assert.equal(message.parts.find((part) => part.type === "text").text, HALF);
    assert.equal(message.metadata.status, "failed");
    for (const [messages, code] of [
      [history("fault:reject"), "chat_failed"],
      [history(" "), "invalid_request"],
    ]) {
      await assert.rejects(send(messages), (error) => JSON.parse(error.message).error.code === code);
    }
  });

  test(`${name} shows the question of a turn, and the page answers`, async () => {
    let turn;
    const stream = await send(history("fault:ask"), {
      fetch: async (...request) => {
        const reply = await fetch(...request);
        turn = reply.headers.get("x-ragwire-turn");
        return reply;
      },
    });
    let message;
    const asked = new Set();
    for await (const state of ai.readUIMessageStream({ stream })) {
      message = state;
      const question = state.parts.find((part) => part.type === "data-input_requested");
      if (question === undefined || asked.has(question.id)) continue;
      asked.add(question.id);
      assert.deepEqual(await answered(turn, question.data.request_id, question.data.options[1]), [200, { accepted: true }]);
    }
    assert.deepEqual([...asked], ["delete"]);
    const resolved = message.parts.find((part) => part.type === "data-input_resolved");
    assert.equal(resolved.data.response, "Reject");
    assert.equal(message.parts.find((part) => part.type === "text").text, "They are left alone.");
  });

  test(`${name} finds nothing to resume`, async () => {
    const chat = new ai.DefaultChatTransport({ api: `${server.url}/api/chat` });
    assert.equal(await chat.reconnectToStream({ chatId: "chat" }), null);
  });

  test(`${name} reads the framed wire if it accepts text`, async () => {
    const chat = new ai.TextStreamChatTransport({ api: `${server.url}/api/chat`, headers: { accept: "text/plain" } });
    const stream = await chat.sendMessages({ chatId: "chat", messages: history(QUESTION), trigger: "submit-message" });
    let text = "";
    for await (const part of stream) if (part.type === "text-delta") text += part.delta;
    assert.deepEqual(framed(new TextEncoder().encode(text)), framedTurn);
  });
}

test("an AG-UI agent runs, twice in one thread", async () => {
  const agent = new HttpAgent({ url: `${server.url}/ag-ui`, threadId: "thread" });
  for (const question of ["What is BM25?", QUESTION]) {
    agent.addMessage({ id: question, role: "user", content: question });
    const { result, newMessages } = await agent.runAgent({});
    if (question !== QUESTION) continue;
    assert.deepEqual(strict(result.citations), framedTurn.citations);
    const answers = newMessages.filter(({ content }) => content !== undefined).filter(({ role }) => role !== "tool");
    assert.deepEqual(answers.map(({ role, content }) => [role, content]), [["assistant", framedTurn.text]]);
  }
});

test("an AG-UI agent reports failures", async () => {
  const run = async (content) => {
    const agent = new HttpAgent({ url: `${server.url}/ag-ui`, threadId: "thread" });
    agent.addMessage({ id: "1", role: "user", content });
    const seen = {};
    const { error: log } = console;
    console.error = () => {}; // It logs what it throws.
    try {
      await agent.runAgent({}, { onRunErrorEvent: ({ event }) => void (seen.code = event.code) });
    } catch (error) {
      seen.thrown = error.message.split(":")[0];
    } finally {
      console.error = log;
    }
    return seen;
  };
  assert.deepEqual(await run("fault:text"), { code: "chat_failed" });
  assert.deepEqual(await run("fault:reject"), { thrown: "HTTP 500" });
});

test("a question of an AG-UI run may be answered elsewhere, and the next run continues", async () => {
  let turn;
  const agent = new HttpAgent({
    url: `${server.url}/ag-ui`,
    threadId: "thread",
    fetch: async (...request) => {
      const reply = await fetch(...request);
      turn = reply.headers.get("x-ragwire-turn");
      return reply;
    },
  });
  agent.addMessage({ id: "1", role: "user", content: "fault:ask" });
  const seen = [];
  const subscriber = {
    onCustomEvent: async ({ event: { name, value } }) => {
      seen.push(name);
      if (name !== "input_requested") return;
      assert.deepEqual(await answered(turn, value.request_id, value.options[0]), [200, { accepted: true }]);
    },
  };
  await agent.runAgent({}, subscriber);
  const resume = agent.pendingInterrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: "Approve" }));
  const { newMessages } = await agent.runAgent({ resume }, subscriber);
  assert.deepEqual(seen, ["search", "input_requested", "input_resolved"]);
  assert.deepEqual(newMessages.map(({ content }) => content), ["They are deleted."]);
});

const openai = () => new OpenAI({ apiKey: "x", baseURL: `${server.url}/v1`, maxRetries: 0 });
const completion = (content, more) => ({ model: "ragwire", messages: [{ role: "user", content }], ...more });

test("OpenAI's SDK finds the model and asks it", async () => {
  const models = [];
  for await (const model of openai().models.list()) models.push(model.id);
  assert.deepEqual(models, ["ragwire"]);
  assert.equal((await openai().models.retrieve("ragwire")).id, "ragwire");
  const { data, response } = await openai().chat.completions.create(completion(QUESTION)).withResponse();
  assert.equal(response.status, 200);
  assert.equal(data.choices[0].message.content, framedTurn.text);
  assert.deepEqual(strict(data.ragwire.citations), framedTurn.citations);
  let text = "";
  const events = [];
  for await (const chunk of await openai().chat.completions.create(completion(QUESTION, { stream: true }))) {
    text += chunk.choices[0]?.delta.content ?? "";
    if (chunk.ragwire?.event) events.push(chunk.ragwire.event.event);
  }
  assert.deepEqual([text, events], [framedTurn.text, framedTurn.events]);
});

test("OpenAI's SDK raises failures as its own classes", async () => {
  const create = (...asked) => openai().chat.completions.create(completion(...asked));
  const no = (type, code) => (error) =>
    error.constructor === type && error.code === code && /^[0-9a-f]{32}$/.test(error.requestID);
  await assert.rejects(create("Why?", { model: "gpt-4o" }), no(NotFoundError, "model_not_found"));
  await assert.rejects(openai().models.retrieve("gpt-4o"), no(NotFoundError, "model_not_found"));
  await assert.rejects(create(""), no(UnprocessableEntityError, "invalid_request"));
  await assert.rejects(create("fault:text"), (error) => error.status === 500 && error.code === "chat_failed");
  const stream = await create("fault:text", { stream: true });
  let text = "";
  await assert.rejects(
    async () => {
      for await (const chunk of stream) text += chunk.choices[0].delta.content ?? "";
    },
    (error) => error instanceof APIError && error.message === FALLBACK,
  );
  assert.equal(text, HALF);
});

// Follows the rules of the session chat's page: lines that begin with `data: `, each JSON.
test("the session chat's reader gets its session", async () => {
  const post = (path, body) =>
    fetch(`${server.url}/v1/sessions${path}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  const { id } = await (await post("", {})).json();
  const reply = await post(`/${id}/chat/stream`, { message: QUESTION });
  const events = (await reply.text())
    .split("\n")
    .filter((line) => line.startsWith("data: "))
    .map((line) => JSON.parse(line.slice(6)));
  const { type, response, session } = events.at(-1);
  assert.deepEqual([type, response.content], ["complete", framedTurn.text]);
  const shown = await (await fetch(`${server.url}/v1/sessions/${id}`)).json();
  // The stream has the time at which the turn ended, which is after the answer was put into the
  // session.
  assert.deepEqual({ ...session, updated_at: 0 }, { ...shown, updated_at: 0 });
  assert.ok(Math.abs(session.updated_at - shown.updated_at) < 1);
  const whole = await (await post(`/${id}/chat`, { message: "And then?" })).json();
  assert.equal(whole.session.messages.length, 4);
  assert.equal((await post("/unknown/chat", { message: "Why?" })).status, 404);
});
