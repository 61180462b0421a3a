// Questions to a human, shown and answered by the published clients against the reference server:
// the stream ends at the question, and the next request has the answer. There is no reader in
// between.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { buildResumeArray, HttpAgent } from "@ag-ui/client";
import * as ai6 from "ai";
import * as ai5 from "ai5";
import * as ai7 from "ai7";
import * as eve011 from "eve/client";
import * as eve018 from "eve018/client";
import { startServer } from "./harness.js";
import { chatOf } from "./wires/chat.js";

// No grace period: a turn without readers ends at once, unless it waits for a human.
let server;
before(async () => (server = await startServer({ args: ["--disconnect-grace", "0s"] })));
after(async () => assert.equal(await server.stop(), 0));

/** Longer than anything that happens without a request takes. */
const AWHILE = 400;
const plain = (value) => JSON.parse(JSON.stringify(value));
const text = ({ parts }) => parts.filter(({ type }) => type === "text").map(({ text }) => text).join("");

async function until(is, what) {
  for (let wait = 0; !is(); wait += 1) {
    assert.ok(wait < 500, what);
    await sleep(20);
  }
}

for (const [name, ai] of Object.entries({ "ai 6.0.322": ai6, "ai 7.0.173": ai7 })) {
  const complete = [ai.lastAssistantMessageIsCompleteWithApprovalResponses, ai.lastAssistantMessageIsCompleteWithToolCalls];
  const Chat = chatOf(ai);
  const chatWith = (id, more = {}) =>
    new Chat({
      id,
      transport: new ai.DefaultChatTransport({ api: `${server.url}/api/chat`, headers: { "x-ragwire-approvals": "true" } }),
      sendAutomaticallyWhen: (messages) => complete.some((isComplete) => isComplete(messages)),
      ...more,
    });
  const asked = (chat) => chat.lastMessage.parts.find(({ toolName }) => toolName === "ask_question");
  const rests = (chat) => until(() => chat.status === "ready" && chat.lastMessage.metadata, "the turn ends");

  for (const [approved, reply, state] of [
    [true, "They are deleted.", "output-available"],
    [false, "They are left alone.", "output-denied"],
  ]) {
    test(`${name}: an approval that is ${approved ? "given" : "refused"}`, async () => {
      const chat = chatWith(crypto.randomUUID());
      await chat.sendMessage({ text: "fault:ask" });
      assert.deepEqual([chat.status, asked(chat).state, chat.lastMessage.metadata], ["ready", "approval-requested", undefined]);
      const { id } = chat.lastMessage;
      await sleep(AWHILE);
      await chat.addToolApprovalResponse({ id: asked(chat).approval.id, approved });
      await rests(chat);
      await sleep(AWHILE);
      assert.deepEqual([chat.status, chat.error, chat.messages.length, chat.lastMessage.id], ["ready", undefined, 2, id]);
      assert.deepEqual([asked(chat).state, text(chat.lastMessage)], [state, reply]);
      assert.deepEqual(chat.lastMessage.metadata.tools_used, ["fault"]);
    });
  }

  test(`${name}: a free text answer is the output of a tool`, async () => {
    const chat = chatWith(crypto.randomUUID());
    await chat.sendMessage({ text: "fault:ask-text" });
    const { toolCallId, state } = asked(chat);
    assert.equal(state, "input-available");
    await chat.addToolOutput({ tool: "ask_question", toolCallId, output: "Ada" });
    await rests(chat);
    await sleep(AWHILE);
    assert.deepEqual([chat.status, chat.messages.length, asked(chat).output], ["ready", 2, "Ada"]);
    assert.match(text(chat.lastMessage), /Ada/);
  });

  test(`${name}: a reloaded page gets the question again, and its answer counts`, async () => {
    const id = crypto.randomUUID();
    const first = chatWith(id);
    await first.sendMessage({ text: "fault:ask" });
    const reloaded = chatWith(id, { messages: first.messages.slice(0, 1) });
    await reloaded.resumeStream();
    assert.deepEqual([reloaded.status, asked(reloaded).state], ["ready", "approval-requested"]);
    assert.deepEqual(plain(reloaded.lastMessage), plain(first.lastMessage));
    await reloaded.addToolApprovalResponse({ id: "delete", approved: true });
    await rests(reloaded);
    assert.equal(text(reloaded.lastMessage), "They are deleted.");

    // The first page is too late: another answer is an error, the same answer returns the rest of
    // the turn.
    const errors = [];
    first.onError = (error) => errors.push(JSON.parse(error.message).error.code);
    await first.addToolApprovalResponse({ id: "delete", approved: false });
    await until(() => first.status === "error", "it is refused");
    assert.deepEqual(errors, ["ask_answered"]);
    const same = chatWith(id, { messages: plain(reloaded.messages.slice(0, 1)).concat(plain(first.messages.slice(1))) });
    same.messages = same.messages.map((message) => ({
      ...message,
      parts: message.parts.map((part) => (part.toolName === "ask_question" ? { ...part, approval: { ...part.approval, approved: true } } : part)),
    }));
    await same.sendMessage();
    assert.deepEqual([same.status, text(same.lastMessage)], ["ready", "They are deleted."]);
  });
}

