// The table "What an unmodified client shows" of docs/wires.md, from what the clients have in their own
// reduced state. UPDATE_DOCS=1 writes it.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import * as ai6 from "ai";
import * as ai5 from "ai5";
import * as ai7 from "ai7";
import * as eve011 from "eve/client";
import * as eve018 from "eve018/client";
import { Ollama } from "ollama";
import OpenAI from "openai";
import { startServer } from "../harness.js";
import { streamQuery } from "./documented_readers/forge.mjs";
import { streamChat } from "./documented_readers/session_chat.mjs";
import { read } from "./read_ag_ui.js";
import { mount, VERSIONS } from "./use_stream.js";

const PAGE = new URL("../../../docs/wires.md", import.meta.url);
const PYTHON = process.env.TEST_PYTHON ?? "python3";
const TRUSTGRAPH = fileURLToPath(new URL("read_trustgraph.py", import.meta.url));
const QUESTION = "What happens when a turn fails after the commit?";
const HEAD = ["client", "before the answer", "after the answer", "citations"];

let server;
before(async () => (server = await startServer()));
after(() => server.stop());

// `use_stream.js` defines a window, which makes the client think that its key is public.
const openai = () =>
  new OpenAI({ apiKey: "x", baseURL: `${server.url}/v1`, maxRetries: 0, dangerouslyAllowBrowser: true });
const messages = [{ role: "user", content: QUESTION }];

/** Names in their order; those that follow each other are counted. */
function names(all) {
  const runs = [];
  for (const name of all) {
    if (runs.at(-1)?.[0] === name) runs.at(-1)[1] += 1;
    else runs.push([name, 1]);
  }
  return runs.map(([name, count]) => `\`${name}\`${count > 1 ? ` ×${count}` : ""}`).join(", ") || "nothing";
}

const lines = (text, member) => `${text.trim().split("\n").length} lines of \`${member}\``;

/** The steps before and after the first one that is the answer. */
function around(steps, isAnswer, name) {
  const at = steps.findIndex(isAnswer);
  assert.ok(at >= 0, JSON.stringify(steps));
  const named = (part) => names(part.map(name).filter(Boolean));
  return [named(steps.slice(0, at)), named(steps.slice(at + 1))];
}

/** How each citation is shown, if there are any. */
const each = (citations, how) => (citations.length > 0 ? how : "not shown");
const withMembers = (name, part, members) => `one \`${name}\` each, with ${members.filter((member) => part?.[member]).map((member) => `\`${member}\``).join(", ")}`;

async function aiSdk(ai) {
  const transport = new ai.DefaultChatTransport({ api: `${server.url}/api/chat` });
  const parts = [{ type: "text", text: QUESTION }];
  const stream = await transport.sendMessages({
    chatId: crypto.randomUUID(),
    messages: [{ id: "1", role: "user", parts }],
    trigger: "submit-message",
  });
  let message;
  for await (const state of ai.readUIMessageStream({ stream })) message = state;
  const isShown = ({ type, state }) => type === "text" || (type === "dynamic-tool" && state === "output-available");
  const steps = around(message.parts.filter(isShown), ({ type }) => type === "text", ({ toolName }) => toolName);
  const sources = message.parts.filter(({ type }) => type === "source-document");
  return [...steps, each(sources, withMembers("source-document", sources[0], ["title", "filename", "providerMetadata"]))];
}

async function agUi() {
  const { messages, result } = await read(`${server.url}/ag-ui`, QUESTION);
  const isShown = ({ role, toolCalls }) => role === "assistant" || toolCalls;
  const steps = around(messages.filter(isShown), ({ content }) => content, ({ toolCalls }) => toolCalls?.[0].function.name);
  return [...steps, each(result.citations, "in the result of the run")];
}

async function eve(client) {
  const store = new client.EveAgentStore({ host: server.url, reducer: client.defaultMessageReducer() });
  await store.send({ message: QUESTION });
  const { parts, metadata } = store.snapshot.data.messages.at(-1);
  const steps = around(parts, ({ type }) => type === "text", ({ toolName }) => toolName);
  return [...steps, each(metadata?.citations ?? [], "in the metadata of the message")];
}

async function sessionChat() {
  const { id } = await (await fetch(`${server.url}/v1/sessions`, { method: "POST" })).json();
  const events = [];
  await streamChat(`${server.url}/v1/sessions/${id}/chat/stream`, QUESTION, (event) => events.push(event));
  const known = ["round_start", "thinking", "tool_start", "generating"];
  const shown = events.filter(({ type }) => known.includes(type));
  const name = ({ type, tool_name }) => (type === "tool_start" ? tool_name : type);
  const steps = around(shown, ({ type }) => type === "generating", name);
  return [...steps, each(events.at(-1).metadata?.citations ?? [], "in the metadata of `complete`")];
}

async function forge() {
  const events = [];
  await streamQuery(`${server.url}/api/query/stream`, QUESTION, "direct", (event) => events.push(event));
  const steps = events.filter(({ type }, at) => type !== "token" || events[at - 1].type !== "token");
  const isStep = ({ type }) => type !== "done" && type !== "sources";
  const shown = around(steps.filter(isStep), ({ type }) => type === "token", ({ type }) => type);
  const { sources } = events.findLast(({ type }) => type === "sources");
  return [...shown, each(sources, "`sources`")];
}

async function chatCompletions() {
  const [before, after, annotations] = [[], [], []];
  let text = "";
  const stream = await openai().chat.completions.create({ model: "ragwire", messages, stream: true });
  for await (const { choices } of stream) {
    for (const { delta } of choices) {
      text += delta.content ?? "";
      (text ? after : before).push(delta.reasoning_content ?? "");
      annotations.push(...(delta.annotations ?? []));
    }
  }
  const thoughts = (pieces) => (pieces.join("") ? lines(pieces.join(""), "reasoning_content") : "nothing");
  return [thoughts(before), thoughts(after), each(annotations, "`annotations`")];
}

async function responses() {
  const stream = openai().responses.stream({ model: "ragwire", input: QUESTION });
  const { output } = await stream.finalResponse();
  const steps = around(output, ({ type }) => type === "message", ({ type }) => type);
  const { annotations } = output.find(({ type }) => type === "message").content[0];
  return [...steps, each(annotations, "`annotations`")];
}

async function langGraph(version) {
  const page = mount(version, { apiUrl: server.url, apiKey: null, assistantId: "ragwire", callerOptions: { maxRetries: 0 } });
  try {
    await page.until(() => true);
    page.hook().submit({ messages: [{ type: "human", content: QUESTION }] });
    const { messages } = await page.ended();
    const steps = messages.flatMap(({ type, content, tool_calls: calls = [] }) =>
      type === "ai" ? [...(content ? [{ content }] : []), ...calls] : [],
    );
    const citations = messages.flatMap(({ additional_kwargs: more }) => more?.citations ?? []);
    return [...around(steps, ({ content }) => content, ({ name }) => name), each(citations, "in the message of the answer")];
  } finally {
    page.unmount();
  }
}

async function mcp() {
  const client = new Client({ name: "test", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`)));
  try {
    const progress = [];
    const call = { name: "ask", arguments: { question: QUESTION } };
    const { structuredContent } = await client.callTool(call, undefined, { onprogress: (step) => progress.push(step) });
    return [`${progress.length} messages of progress`, "nothing", each(structuredContent.citations, "in the structured content")];
  } finally {
    await client.close();
  }
}

