// The Responses API, asked by npm and PyPI `openai` against the reference server.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import OpenAI from "openai";
import { startServer } from "../harness.js";

const run = promisify(execFile);
const PYTHON = process.env.TEST_PYTHON ?? "python3";
const SCRIPT = fileURLToPath(new URL("run_responses.py", import.meta.url));
const input = "What is the commit rule?";
const model = "ragwire";

let server;
let client;
before(async () => {
  server = await startServer();
  client = new OpenAI({ apiKey: "x", baseURL: `${server.url}/v1`, maxRetries: 0 });
});
after(() => server.stop());

const kinds = (response) => response.output.map((item) => item.type);

test("responses.stream shows the search, the answer and its annotations", async () => {
  const stream = client.responses.stream({ model, input });
  const seen = [];
  for await (const event of stream) seen.push(event);
  const response = await stream.finalResponse();
  assert.equal(response.status, "completed");
  assert.ok(kinds(response).includes("file_search_call"), kinds(response).join());
  assert.ok(response.output_text.length > 0);
  const message = response.output.find((item) => item.type === "message");
  assert.ok(message.content[0].annotations.length > 0);
  const search = seen.findIndex((event) => event.type.startsWith("response.file_search_call"));
  const text = seen.findIndex((event) => event.type === "response.output_text.delta");
  assert.ok(search >= 0 && search < text, "the search is shown before the answer");
  // The next response follows it in the same conversation.
  const next = await client.responses.create({ model, input: "And why?", previous_response_id: response.id });
  assert.equal(next.previous_response_id, response.id);
  assert.equal(next.status, "completed");
});

test("a background response is read after any event, and cancelled", async () => {
  const stream = await client.responses.create({ model, input: "fault:slow", background: true, stream: true });
  const first = [];
  for await (const event of stream) {
    first.push(event);
    if (first.length === 8) break;
  }
  const { id } = first[0].response;
  const read = async (after) => {
    const seen = [];
    for await (const event of await client.responses.retrieve(id, { stream: true, starting_after: after })) seen.push(event);
    return seen;
  };
  const rest = await read(first.at(-1).sequence_number);
  assert.equal(rest[0].sequence_number, first.at(-1).sequence_number + 1);
  assert.equal(rest.at(-1).type, "response.completed");
  assert.deepEqual(await read(rest[2].sequence_number), rest.slice(3));
  assert.equal((await client.responses.retrieve(id)).status, "completed");
  const running = await client.responses.create({ model, input: "fault:long", background: true });
  assert.equal(running.status, "in_progress");
  assert.notEqual((await client.responses.cancel(running.id)).status, "completed");
});

test("failures and refusals are those of the API", async () => {
  const stream = client.responses.stream({ model, input: "fault:text" });
  const last = [];
  try {
    for await (const event of stream) last.push(event.type);
  } catch (error) {
    last.push(error.message);
  }
  assert.ok(last.some((entry) => /response\.failed|internal error/.test(entry)), last.join());
  await assert.rejects(client.responses.create({ model: "gpt-5", input }), { status: 404 });
  await assert.rejects(client.responses.create({ model, input, previous_response_id: "resp_1" }), { status: 404 });
  await assert.rejects(client.responses.create({ model, input, tools: [{ type: "function", name: "f", parameters: {} }] }), {
    status: 400,
  });
});

test("PyPI openai streams, retrieves and continues", async () => {
  const seen = JSON.parse((await run(PYTHON, [SCRIPT, server.url])).stdout);
  assert.deepEqual([seen.status, seen.next, seen.retrieved], ["completed", "completed", "completed"]);
  assert.ok(seen.kinds.includes("file_search_call"));
  assert.equal(seen.text, seen.deltas);
  assert.ok(seen.annotations > 0);
});