test("ai 5.0.277 does not support approvals: it reads on while another client answers", async () => {
  const Chat = chatOf(ai5);
  let turn;
  const fetchTurn = async (...request) => {
    const response = await fetch(...request);
    turn = response.headers.get("x-ragwire-turn");
    return response;
  };
  const chat = new Chat({ id: crypto.randomUUID(), transport: new ai5.DefaultChatTransport({ api: `${server.url}/api/chat`, fetch: fetchTurn }) });
  const sent = chat.sendMessage({ text: "fault:ask" });
  await until(() => chat.lastMessage?.parts.some(({ type }) => type === "data-input_requested"), "the question arrives");
  assert.equal(chat.status, "streaming");
  const answered = await fetch(`${server.url}/v1/turns/${turn}/answer`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ request_id: "delete", response: "Approve" }),
  });
  assert.deepEqual(await answered.json(), { accepted: true });
  await sent;
  assert.deepEqual([chat.status, text(chat.lastMessage)], ["ready", "They are deleted."]);
});

test("@ag-ui/client 1.0.0: interrupts, resumed and cancelled", async () => {
  for (const [prompt, answer, reply, outcome] of [
    ["fault:ask", { status: "resolved", payload: "Approve" }, "They are deleted.", "success"],
    ["fault:ask", { status: "resolved", payload: "Reject" }, "They are left alone.", "success"],
    ["fault:ask", { status: "cancelled" }, "They are left alone.", "success"],
    ["fault:ask-text", { status: "resolved", payload: "Ada" }, /Ada/, "success"],
    ["fault:ask-text", { status: "cancelled" }, null, "cancelled"],
  ]) {
    const agent = new HttpAgent({ url: `${server.url}/ag-ui`, threadId: crypto.randomUUID() });
    agent.addMessage({ id: "u", role: "user", content: prompt });
    const outcomes = [];
    const subscriber = { onRunFinishedEvent: ({ outcome }) => void outcomes.push(outcome) };
    await agent.runAgent({}, subscriber);
    const [{ id, message, responseSchema }] = agent.pendingInterrupts;
    assert.deepEqual([typeof message, responseSchema.type], ["string", "string"]);
    await sleep(AWHILE);
    const resume = buildResumeArray(agent.pendingInterrupts, { [id]: answer });
    await agent.runAgent({ resume }, subscriber);
    assert.deepEqual([outcomes, agent.pendingInterrupts], [["interrupt", outcome], []]);
    // The message that calls the search tool has no text.
    const answers = agent.messages.filter(({ role, content }) => role === "assistant" && content).map(({ content }) => content);
    if (reply === null) assert.deepEqual(answers, []);
    else assert.match(answers.join(""), new RegExp(reply));

    // The client keeps the question, so a second answer can be given; a different one is refused.
    if (answer.payload === "Approve") {
      await agent.runAgent({ resume });
      const other = [{ interruptId: id, status: "resolved", payload: "Reject" }];
      const { error: log } = console;
      console.error = () => {};
      await assert.rejects(agent.runAgent({ resume: other }), /HTTP 409.*ask_answered/);
      console.error = log;
    }
  }
});

for (const [name, eve] of Object.entries({ "eve 0.11.10": eve011, "eve 0.18.2": eve018 })) {
  // Clients look up a question's ID in all turns of the session, so no question is asked twice in
  // one session.
  for (const script of [
    [["fault:ask", { optionId: "Approve" }, "They are deleted."], ["fault:ask-text", { text: "Ada" }, "Ada"]],
    [["fault:ask-text", { text: "Bob" }, "Bob"], ["fault:ask", { optionId: "Reject" }, "They are left alone."]],
  ]) {
    test(`${name}: the session waits for inputResponses, ${script[0][0]} first`, async () => {
      const session = new eve.Client({ host: server.url }).session();
      const reducer = eve.defaultMessageReducer();
      const events = [];
      const send = async (input) => {
        const result = await (await session.send(input)).result();
        events.push(...result.events);
        return result;
      };
      for (const [question, answer, reply] of script) {
        const { status, inputRequests, message } = await send(question);
        assert.deepEqual([status, inputRequests.length, message], ["waiting", 1, undefined]);
        await sleep(AWHILE);
        const { requestId } = inputRequests[0];
        const result = await send({ inputResponses: [{ requestId, ...answer }] });
        assert.deepEqual([result.status, result.inputRequests], ["waiting", []]);
        assert.ok(result.message.includes(reply), result.message);
        assert.equal(session.state.streamIndex, events.length);
        // The same answer again is accepted, a different one is refused with the client's own
        // error.
        await assert.rejects(
          session.send({ inputResponses: [{ requestId, text: "something else" }] }),
          (error) => error.status === 409 && /another answer/.test(error.body),
        );
      }
      // The result: two messages of the user and two of the assistant, each complete.
      const { messages } = events.reduce(reducer.reduce, reducer.initial());
      assert.deepEqual(
        messages.map(({ role, metadata }) => [role, metadata.status]),
        Array.from({ length: 2 }, () => [["user", "complete"], ["assistant", "complete"]]).flat(),
      );
      // Another reader gets the same when it reads the session from its beginning.
      const again = [];
      const other = new eve.Client({ host: server.url }).session({ ...session.state, streamIndex: 0 });
      for await (const event of other.stream()) again.push(event);
      assert.deepEqual(again, events);
    });
  }
}