async function ollama() {
  const [before, after] = [[], []];
  let text = "";
  for await (const { message } of await new Ollama({ host: server.url }).chat({ model: "ragwire", messages, stream: true })) {
    text += message.content;
    (text ? after : before).push(message.thinking ?? "");
  }
  const thoughts = (pieces) => (pieces.join("") ? lines(pieces.join(""), "thinking") : "nothing");
  return [thoughts(before), thoughts(after), "not shown"];
}

async function trustGraph(way) {
  const child = spawn(PYTHON, [TRUSTGRAPH, `${server.url}/`], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(JSON.stringify([{ id: "req-1", kind: "graph-rag", query: QUESTION, with: way }]));
  const parts = [];
  for await (const part of child.stdout) parts.push(part);
  if (child.exitCode === null) await once(child, "exit");
  const [{ seen, error }] = JSON.parse(Buffer.concat(parts).toString());
  assert.equal(error, null);
  const type = ({ entity, text }) => entity?.entity_type ?? (text ? "answer" : undefined);
  const steps = around(seen.filter(type), (item) => type(item) === "answer", (item) => item.entity?.entity_type);
  const { sources } = seen.findLast((item) => item.sources) ?? { sources: [] };
  return [...steps, each(sources ?? [], "`sources`, documents only")];
}

const CLIENTS = [
  ["npm `ai` 5, 6, 7", [ai5, ai6, ai7].map((ai) => () => aiSdk(ai))],
  ["`HttpAgent` of npm `@ag-ui/client`", [agUi]],
  ["npm `eve` 0.11, 0.18", [eve011, eve018].map((client) => () => eve(client))],
  ["session chat's reader", [sessionChat]],
  ["Forge's reader", [forge]],
  ["npm `openai`, chat completions", [chatCompletions]],
  ["npm `openai`, responses", [responses]],
  ["`useStream` of npm `@langchain/langgraph-sdk` 1, 2", VERSIONS.map((version) => () => langGraph(version))],
  ["npm `@modelcontextprotocol/sdk`", [mcp]],
  ["npm `ollama`", [ollama]],
  ["PyPI `trustgraph-base`", [() => trustGraph("stream")]],
  ["PyPI `trustgraph-base`, explained", [() => trustGraph("explain")]],
];

test("docs/wires.md lists what each client shows of an ordinary question", async () => {
  const rows = [HEAD, HEAD.map(() => "---")];
  for (const [name, versions] of CLIENTS) {
    const shown = [];
    for (const version of versions) shown.push(await version());
    for (const other of shown) assert.deepEqual(other, shown[0], `all versions of ${name} show the same`);
    rows.push([name, ...shown[0]]);
  }
  const table = rows.map((row, at) => (at === 1 ? `|${row.join("|")}|` : `| ${row.join(" | ")} |`)).join("\n");
  const page = readFileSync(PAGE, "utf8");
  const written = /(## What an unmodified client shows\n\n[^|]+)(\|[^]*?\|)(?=\n\n)/;
  assert.match(page, written);
  const updated = page.replace(written, (_, text) => text + table);
  if (process.env.UPDATE_DOCS) writeFileSync(PAGE, updated);
  else assert.equal(page, updated, "UPDATE_DOCS=1 writes the table");
});
