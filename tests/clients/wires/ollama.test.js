// Ollama's route, asked by npm and PyPI `ollama` against the reference server.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Ollama } from "ollama";
import { startProxy, startServer } from "../harness.js";

const run = promisify(execFile);
const PYTHON = process.env.TEST_PYTHON ?? "python3";
const SCRIPT = fileURLToPath(new URL("run_ollama.py", import.meta.url));
const messages = [{ role: "user", content: "What is the commit rule?" }];

let server;
let client;
before(async () => {
  server = await startServer();
  client = new Ollama({ host: server.url });
});
after(() => server.stop());

test("npm ollama streams thoughts, the answer and its end", async () => {
  const seen = { thinking: "", text: "", done: [] };
  for await (const part of await client.chat({ model: "ragwire", messages, stream: true })) {
    seen.thinking += part.message.thinking ?? "";
    seen.text += part.message.content;
    if (part.done) seen.done.push(part);
  }
  assert.match(seen.thinking, /Searching with /);
  assert.ok(seen.text.length > 0);
  assert.equal(seen.done.length, 1);
  assert.equal(seen.done[0].done_reason, "stop");
  assert.ok(seen.done[0].ragwire.citations.length > 0);
  const whole = await client.chat({ model: "ragwire:latest", messages });
  assert.equal(whole.message.content, seen.text);
});

test("npm and PyPI ollama show the same of a stream that is padded", async (t) => {
  const padded = await startServer({ args: ["--pad-to", "512"] });
  t.after(() => padded.stop());
  const proxy = await startProxy(padded.url);
  let text = "";
  const asked = { model: "ragwire", messages, stream: true };
  for await (const part of await new Ollama({ host: proxy.url }).chat(asked)) text += part.message.content;
  assert.match(Buffer.concat(proxy.answers[0].came).toString("latin1"), /\n {20}/);
  await proxy.stop();
  assert.equal(text, (await client.chat({ model: "ragwire", messages })).message.content);
  const seen = JSON.parse((await run(PYTHON, [SCRIPT, padded.url])).stdout);
  assert.deepEqual([seen.text, seen.whole, seen.generated], [text, text, text]);
});

test("npm ollama raises a failure, before the stream and within it", async () => {
  const ask = async (content, model = "ragwire") => {
    for await (const _ of await client.chat({ model, messages: [{ role: "user", content }], stream: true }));
  };
  await assert.rejects(ask("fault:text"), /internal error/);
  await assert.rejects(ask("fault:reject"), /internal error/);
  await assert.rejects(ask("?", "llama3"), /model not found/);
});

test("the models and the version", async () => {
  const { models } = await client.list();
  assert.deepEqual(models.map(({ name }) => name), ["ragwire"]);
  assert.deepEqual((await client.show({ model: "ragwire" })).capabilities, ["completion", "thinking"]);
  assert.match((await client.version()).version, /^\d+\.\d+\.\d+$/);
});

test("npm ollama generates, with the same thoughts and answer", async () => {
  const seen = { thinking: "", text: "", done: 0 };
  for await (const part of await client.generate({ model: "ragwire", prompt: messages[0].content, stream: true })) {
    seen.thinking += part.thinking ?? "";
    seen.text += part.response;
    seen.done += part.done;
  }
  assert.match(seen.thinking, /Searching with /);
  const whole = await client.generate({ model: "ragwire", prompt: messages[0].content, system: "Be brief." });
  assert.deepEqual([seen.text, seen.done], [whole.response, 1]);
  assert.equal((await client.generate({ model: "ragwire", prompt: "" })).done_reason, "load");
  await assert.rejects(client.generate({ model: "ragwire", prompt: "fault:reject" }), /internal error/);
  assert.deepEqual((await client.ps()).models.map(({ name }) => name), ["ragwire"]);
});

test("npm ollama is told which option is not supported", async () => {
  const ask = (members) => client.chat({ model: "ragwire", messages, ...members });
  await assert.rejects(ask({ options: { temperature: 0 } }), /options\.temperature/);
  await assert.rejects(ask({ options: { num_predict: 10 }, stream: true }), /options\.num_predict/);
  await assert.rejects(ask({ format: "json" }), /format/);
  await assert.rejects(ask({ messages: [{ ...messages[0], images: ["iVBORw0KGgo="] }] }), /image/);
  const answer = await ask({ options: { num_ctx: 4096, seed: 1 }, keep_alive: "5m" });
  assert.ok(answer.message.content.length > 0);
});

test("the AI SDK still has its route", async () => {
  const body = JSON.stringify({ id: "c", messages: [{ id: "1", role: "user", parts: [{ type: "text", text: "?" }] }] });
  const response = await fetch(`${server.url}/api/chat`, { method: "POST", headers: { "content-type": "application/json" }, body });
  assert.equal(response.headers.get("x-vercel-ai-ui-message-stream"), "v1");
  await response.body.cancel();
});

test("PyPI ollama streams the same", async () => {
  const seen = JSON.parse((await run(PYTHON, [SCRIPT, server.url])).stdout);
  assert.match(seen.thinking, /Searching with /);
  assert.equal(seen.text, seen.whole);
  assert.deepEqual([seen.done, seen.models], [1, ["ragwire"]]);
  assert.match(seen.error, /internal error/);
  assert.equal(seen.generated, seen.text);
  assert.match(seen.refused, /options\.top_k/);
});
