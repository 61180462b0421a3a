// Chat completions of the reference server that are read again by their ID: npm `openai` parses the
// rest of a stream after any chunk.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import OpenAI from "openai";
import { startProxy, startServer } from "../harness.js";

const model = "ragwire";
const asked = (content) => ({ model, messages: [{ role: "user", content }], stream: true });

let server;
let client;
before(async () => {
  server = await startServer();
  client = connect(server.url);
});
after(() => server.stop());

const connect = (url) => new OpenAI({ apiKey: "x", baseURL: `${url}/v1`, maxRetries: 0 });

/** How many turns the server runs. */
async function running() {
  const metrics = await (await fetch(`${server.url}/metrics`)).text();
  return Number(metrics.match(/^ragwire_turns_active (\d+)$/m)[1]);
}

/** The rest of a completion, by the client's own parser. */
async function rest(id, after, query = {}) {
  const seen = [];
  const options = { query: { stream: true, starting_after: after, ...query }, stream: true };
  for await (const chunk of await client.get(`/chat/completions/${id}`, options)) seen.push(chunk);
  return seen;
}

test("a stored completion continues after a break, and every suffix is exact", async () => {
  const proxy = await startProxy(server.url);
  const seen = [];
  try {
    const stream = await connect(proxy.url).chat.completions.create({ ...asked("fault:paced 60 20 red"), store: true });
    await assert.rejects(async () => {
      for await (const chunk of stream) {
        seen.push(chunk);
        if (seen.length === 7) proxy.cut();
      }
    });
  } finally {
    await proxy.stop();
  }
  const { id } = seen[0];
  const more = await rest(id, seen.length);
  const all = [...seen, ...more];
  const words = all.map((chunk) => chunk.choices[0].delta.content ?? "").join("");
  assert.equal(words, Array.from({ length: 60 }, (_, index) => `red-${index + 1} `).join(""));
  assert.equal(all.at(-1).choices[0].finish_reason, "stop");
  assert.deepEqual(new Set(all.map((chunk) => `${chunk.id} ${chunk.created}`)).size, 1);
  for (const after of [0, 1, 6, all.length - 1, all.length]) {
    assert.deepEqual(await rest(id, after), all.slice(after), `after ${after}`);
  }
  // The object of the SDK's own method.
  const whole = await client.chat.completions.retrieve(id);
  assert.deepEqual([whole.id, whole.choices[0].message.content], [id, words]);
});

test("without `store` a completion ends with its connection", async () => {
  const stream = await client.chat.completions.create(asked("fault:long"));
  let id;
  for await (const chunk of stream) {
    id = chunk.id;
    if (chunk.choices[0].delta.content) break;
  }
  // A reader that came before the server has seen the end of the connection would keep the turn running.
  for (let wait = 0; (await running()) > 0; wait += 1) {
    assert.ok(wait < 400, "the turn has not stopped");
    await sleep(20);
  }
  const chunks = await rest(id, 0);
  assert.equal(chunks.at(-1).ragwire.status, "stopped");
});

test("a running completion has several readers", async () => {
  const stream = await client.chat.completions.create({ ...asked("fault:slow"), store: true });
  const chunks = [];
  let second;
  for await (const chunk of stream) {
    chunks.push(chunk);
    if (chunks.length === 3) second = rest(chunk.id, 3);
  }
  assert.deepEqual(await second, chunks.slice(3));
});

test("an unknown completion and a bad position are refused in OpenAI's form", async () => {
  const unknown = `chatcmpl-${"0".repeat(42)}`;
  for (const id of [unknown, "chatcmpl-1", "resp_1"]) {
    await assert.rejects(client.chat.completions.retrieve(id), { status: 404, code: "unknown_turn" });
    await assert.rejects(rest(id, 0), { status: 404 });
  }
  await assert.rejects(rest(unknown, "x"), { status: 422 });
});
