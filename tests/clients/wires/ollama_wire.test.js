// Ollama's wire, read by PyPI `ollama`.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { serve, vectors } from "./vectors.js";

const run = promisify(execFile);
const PYTHON = process.env.TEST_PYTHON ?? "python3";
const SCRIPT = fileURLToPath(new URL("read_ollama.py", import.meta.url));
const LINES = { headers: { "content-type": "application/x-ndjson" } };
const VECTORS = vectors("ollama");

const read = async (url) => JSON.parse((await run(PYTHON, [SCRIPT, url])).stdout);

/** What a chat shows as thoughts, for the vectors that have some. */
const THINKING = {
  full_turn: "Searching with bm25: commit rule\nbm25 found 3 passages\n",
  thoughts: "Let me see.\nSo.\n",
  tools: "Calling sum\nsum returned\n",
};

function expected({ id, frames }) {
  const { end } = frames.at(-1);
  const failed = end.status === "failed";
  const { usage = {} } = end.metadata;
  return {
    text: frames.map((frame) => frame.text ?? "").join(""),
    thinking: THINKING[id] ?? "",
    done: failed ? [] : ["stop"],
    counts: failed ? [] : [usage.input_tokens ?? null, usage.output_tokens ?? null],
    total: end.timing ? end.timing.elapsed_ms * 1e6 : null,
    error: failed ? `ResponseError: ${end.error.message}` : null,
  };
}

assert.ok(VECTORS.size >= 8);
for (const [id, vector] of VECTORS) {
  for (const byteAtATime of [false, true]) {
    test(`${id}${byteAtATime ? ", one byte per write" : ""}`, async () => {
      const server = await serve(vector.chunks, { ...LINES, byteAtATime });
      try {
        assert.deepEqual(await read(server.url), expected(vector));
      } finally {
        await server.stop();
      }
    });
  }
}

test("a keep-alive is an object without text", async () => {
  const vector = VECTORS.get("full_turn");
  const alive = '{"model":"rag","created_at":"2026-01-02T03:04:05Z","message":{"role":"assistant","content":""},"done":false}\n';
  const server = await serve([alive, ...vector.chunks.slice(0, -1), alive, vector.chunks.at(-1)], LINES);
  try {
    assert.deepEqual(await read(server.url), expected(vector));
  } finally {
    await server.stop();
  }
});

test("a cut stream has no done", async () => {
  const { chunks } = VECTORS.get("full_turn");
  for (const [sent, options] of [
    [chunks, { cutAfter: chunks.length - 1 }],
    [chunks.slice(0, -1), {}],
  ]) {
    const server = await serve(sent, { ...LINES, ...options });
    try {
      assert.deepEqual((await read(server.url)).done, []);
    } finally {
      await server.stop();
    }
  }
});
