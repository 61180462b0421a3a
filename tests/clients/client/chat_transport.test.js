// `RagwireChatTransport` under the chats of npm `ai` 5, 6 and 7, through connections that break.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import * as ai6 from "ai";
import * as ai5 from "ai5";
import * as ai7 from "ai7";
import { RagwireChatTransport } from "../../../clients/js/src/ai.js";
import { startProxy, startServer } from "../harness.js";
import { chatOf } from "../wires/chat.js";

const words = (count) => Array.from({ length: count }, (_, at) => `word${at + 1} `).join("");
const plain = (value) => JSON.parse(JSON.stringify(value));
const text = ({ parts }) => parts.filter(({ type }) => type === "text").map(({ text }) => text).join("");

let server;
before(async () => (server = await startServer()));
after(async () => assert.equal(await server.stop(), 0));

/** A message without what differs between two turns. */
function comparable(message) {
  const json = JSON.stringify({ ...message, id: "" });
  return JSON.parse(json.replaceAll(/"timestamp":"[^"]*"/g, '"timestamp":""').replaceAll(/"queue_wait_ms":\d+/g, '"queue_wait_ms":0'));
}

for (const [name, ai] of Object.entries({ "ai 5": ai5, "ai 6": ai6, "ai 7": ai7 })) {
  const Chat = chatOf(ai);
  const chatAt = (url, more = {}) => new Chat({ id: crypto.randomUUID(), transport: new RagwireChatTransport({ api: `${url}/api/chat` }), ...more });

  test(`${name}: a message survives connections that break, also at its end`, { timeout: 60_000 }, async (t) => {
    const undisturbed = new Chat({ transport: new ai.DefaultChatTransport({ api: `${server.url}/api/chat` }) });
    await undisturbed.sendMessage({ text: "fault:slow" });
    const proxy = await startProxy(server.url);
    t.after(proxy.stop);
    const chat = chatAt(proxy.url);
    const cutting = setInterval(proxy.cut, 700);
    await chat.sendMessage({ text: "fault:slow" });
    clearInterval(cutting);
    assert.deepEqual([chat.status, chat.error, chat.messages.length], ["ready", undefined, 2]);
    assert.equal(text(chat.lastMessage), words(40));
    assert.deepEqual(comparable(chat.lastMessage), comparable(undisturbed.lastMessage));
    assert.ok(proxy.answers.length > 3, `${proxy.answers.length} connections`);

    // The turn ends while the connection is broken.
    let failures = 0;
    const unsteady = async (url, init) => {
      if (init.method !== "POST" && (failures += 1) < 4) throw new TypeError("fetch failed");
      return fetch(url, init);
    };
    const late = chatAt(proxy.url, { transport: new RagwireChatTransport({ api: `${proxy.url}/api/chat`, fetch: unsteady }) });
    const sent = late.sendMessage({ text: "fault:paced 20 20 w" });
    while (late.status !== "streaming") await sleep(5);
    proxy.cut();
    await sent;
    assert.deepEqual([late.status, text(late.lastMessage).split(" ").length], ["ready", 21]);
    assert.ok(failures >= 4);
  });

  test(`${name}: a page that was loaded again continues the answer`, { timeout: 60_000 }, async (t) => {
    const proxy = await startProxy(server.url);
    t.after(proxy.stop);
    const chat = chatAt(proxy.url);
    const sent = chat.sendMessage({ text: "fault:slow" });
    while (!chat.lastMessage || chat.lastMessage.role === "user") await sleep(20);
    const reloaded = chatAt(proxy.url, { id: chat.id, messages: chat.messages.slice(0, 1) });
    const resumed = reloaded.resumeStream();
    await sleep(500);
    proxy.cut();
    await Promise.all([sent, resumed]);
    assert.deepEqual(plain(reloaded.lastMessage), plain(chat.lastMessage));
    assert.equal(text(reloaded.lastMessage), words(40));
    // Nothing is being written any more.
    assert.equal(await new RagwireChatTransport({ api: `${server.url}/api/chat` }).reconnectToStream({ chatId: chat.id }), null);
    await reloaded.resumeStream();
    assert.deepEqual([reloaded.status, reloaded.messages.length], ["ready", 2]);
  });

  test(`${name}: failures, refusals and an unreachable server are errors of the chat`, { timeout: 60_000 }, async () => {
    for (const [prompt, message] of [["fault:text", /internal error/], ["fault:reject", /internal error/]]) {
      const chat = chatAt(server.url);
      await chat.sendMessage({ text: prompt });
      assert.equal(chat.status, "error");
      assert.match(chat.error.message, message);
    }
    const chat = chatAt("http://127.0.0.1:1");
    await chat.sendMessage({ text: "Why?" });
    assert.deepEqual([chat.status, chat.error.code], ["error", "unreachable"]);
  });

  test(`${name}: stop() ends the reading, and the route stops the turn`, { timeout: 60_000 }, async () => {
    const chat = chatAt(server.url);
    const sent = chat.sendMessage({ text: "fault:silent" });
    while (chat.status !== "streaming") await sleep(20);
    await chat.stop();
    await sent;
    assert.deepEqual([chat.status, chat.error], ["ready", undefined]);
    const stopped = await fetch(`${server.url}/api/chat/${chat.id}/stop`, { method: "POST" });
    assert.deepEqual(await stopped.json(), { stopped: true });
  });

  test(`${name}: headers and members of the page are sent`, { timeout: 60_000 }, async (t) => {
    const proxy = await startProxy(server.url);
    t.after(proxy.stop);
    let body;
    const spy = (url, init) => ((body = JSON.parse(init.body)), fetch(url, init));
    const transport = new RagwireChatTransport({ api: `${proxy.url}/api/chat`, headers: () => ({ "x-a": "1", "x-b": "1" }), body: { lang: "en" }, fetch: spy });
    const chat = new Chat({ id: "chat/ü", transport });
    await chat.sendMessage({ text: "fault:no-events" }, { headers: { "x-b": "2" }, body: { tone: "dry" } });
    assert.equal(text(chat.lastMessage), "Yes, it is.");
    assert.match(proxy.answers[0].head, /x-a: 1\r\n/);
    assert.match(proxy.answers[0].head, /x-b: 2\r\n/);
    assert.deepEqual([body.id, body.lang, body.tone, body.trigger, body.messages.length], ["chat/ü", "en", "dry", "submit-message", 1]);
  });
}

for (const [name, ai] of Object.entries({ "ai 6": ai6, "ai 7": ai7 })) {
  test(`${name}: an approval is given in the chat`, { timeout: 60_000 }, async () => {
    const Chat = chatOf(ai);
    const chat = new Chat({
      id: crypto.randomUUID(),
      transport: new RagwireChatTransport({ api: `${server.url}/api/chat`, headers: { "x-ragwire-approvals": "true" } }),
      sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
    });
    await chat.sendMessage({ text: "fault:ask" });
    const { approval } = chat.lastMessage.parts.find(({ toolName }) => toolName === "ask_question");
    await chat.addToolApprovalResponse({ id: approval.id, approved: true });
    for (let wait = 0; !(chat.status === "ready" && chat.lastMessage.metadata); wait += 1) {
      assert.ok(wait < 500);
      await sleep(20);
    }
    assert.deepEqual([text(chat.lastMessage), chat.messages.length], ["They are deleted.", 2]);
  });
}
