// An orchestrator of about fifteen lines, `crates/ragwire-endpoints/examples/endpoints.rs`, with published clients.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { HttpAgent } from "@ag-ui/client";
import * as ai from "ai";
import OpenAI from "openai";
import { chatOf } from "./wires/chat.js";

const run = promisify(execFile);
const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const TARGET = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target");
const BINARY = process.env.TEST_ENDPOINTS ?? join(TARGET, "debug/examples/endpoints");
const TEXT = "The first frame decides [1].";

let child;
let url;
before(async () => {
  child = spawn(BINARY, { stdio: ["ignore", "pipe", "inherit"] });
  url = await new Promise((resolve, reject) => {
    child.stdout.once("data", (line) => resolve(String(line).trim()));
    child.once("error", reject);
    child.once("exit", (code) => reject(new Error(`the example ended with ${code}`)));
  });
});
after(() => child.kill());

test("useChat shows the search and the answer", async () => {
  const Chat = chatOf(ai);
  const chat = new Chat({ id: "c", transport: new ai.DefaultChatTransport({ api: `${url}/api/chat` }) });
  await chat.sendMessage({ text: "What decides?" });
  assert.equal(chat.error, undefined);
  assert.deepEqual([chat.status, chat.messages.map(({ role }) => role)], ["ready", ["user", "assistant"]]);
  const { parts } = chat.messages[1];
  const text = parts.filter(({ type }) => type === "text").map((part) => part.text);
  assert.equal(text.join(""), TEXT);
  assert.ok(parts.some((part) => JSON.stringify(part).includes("What decides?")), "the search is shown");
});

test("an AG-UI agent shows the answer", async () => {
  const agent = new HttpAgent({ url: `${url}/ag-ui`, threadId: "t" });
  agent.addMessage({ id: "m", role: "user", content: "What decides?" });
  await agent.runAgent({ runId: "r" });
  const answers = agent.messages.filter(({ role, content }) => role === "assistant" && content);
  assert.equal(answers.map(({ content }) => content).join(""), TEXT);
});

test("the SDK of OpenAI reads it streamed and whole, and learns what is not honoured", async () => {
  const { chat, models } = new OpenAI({ apiKey: "x", baseURL: `${url}/v1`, maxRetries: 0 });
  const question = { model: "ragwire", messages: [{ role: "user", content: "What decides?" }] };
  const whole = await chat.completions.create(question);
  assert.equal(whole.choices[0].message.content, TEXT);
  let streamed = "";
  for await (const chunk of await chat.completions.create({ ...question, stream: true })) {
    streamed += chunk.choices[0]?.delta.content ?? "";
  }
  assert.equal(streamed, TEXT);
  assert.deepEqual((await models.list()).data.map(({ id }) => id), ["ragwire"]);
  await assert.rejects(chat.completions.create({ ...question, n: 2 }), { status: 400, param: "n" });
});

test("curl reads lines of JSON, and resumes them", async () => {
  const curl = async (...args) => (await run("curl", ["--silent", "--show-error", "--fail", ...args])).stdout;
  const lines = (text) => text.trim().split("\n").map((line) => JSON.parse(line));
  const accept = ["--header", "accept: application/x-ndjson"];
  const json = ["--header", "content-type: application/json", "--data", '{"prompt":"What decides?"}'];
  const [head, body] = (await curl("--include", ...accept, ...json, `${url}/v1/turns`)).split("\r\n\r\n");
  const turn = /^x-ragwire-turn: (\w+)\r?$/m.exec(head)[1];
  const frames = lines(body);
  assert.deepEqual([frames[0].event, frames.at(-1).end], ["search", "completed"]);
  assert.deepEqual(lines(await curl(...accept, `${url}/v1/turns/${turn}/stream?from=1`)), frames.slice(1));
});
