// The MCP route, used by the clients of npm `@modelcontextprotocol/sdk` and PyPI `mcp` against the
// reference server.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import http from "node:http";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { startServer } from "../harness.js";

const run = promisify(execFile);
const PYTHON = process.env.TEST_PYTHON ?? "python3";
const SCRIPT = fileURLToPath(new URL("run_mcp.py", import.meta.url));

let server;
let client;
before(async () => {
  server = await startServer();
  client = new Client({ name: "test", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${server.url}/mcp`)));
});
after(async () => {
  await client.close();
  await server.stop();
});

const ask = (question, options) => client.callTool({ name: "ask", arguments: { question } }, undefined, options);

test("npm: the tool is listed, and answers with structured content and progress", async () => {
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map(({ name }) => name), ["ask", "search"]);
  const progress = [];
  const result = await ask("What is the commit rule?", { onprogress: (step) => progress.push(step) });
  assert.notEqual(result.isError, true);
  // The client checks structured content against the schema of the tool.
  assert.equal(result.structuredContent.answer, result.content[0].text);
  assert.ok(result.structuredContent.citations.length > 0);
  assert.match(result.content[1].text, /^\[1\] /);
  assert.match(progress[0].message, /^Searching with /);
  assert.deepEqual(progress.map((step) => step.progress), progress.map((_, index) => index + 1));
  await client.ping();
});

test("npm: a search returns passages without an answer", async () => {
  const progress = [];
  const search = (limit) =>
    client.callTool({ name: "search", arguments: { query: "What is the commit rule?", limit } }, undefined, {
      onprogress: ({ message }) => progress.push(message),
    });
  const result = await search();
  assert.notEqual(result.isError, true);
  // The client checks structured content against the schema of the tool.
  const { passages, tools_used: tools } = result.structuredContent;
  assert.ok(passages.length > 1 && passages.length <= 8, `${passages.length} passages`);
  assert.deepEqual(tools, ["bm25_search"]);
  assert.equal(result.content.length, passages.length);
  assert.ok(result.content[0].text.startsWith(`[1] ${passages[0].title}`), result.content[0].text);
  assert.ok(result.content[0].text.endsWith(passages[0].text));
  const scores = passages.map(({ score }) => score);
  assert.deepEqual(scores, scores.toSorted((a, b) => b - a));
  assert.deepEqual(progress, [`bm25_search found ${passages.length} passages`]);
  const best = await search(1);
  assert.deepEqual(best.structuredContent.passages, passages.slice(0, 1));
});

test("npm: failures are results, and mistakes are errors", async () => {
  for (const fault of ["fault:text", "fault:reject"]) {
    const result = await ask(fault);
    assert.equal(result.isError, true, fault);
    assert.match(result.content[0].text, /internal error/);
  }
  await assert.rejects(client.callTool({ name: "find", arguments: {} }), /unknown tool/);
  for (const bad of [{}, { query: 7 }, { query: "a", limit: 0 }, { query: "a", limit: 51 }, { query: "a", page: 1 }]) {
    await assert.rejects(client.callTool({ name: "search", arguments: bad }), /`query` must be/, JSON.stringify(bad));
  }
  const empty = await client.callTool({ name: "search", arguments: { query: " " } });
  assert.equal(empty.isError, true);
  await assert.rejects(client.callTool({ name: "ask", arguments: { question: 7 } }), /question/);
});

test("npm: a cancelled call stops its turn", async () => {
  const abort = new AbortController();
  const progress = [];
  const call = ask("fault:long", { signal: abort.signal, onprogress: (step) => (progress.push(step), abort.abort()) });
  await assert.rejects(call, /abort/i);
  assert.ok(progress.length > 0);
});

test("only pages of this server and of allowed origins may call, also if a name points here", async () => {
  const allowing = await startServer({ args: ["--allow-origin", "https://app.example"] });
  // `fetch` sets `host` itself.
  const ping = (base, headers) =>
    new Promise((resolve, reject) => {
      const request = http.request(`${base}/mcp`, { method: "POST", headers: { "content-type": "application/json", ...headers } });
      request.on("response", (response) => (response.resume(), resolve(response.statusCode)));
      request.on("error", reject);
      request.end(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }));
    });
  try {
    for (const [base, headers, status] of [
      [server.url, {}, 200],
      [server.url, { origin: server.url }, 200],
      [server.url, { origin: "http://evil.example" }, 403],
      [server.url, { origin: "null" }, 403],
      [server.url, { origin: "https://app.example" }, 403],
      [allowing.url, { origin: "https://app.example" }, 200],
      [allowing.url, { origin: "http://app.example" }, 403],
      // DNS rebinding: the name of the page is also the host.
      [server.url, { origin: "http://evil.example", host: "evil.example" }, 421],
      [server.url, { "mcp-protocol-version": "2025-06-18" }, 200],
      [server.url, { "mcp-protocol-version": "1999-01-01" }, 400],
    ]) {
      assert.equal(await ping(base, headers), status, JSON.stringify(headers));
    }
  } finally {
    await allowing.stop();
  }
});

test("PyPI mcp lists, asks and sees progress", async () => {
  const seen = JSON.parse((await run(PYTHON, [SCRIPT, `${server.url}/mcp`])).stdout);
  assert.deepEqual(seen.tools, ["ask", "search"]);
  assert.equal(seen.passages, 3);
  assert.equal(seen.answer, seen.text);
  assert.ok(seen.citations > 0);
  assert.match(seen.progress[0], /^Searching with /);
  assert.equal(seen.failed, true);
});
