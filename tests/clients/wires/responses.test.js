// The Responses wire, read by npm and PyPI `openai`: what their stream helpers reduce a stream to.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import OpenAI from "openai";
import { serve, vectors } from "./vectors.js";

const run = promisify(execFile);
const PYTHON = process.env.TEST_PYTHON ?? "python3";
const SCRIPT = fileURLToPath(new URL("read_responses.py", import.meta.url));
const STREAM = { headers: { "content-type": "text/event-stream; charset=utf-8" } };
const VECTORS = vectors("responses");
/** Not a whole stream. */
const RESUMED = "starting_after";

const client = (url) => new OpenAI({ apiKey: "x", baseURL: `${url}/v1`, maxRetries: 0 });

/** An item of the output as a page would show it. */
function shown(item) {
  const { type, status } = item;
  if (type === "file_search_call") return { type, status, queries: item.queries };
  if (type === "mcp_call") {
    return { type, status, name: item.name, arguments: item.arguments, output: item.output, error: item.error };
  }
  if (type === "reasoning") return { type, status, lines: item.summary.map((part) => part.text) };
  const [{ text, annotations }] = item.content;
  return { type, status, text, annotations };
}

function reduced(response) {
  return {
    status: response.status,
    error: response.error?.message ?? null,
    text: response.output_text,
    output: response.output.map(shown),
    usage: response.usage ? [response.usage.input_tokens, response.usage.output_tokens] : null,
    metadata: response.ragwire ?? null,
  };
}

const clients = {
  npm: async (url) => {
    const stream = client(url).responses.stream({ model: "rag", input: "?" });
    const seen = { events: [], deltas: "", numbers: [], error: null };
    stream.on("event", (event) => {
      seen.numbers.push(event.sequence_number);
      if (event.ragwire?.event) seen.events.push(event.ragwire.event);
      if (event.type === "response.output_text.delta") seen.deltas += event.delta;
    });
    try {
      const response = reduced(await stream.finalResponse());
      return { ...seen, response };
    } catch (error) {
      return { ...seen, error: error.message };
    }
  },
  PyPI: async (url) => JSON.parse((await run(PYTHON, [SCRIPT, url])).stdout),
};

/** The last event of the stream: what every client must have at the end. */
function last({ chunks }) {
  const lines = chunks.join("").split("\n").filter((line) => line.startsWith("data: "));
  const { response } = JSON.parse(lines.at(-1).slice("data: ".length));
  const messages = response.output.filter((item) => item.type === "message");
  return { ...response, output_text: messages.map((item) => item.content[0].text).join("") };
}

function expected(vector) {
  const { frames, wire = {} } = vector;
  const events = frames.filter((frame) => frame.event).map((frame) => frame.event);
  const count = vector.chunks.join("").split("\n\n").length - 1;
  return {
    events: wire.extension === false ? [] : events,
    deltas: frames.map((frame) => frame.text ?? "").join(""),
    numbers: Array.from({ length: count }, (_, number) => number),
    error: null,
    response: reduced(last(vector)),
  };
}

assert.ok(VECTORS.size >= 12);
for (const [id, vector] of VECTORS) {
  if (id === RESUMED) continue;
  for (const byteAtATime of [false, true]) {
    test(`${id}${byteAtATime ? ", one byte per write" : ""}`, async () => {
      const server = await serve(vector.chunks, { ...STREAM, byteAtATime });
      try {
        for (const [name, read] of Object.entries(clients)) {
          // The parser of PyPI is tested byte by byte in openai.test.js.
          if (byteAtATime && name === "PyPI") continue;
          assert.deepEqual(await read(server.url), expected(vector), name);
        }
      } finally {
        await server.stop();
      }
    });
  }
}

test("the last event of full_turn is what a page shows", () => {
  // Spelled out once, so that a mistake in the last event cannot hide behind it.
  const page = "https://example.org/a";
  const file = { type: "file_citation", file_id: "doc-1", filename: "doc-1", index: 0 };
  assert.deepEqual(reduced(last(VECTORS.get("full_turn"))).output, [
    { type: "file_search_call", status: "completed", queries: ["commit rule"] },
    { type: "reasoning", status: "completed", lines: ["Graded 3 passages: 2 relevant"] },
    {
      type: "message",
      status: "completed",
      text: "Headers wait [1] [2].",
      annotations: [file, { type: "url_citation", end_index: 20, start_index: 17, title: "A page", url: page }, file],
    },
    { type: "reasoning", status: "completed", lines: ["Verified 1 claim: 1 supported"] },
  ]);
});

test("what arrives is shown before the end", async () => {
  const { chunks } = VECTORS.get("full_turn");
  const server = await serve(chunks, STREAM);
  try {
    const kinds = [];
    const stream = client(server.url).responses.stream({ model: "rag", input: "?" });
    for await (const event of stream) kinds.push(event.type);
    const order = ["searching", "file_search_call.completed", "summary_text.delta", "output_text.delta", "annotation.added"];
    const found = order.map((part) => kinds.findIndex((kind) => kind.endsWith(part)));
    assert.ok(found.every((at, index) => at > (found[index - 1] ?? 0)), `${kinds}`);
  } finally {
    await server.stop();
  }
});

test("a cut stream never looks complete", async () => {
  const { chunks } = VECTORS.get("full_turn");
  for (let cutAfter = 1; cutAfter < chunks.length; cutAfter += 1) {
    const server = await serve(chunks, { ...STREAM, cutAfter });
    const early = await serve(chunks.slice(0, cutAfter), STREAM);
    try {
      for (const [name, read] of Object.entries(clients)) {
        assert.ok((await read(server.url)).error, `${name} after ${cutAfter}`);
        // Where a proxy ends the body early, npm returns what it has: not completed.
        const seen = await read(early.url);
        assert.ok(seen.error || seen.response.status === "in_progress", `${name} after ${cutAfter}`);
      }
    } finally {
      await server.stop();
      await early.stop();
    }
  }
});

test("a resumed stream has the numbers after the one that the reader has", async () => {
  const { chunks, wire } = VECTORS.get(RESUMED);
  const server = await serve(chunks, STREAM);
  try {
    const numbers = [];
    let text = "";
    const stream = await client(server.url).responses.retrieve("resp_1", { stream: true, starting_after: wire.starting_after });
    for await (const event of stream) {
      numbers.push(event.sequence_number);
      if (event.type === "response.output_text.delta") text += event.delta;
    }
    assert.equal(numbers[0], wire.starting_after + 1);
    assert.deepEqual(numbers, numbers.map((_, at) => numbers[0] + at));
    assert.equal(text, "Yes.");
  } finally {
    await server.stop();
  }
});
