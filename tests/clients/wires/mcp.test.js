// The MCP route, used by the clients of npm `@modelcontextprotocol/sdk` and PyPI `mcp` against the
// reference server.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
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
  assert.deepEqual(tools.map(({ name }) => name), ["ask"]);
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

test("npm: failures are results, and mistakes are errors", async () => {
  for (const fault of ["fault:text", "fault:reject"]) {
    const result = await ask(fault);
    assert.equal(result.isError, true, fault);
    assert.match(result.content[0].text, /internal error/);
  }
  await assert.rejects(client.callTool({ name: "search", arguments: {} }), /unknown tool/);
  await assert.rejects(client.callTool({ name: "ask", arguments: { question: 7 } }), /question/);
});

test("npm: a cancelled call stops its turn", async () => {
  const abort = new AbortController();
  const progress = [];
  const call = ask("fault:long", { signal: abort.signal, onprogress: (step) => (progress.push(step), abort.abort()) });
  await assert.rejects(call, /abort/i);
  assert.ok(progress.length > 0);
});

test("a page of another origin is refused", async () => {
  const response = await fetch(`${server.url}/mcp`, {
    method: "POST",
    headers: { "content-type": "application/json", origin: "http://evil.example" },
    body: "{}",
  });
  assert.equal(response.status, 403);
});

test("PyPI mcp lists, asks and sees progress", async () => {
  const seen = JSON.parse((await run(PYTHON, [SCRIPT, `${server.url}/mcp`])).stdout);
  assert.deepEqual(seen.tools, ["ask"]);
  assert.equal(seen.answer, seen.text);
  assert.ok(seen.citations > 0);
  assert.match(seen.progress[0], /^Searching with /);
  assert.equal(seen.failed, true);
});
