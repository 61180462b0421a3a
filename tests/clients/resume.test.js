// Turns that outlive their connection, read by published clients through connections that break.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import * as ai6 from "ai";
import * as ai5 from "ai5";
import * as ai7 from "ai7";
import { EventSource } from "eventsource";
import { ask, startProxy, startServer } from "./harness.js";
import { chatOf } from "./wires/chat.js";

const words = (count) => Array.from({ length: count }, (_, at) => `word${at + 1} `).join("");

let server;
before(async () => (server = await startServer()));
after(async () => assert.equal(await server.stop(), 0));

/** Reads with an `EventSource` until it stops by itself; returns its events and the reason why it stopped. */
function listen(url) {
  return new Promise((resolve) => {
    const source = new EventSource(url);
    const seen = [];
    const take = ({ type, data, lastEventId }) => seen.push([type, data, lastEventId]);
    for (const type of ["message", "search", "text", "end"]) source.addEventListener(type, take);
    source.addEventListener("error", ({ code }) => {
      if (source.readyState === EventSource.CLOSED) resolve({ seen, code });
    });
  });
}

test("an EventSource whose connection breaks every second misses nothing, gets nothing twice, and stops at the end", { timeout: 120_000 }, async () => {
  const question = ask("fault:long");
  // It cannot send a POST, so the test starts the turn.
  const begun = await fetch(`${server.url}/v1/turns`, { ...question, headers: { ...question.headers, prefer: "respond-async" } });
  assert.equal(begun.status, 202);
  const path = begun.headers.get("location");
  assert.deepEqual(await begun.json(), { turn: begun.headers.get("x-ragwire-turn") });
  const proxy = await startProxy(server.url);
  const cutting = setInterval(proxy.cut, 1000);
  const [cut, whole] = await Promise.all([listen(`${proxy.url}${path}`), listen(`${server.url}${path}`)]);
  clearInterval(cutting);
  assert.deepEqual(cut.seen, whole.seen);
  assert.deepEqual(whole.seen.map(([, , id]) => id), whole.seen.map((_, at) => String(at)));
  const text = whole.seen.filter(([type]) => type === "text").map(([, data]) => JSON.parse(data).text);
  assert.equal(text.join(""), words(200));
  assert.deepEqual([whole.seen.at(-1)[0], JSON.parse(whole.seen.at(-1)[1]).end], ["end", "completed"]);
  assert.deepEqual([cut.code, whole.code], [204, 204]);

  const last = (head) => /^last-event-id: (.*)$/im.exec(head)?.[1].trim();
  const ids = proxy.answers.map(({ head }) => last(head));
  assert.ok(ids.length >= 5, `${ids.length} connections`);
  assert.equal(ids[0], undefined);
  assert.equal(ids.at(-1), whole.seen.at(-1)[2], "it reconnected once more and got no further frame");
  const connections = proxy.answers.length;
  await sleep(4000);
  assert.equal(proxy.answers.length, connections, "it does not come again");
  await proxy.stop();
});

const CLIENTS = { "ai 5.0.277": ai5, "ai 6.0.322": ai6, "ai 7.0.173": ai7 };
const plain = (value) => JSON.parse(JSON.stringify(value));

/** The final message of a stream. */
async function message(ai, stream) {
  let last;
  for await (const state of ai.readUIMessageStream({ stream })) last = state;
  return plain(last);
}

for (const [name, ai] of Object.entries(CLIENTS)) {
  test(`${name} resumes an answer whose connection broke`, { timeout: 60_000 }, async () => {
    const chatId = crypto.randomUUID();
    const proxy = await startProxy(server.url);
    const transport = (url) => new ai.DefaultChatTransport({ api: `${url}/api/chat` });
    const Chat = chatOf(ai);
    const broken = new Chat({ id: chatId, transport: transport(proxy.url), onError: () => {} });
    const sent = broken.sendMessage({ text: "fault:slow" });
    const shown = () => broken.lastMessage?.parts.find((part) => part.type === "text")?.text ?? "";
    while (!shown().includes("word3")) await sleep(20);

    // Another client reads it from the beginning to the end on an undamaged connection.
    const undisturbed = message(ai, await transport(server.url).reconnectToStream({ chatId }));
    proxy.cut();
    await sent;
    assert.equal(broken.status, "error");
    assert.ok(!shown().includes("word40"));
    // The page that lost the connection has a part of the answer, and shows nothing twice.
    const inPlace = broken.resumeStream();

    const asked = broken.messages.slice(0, 1);
    // The page is reloaded: it has the question from its store and gets the answer from the server.
    const reloaded = new Chat({ id: chatId, transport: transport(proxy.url), messages: asked });
    const resumed = reloaded.resumeStream();
    const again = message(ai, await transport(server.url).reconnectToStream({ chatId }));
    await Promise.all([inPlace, resumed]);
    const whole = await undisturbed;
    assert.equal(whole.parts.find((part) => part.type === "text").text, words(40));
    assert.equal(whole.metadata.tools_used[0], "fault");
    for (const chat of [broken, reloaded]) {
      assert.deepEqual([chat.status, chat.error], ["ready", undefined]);
      assert.deepEqual(plain(chat.lastMessage), whole);
      assert.deepEqual(chat.messages.map(({ role }) => role), ["user", "assistant"]);
    }
    assert.deepEqual(await again, whole);

    // The turn has ended: there is nothing to resume, and nothing changes.
    assert.equal(await transport(server.url).reconnectToStream({ chatId }), null);
    await reloaded.resumeStream();
    assert.deepEqual([reloaded.status, reloaded.messages.length], ["ready", 2]);
    await proxy.stop();
  });

  test(`${name}'s answer is stopped by the route, and by the next question`, { timeout: 60_000 }, async () => {
    const chatId = crypto.randomUUID();
    const Chat = chatOf(ai);
    const transport = new ai.DefaultChatTransport({ api: `${server.url}/api/chat` });
    const chat = new Chat({ id: chatId, transport });
    const stop = async () => (await fetch(`${server.url}/api/chat/${chatId}/stop`, { method: "POST" })).json();
    let sent = chat.sendMessage({ text: "fault:slow" });
    while (chat.status !== "streaming") await sleep(20);
    assert.deepEqual(await stop(), { stopped: true });
    await sent;
    assert.deepEqual([chat.status, chat.lastMessage.metadata.status], ["ready", "stopped"]);
    assert.deepEqual(await stop(), { stopped: false });
    // `chat.stop()` only disconnects: without the next question the turn would continue for its
    // grace period.
    sent = chat.sendMessage({ text: "fault:silent" });
    while (chat.status !== "streaming") await sleep(20);
    await chat.stop();
    await sent;
    await chat.sendMessage({ text: "fault:no-events" });
    const { metadata, parts } = chat.lastMessage;
    assert.equal(parts.find((part) => part.type === "text").text, "Yes, it is.");
    assert.ok(metadata.queue_stats.queue_wait_ms < 10_000, "it did not wait for the one before");
  });
}
