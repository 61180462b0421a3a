// Questions to a human, shown and answered by published clients: the stream ends at the question
// and the answer is a separate request. The bytes are those of the vectors.
import assert from "node:assert/strict";
import http from "node:http";
import { test } from "node:test";
import { buildResumeArray, HttpAgent } from "@ag-ui/client";
import * as ai6 from "ai";
import * as ai5 from "ai5";
import * as ai7 from "ai7";
import * as eve011 from "eve/client";
import * as eve018 from "eve018/client";
import { chatOf } from "./chat.js";
import { parks, serve, streams, vectors } from "./vectors.js";

const plain = (value) => JSON.parse(JSON.stringify(value));
const vector = (wire, id) => {
  const found = vectors(wire).get(id);
  assert.ok(parks(found));
  return found;
};

/** Serves `streams` to successive requests; `requests` has the posted bodies. */
async function serveInTurn(streams, headers) {
  const requests = [];
  const server = http.createServer(async (request, response) => {
    const body = [];
    for await (const part of request) body.push(part);
    const stream = streams[requests.length] ?? [];
    requests.push(JSON.parse(Buffer.concat(body).toString()));
    response.writeHead(200, headers);
    for (const chunk of stream) {
      response.write(chunk);
      await new Promise(setImmediate);
    }
    response.end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => (server.closeAllConnections(), new Promise((resolve) => server.close(resolve)));
  return { url: `http://127.0.0.1:${server.address().port}`, requests, stop };
}

const EVENTS = { "content-type": "text/event-stream" };
const UI = { ...EVENTS, "x-vercel-ai-ui-message-stream": "v1" };
const DONE = { citations: [], tools_used: [] };

/** Waits until the chat has sent that many requests and is idle. */
async function settled(chat, server, requests) {
  for (let wait = 0; wait < 500 && server.requests.length <= requests && (server.requests.length < requests || chat.status !== "ready"); wait += 1) {
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  // Long enough for an unwanted extra request.
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.deepEqual([server.requests.length, chat.status, chat.error], [requests, "ready", undefined]);
}

/** A short form of the tools of the last message. */
const tools = (chat) =>
  plain(chat.lastMessage.parts)
    .filter(({ type, toolCallId }) => type === "dynamic-tool" && !toolCallId.startsWith("retrieval-"))
    .map(({ toolName, toolCallId, state, approval, output, errorText }) => [
      toolCallId,
      toolName,
      state,
      ...(approval ? [approval] : []),
      ...(output === undefined ? [] : [output]),
      ...(errorText ? [errorText] : []),
    ]);
const texts = (chat) => chat.lastMessage.parts.filter(({ type }) => type === "text").map(({ text, state }) => [text, state]);

for (const [name, ai] of Object.entries({ "ai 6.0.322": ai6, "ai 7.0.173": ai7 })) {
  const Chat = chatOf(ai);
  const begin = async (id, called = []) => {
    const server = await serveInTurn(streams(vector("ai_sdk", id)), UI);
    const complete = [ai.lastAssistantMessageIsCompleteWithApprovalResponses, ai.lastAssistantMessageIsCompleteWithToolCalls];
    const chat = new Chat({
      id: "chat",
      transport: new ai.DefaultChatTransport({ api: server.url }),
      sendAutomaticallyWhen: (messages) => complete.some((isComplete) => isComplete(messages)),
      onToolCall: ({ toolCall }) => void called.push(toolCall.toolCallId),
    });
    await chat.sendMessage({ text: "Tidy up." });
    await settled(chat, server, 1);
    return { server, chat };
  };

  for (const [id, approved, said, outcome] of [
    ["parks_approval", true, [["There are ", "done"], ["none left.", "done"]], ["output-available", { id: "r1", approved: true }, "Approve"]],
    ["parks_search", true, [["Done.", "done"]], ["output-available", { id: "r1", approved: true }, "Approve"]],
    ["parks_refused", false, [["Left alone.", "done"]], ["output-denied", { id: "r1", approved: false }]],
  ]) {
    test(`${name}: ${id}`, async () => {
      const called = [];
      const { server, chat } = await begin(id, called);
      assert.deepEqual(tools(chat), [["r1", "ask_question", "approval-requested", { id: "r1" }]]);
      assert.equal(chat.lastMessage.metadata, undefined, "the turn is not over");
      await chat.addToolApprovalResponse({ id: "r1", approved });
      await settled(chat, server, 2);
      // The answer is a request with the message that contains the question.
      const { messages, trigger } = server.requests[1];
      const [part] = messages.at(-1).parts.filter(({ toolName }) => toolName === "ask_question");
      assert.deepEqual([messages.length, messages.at(-1).id, trigger], [2, "m-1", "submit-message"]);
      assert.deepEqual(
        [part.toolCallId, part.toolName, part.state, part.approval],
        ["r1", "ask_question", "approval-responded", { id: "r1", approved }],
      );
      // The rest of the answer continues that message.
      assert.deepEqual(tools(chat), [["r1", "ask_question", ...outcome]]);
      assert.deepEqual(texts(chat), said);
      assert.deepEqual([chat.messages.length, chat.lastMessage.id, chat.lastMessage.metadata], [2, "m-1", DONE]);
      assert.deepEqual(called, [], "the page runs nothing");
      await server.stop();
    });
  }

  test(`${name}: parks_choice`, async () => {
    const called = [];
    const { server, chat } = await begin("parks_choice", called);
    const choice = chat.lastMessage.parts.find(({ type }) => type === "dynamic-tool");
    assert.deepEqual(plain(choice.input), { kind: "choice", prompt: "Which?", options: ["a", "b"] });
    assert.deepEqual(tools(chat), [["r1", "ask_question", "input-available"]]);
    await chat.addToolOutput({ tool: "ask_question", toolCallId: "r1", output: "b" });
    await settled(chat, server, 2);
    assert.deepEqual(tools(chat), [
      ["r1", "ask_question", "output-available", "b"],
      ["r2", "ask_question", "input-available"],
    ]);
    await chat.addToolOutput({ tool: "ask_question", toolCallId: "r2", output: "me" });
    await settled(chat, server, 3);
    assert.deepEqual(
      server.requests[2].messages.at(-1).parts.map(({ type, state, output }) => [type, state, output]),
      [
        ["dynamic-tool", "output-available", "b"],
        ["step-start", undefined, undefined],
        ["dynamic-tool", "output-available", "me"],
      ],
    );
    // The answer came too late, and the stream reports it.
    const last = tools(chat).at(-1);
    assert.deepEqual([last[2], last.at(-1)], ["output-error", "Nobody answered."]);
    assert.deepEqual([chat.messages.length, chat.lastMessage.metadata], [2, DONE]);
    assert.deepEqual(called, ["r1", "r2"], "the page is asked to answer");
    await server.stop();
  });

  test(`${name}: parks_told and parks_stopped`, async () => {
    const told = await begin("parks_told");
    assert.deepEqual(tools(told.chat), [["r1", "ask_question", "output-available", { id: "r1" }, "Approve"]]);
    assert.deepEqual(told.chat.lastMessage.metadata, DONE);
    await told.server.stop();
    const { server, chat } = await begin("parks_stopped");
    await chat.addToolApprovalResponse({ id: "r1", approved: true });
    await settled(chat, server, 2);
    const [stopped] = tools(chat);
    assert.deepEqual([stopped[2], stopped.at(-1)], ["output-error", "The turn was stopped."]);
    assert.deepEqual(chat.lastMessage.metadata, { ...DONE, status: "stopped" });
    await server.stop();
  });
}

test("ai 5.0.277 aborts at an approval, and answers other questions", async () => {
  const { chunks } = vector("ai_sdk", "parks_approval");
  const server = await serve(chunks, { headers: UI });
  const Chat = chatOf(ai5);
  const errors = [];
  const broken = new Chat({
    id: "chat",
    transport: new ai5.DefaultChatTransport({ api: server.url }),
    onError: (error) => errors.push(error.name),
  });
  await broken.sendMessage({ text: "Tidy up." });
  assert.deepEqual([broken.status, errors.length], ["error", 1]);
  await server.stop();
  const choice = await serveInTurn(streams(vector("ai_sdk", "parks_choice")), UI);
  const chat = new Chat({
    id: "chat",
    transport: new ai5.DefaultChatTransport({ api: choice.url }),
    sendAutomaticallyWhen: ai5.lastAssistantMessageIsCompleteWithToolCalls,
  });
  await chat.sendMessage({ text: "Tidy up." });
  await settled(chat, choice, 1);
  await chat.addToolResult({ tool: "ask_question", toolCallId: "r1", output: "b" });
  await settled(chat, choice, 2);
  assert.deepEqual(tools(chat).map(([, , state]) => state), ["output-available", "input-available"]);
  await choice.stop();
});

test("@ag-ui/client 1.0.0: a run ends at a question, and the next one has the answer", async () => {
  const server = await serveInTurn(streams(vector("ag_ui", "parks_amid_text")), EVENTS);
  const agent = new HttpAgent({ url: server.url, threadId: "t" });
  agent.addMessage({ id: "u", role: "user", content: "Tidy up." });
  const seen = [];
  const subscriber = {
    onRunFinishedEvent: ({ outcome, interrupts }) => void seen.push([outcome, interrupts]),
    onRunFailed: ({ error }) => void seen.push(["failed", error.message]),
  };
  await agent.runAgent({ runId: "r" }, subscriber);
  const asked = {
    id: "turn-r1",
    reason: "approval",
    message: "Delete 3 files?",
    responseSchema: { type: "string", enum: ["Approve", "Reject"] },
  };
  assert.deepEqual(seen, [["interrupt", [asked]]]);
  assert.deepEqual(agent.pendingInterrupts, [asked]);
  // The client itself refuses another run until the interrupt is answered.
  const { error: log } = console;
  console.error = () => {};
  await assert.rejects(agent.runAgent({ runId: "r" }), /pending interrupt/);
  console.error = log;
  const resume = buildResumeArray(agent.pendingInterrupts, { "turn-r1": { status: "resolved", payload: "Approve" } });
  await agent.runAgent({ runId: "r", resume }, subscriber);
  assert.deepEqual(server.requests[1].resume, [{ interruptId: "turn-r1", status: "resolved", payload: "Approve" }]);
  assert.deepEqual(seen.slice(1), [["success", undefined]]);
  assert.deepEqual(agent.pendingInterrupts, []);
  assert.deepEqual(
    agent.messages.map(({ id, role, content, toolCallId }) => [id, role, content ?? "", ...(toolCallId ? [toolCallId] : [])]),
    [
      ["u", "user", "Tidy up."],
      ["turn-call-1", "assistant", ""],
      ["turn-result-4", "tool", "none", "turn-call-1"],
      ["turn-message", "assistant", "There are "],
      ["turn-message-2", "assistant", "none left."],
    ],
  );
  await server.stop();
});

test("@ag-ui/client 1.0.0: questions without a schema, two in a row, and one that was answered before", async () => {
  const server = await serveInTurn(streams(vector("ag_ui", "parks_first")), EVENTS);
  const agent = new HttpAgent({ url: server.url, threadId: "t" });
  agent.addMessage({ id: "u", role: "user", content: "Tidy up." });
  await agent.runAgent({ runId: "r" });
  assert.deepEqual(agent.pendingInterrupts, [{ id: "r1", reason: "text", message: "Who?", responseSchema: { type: "string" } }]);
  const resume = (id, answer) => agent.runAgent({ runId: "r", resume: buildResumeArray(agent.pendingInterrupts, { [id]: answer }) });
  await resume("r1", { status: "resolved", payload: "me" });
  assert.deepEqual(agent.pendingInterrupts, [{ id: "r2", reason: "acme.map", message: "Where?" }]);
  const { result } = await resume("r2", { status: "cancelled" });
  assert.deepEqual([result, agent.pendingInterrupts], [DONE, []]);
  await server.stop();

  const told = await serve(vector("ag_ui", "parks_told").chunks, { headers: EVENTS });
  const late = new HttpAgent({ url: told.url, threadId: "t" });
  late.addMessage({ id: "u", role: "user", content: "Tidy up." });
  const { newMessages } = await late.runAgent({ runId: "r" });
  assert.deepEqual(newMessages.map(({ id, content }) => [id, content]), [["r-message", "a"], ["r-message-2", "b"]]);
  await told.stop();
});

/** Serves Eve's routes for a session whose streams are returned one after the other. */
async function serveEve(streams) {
  const lines = streams.map((chunks) => chunks.join("").split(/(?<=\n)/).filter(Boolean));
  const [posted, asked] = [[], []];
  const server = http.createServer(async (request, response) => {
    const body = [];
    for await (const part of request) body.push(part);
    const url = new URL(request.url, "http://x");
    if (request.method === "POST") {
      posted.push(JSON.parse(Buffer.concat(body).toString()));
      const begun = url.pathname === "/eve/v1/session";
      response.writeHead(begun ? 202 : 200, { "content-type": "application/json", "x-eve-session-id": "s" });
      return response.end(JSON.stringify({ ok: true, sessionId: "s", ...(begun && { continuationToken: "t" }) }));
    }
    const startIndex = Number(url.searchParams.get("startIndex"));
    asked.push(startIndex);
    response.writeHead(200, { "content-type": "application/x-ndjson; charset=utf-8" });
    response.end(lines.slice(0, posted.length).flat().slice(startIndex).join(""));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => (server.closeAllConnections(), new Promise((resolve) => server.close(resolve)));
  return { host: `http://127.0.0.1:${server.address().port}`, posted, asked, lines, stop };
}

for (const [name, eve] of Object.entries({ "eve 0.11.10": eve011, "eve 0.18.2": eve018 })) {
  test(`${name}: the session waits at a question and continues after it`, async () => {
    const server = await serveEve(streams(vector("eve", "parks")));
    const session = new eve.Client({ host: server.host }).session();
    const reducer = eve.defaultMessageReducer();
    const turns = [await (await session.send("Tidy up.")).result()];
    for (const response of [{ requestId: "r1", optionId: "Approve" }, { requestId: "r2", text: "me" }]) {
      turns.push(await (await session.send({ inputResponses: [response] })).result());
    }
    assert.deepEqual(
      turns.map(({ status, message, inputRequests }) => [status, message, inputRequests.map(({ requestId, prompt }) => [requestId, prompt])]),
      [
        // Text before a question is not taken for the answer.
        ["waiting", undefined, [["r1", "Delete 3 files?"]]],
        ["waiting", undefined, [["r2", "Who?"]]],
        ["waiting", "Gone.", []],
      ],
    );
    assert.deepEqual(server.posted.slice(1), [
      { inputResponses: [{ requestId: "r1", optionId: "Approve" }], continuationToken: "t" },
      { inputResponses: [{ requestId: "r2", text: "me" }], continuationToken: "t" },
    ]);
    const counts = server.lines.map(({ length }) => length);
    assert.deepEqual(server.asked, [0, counts[0], counts[0] + counts[1]]);
    // Everything is one message of the assistant.
    const events = turns.flatMap(({ events }) => events);
    const { messages } = events.reduce(reducer.reduce, reducer.initial());
    const shown = plain(messages).map(({ role, parts, metadata }) => [
      role,
      metadata.status,
      parts.filter(({ type }) => type !== "step-start").map(({ text, toolCallId, state, output }) => [toolCallId ?? text, state, ...(output === undefined ? [] : [output])]),
    ]);
    assert.deepEqual(shown, [
      ["user", "complete", [["Tidy up.", "done"]]],
      ["assistant", "complete", [["There are 3.", "done"], ["r1", "output-available", "Approve"], ["r2", "output-available", null], ["Gone.", "done"]]],
    ]);
    await server.stop();
  });

  test(`${name}: the documented session waits as well`, async () => {
    const server = await serveEve(streams(vector("eve", "documented_parks")));
    const session = new eve.Client({ host: server.host }).session();
    const turns = [];
    for (const input of ["Tidy up.", { inputResponses: [{ requestId: "r1", optionId: "Approve" }] }]) {
      const events = [];
      for await (const event of await session.send(input)) events.push(event);
      turns.push(events.map(({ type, streamIndex }) => [type, streamIndex]));
    }
    assert.deepEqual(turns, [
      [["session.started", 0], ["agent.start", 1], ["input.requested", 2], ["session.waiting", 3]],
      [["input.resolved", 4], ["message.appended", 5], ["message.completed", 6], ["agent.complete", 7], ["session.waiting", 8]],
    ]);
    await server.stop();
  });
}
