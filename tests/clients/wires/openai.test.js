// The chat completions wire, read by npm and PyPI `openai`.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import OpenAI, { APIError } from "openai";
import { serve, vectors } from "./vectors.js";

const run = promisify(execFile);
const PYTHON = process.env.TEST_PYTHON ?? "python3";
const SCRIPT = fileURLToPath(new URL("read_openai.py", import.meta.url));
const STREAM = { headers: { "content-type": "text/event-stream; charset=utf-8" } };
const JSON_BODY = { headers: { "content-type": "application/json" } };
const VECTORS = vectors("openai");
const messages = [{ role: "user", content: "?" }];

const twin = (name) => readFileSync(new URL(`../../vectors/openai_twins/${name}.json`, import.meta.url), "utf8");
const client = (url) => new OpenAI({ apiKey: "x", baseURL: `${url}/v1`, maxRetries: 0 });
const tokens = (usage) => [
  usage.prompt_tokens,
  usage.completion_tokens,
  usage.total_tokens,
  usage.prompt_tokens_details?.cached_tokens ?? null,
];
const nothing = () => ({ text: "", reasoning: "", annotations: [], finish: [], usage: null, events: [], metadata: null, error: null });

/** What a chat shows as thoughts, for the vectors that have some. */
const REASONING = {
  failed_before_text: "Searching with bm25: commit rule\n",
  failed_text_before_text: "Searching with bm25: commit rule\n",
  full_turn: "Searching with bm25: commit rule\nReview: approved\n",
  line_separators: "a\u2028b\n",
  thoughts: "Let me see.\nSo.\n",
  tools_and_reasoning: "Calling bm25\nbm25 returned\nhm\nso\n",
  zero_text: "Searching with bm25: commit rule\n",
};
const FILE = { type: "file_citation", file_citation: { file_id: "doc-1", filename: "doc-1", index: 0 } };
const PAGE = {
  type: "url_citation",
  url_citation: { end_index: 9, start_index: 6, title: "A page", url: "https://example.org/a" },
};
const ANNOTATIONS = { annotations: [FILE, PAGE, FILE], full_turn: [FILE] };

function read(seen, chunk) {
  const extension = chunk.ragwire;
  if (extension?.event) seen.events.push(extension.event);
  else if (extension) seen.metadata = extension;
  if (chunk.usage) seen.usage = tokens(chunk.usage);
  for (const choice of chunk.choices) {
    seen.text += choice.delta.content ?? "";
    seen.reasoning += choice.delta.reasoning_content ?? "";
    seen.annotations.push(...(choice.delta.annotations ?? []));
    if (choice.finish_reason) seen.finish.push(choice.finish_reason);
  }
}

function failure(error) {
  if (!(error instanceof APIError)) return { name: error.name };
  return { name: error.constructor.name, message: error.message, code: error.code, type: error.type };
}

const clients = {
  npm: async (url) => {
    const seen = nothing();
    try {
      const stream = await client(url).chat.completions.create({ model: "rag", messages, stream: true });
      for await (const chunk of stream) read(seen, chunk);
    } catch (error) {
      seen.error = failure(error);
    }
    return seen;
  },
  PyPI: async (url) => JSON.parse((await run(PYTHON, [SCRIPT, url, "stream"])).stdout),
};

/** What a client must show for a vector's frames, as PROTOCOL.md specifies. */
function expected({ id, wire = {}, frames }) {
  const seen = { ...nothing(), reasoning: REASONING[id] ?? "", annotations: ANNOTATIONS[id] ?? [] };
  const { end } = frames.at(-1);
  const status = end.status === "completed" ? {} : { status: end.status };
  for (const { text, event } of frames) {
    if (text) seen.text += text;
    if (event && (!wire.progress || wire.progress === "extension")) {
      seen.events.push(Object.fromEntries(Object.entries(event).filter(([, value]) => value !== null)));
    }
  }
  if (end.status === "failed" && wire.on_failure !== "text") {
    seen.error = { name: "APIError", message: end.error.message, code: end.error.code, type: "server_error" };
    return seen;
  }
  if (end.error?.message) seen.text += (seen.text ? "\n\n" : "") + end.error.message;
  const { usage } = end.metadata;
  if (wire.usage && usage.input_tokens !== undefined) {
    const { input_tokens, output_tokens, cached_input_tokens = null } = usage;
    seen.usage = [input_tokens, output_tokens, input_tokens + output_tokens, cached_input_tokens];
  }
  const dropped = wire.progress === "none" ? { events_dropped: frames.filter((frame) => frame.event).length } : {};
  seen.finish = ["stop"];
  seen.metadata = { ...end.metadata, ...status, ...(end.error && { error: end.error }), ...dropped };
  return seen;
}

assert.ok(VECTORS.size >= 15);
for (const [id, vector] of VECTORS) {
  for (const byteAtATime of [false, true]) {
    test(`${id}${byteAtATime ? ", one byte per write" : ""}`, async () => {
      const server = await serve(vector.chunks, { ...STREAM, byteAtATime });
      try {
        for (const [name, stream] of Object.entries(clients)) {
          assert.deepEqual(await stream(server.url), expected(vector), name);
        }
      } finally {
        await server.stop();
      }
    });
  }
}

test("comments are skipped everywhere", async () => {
  const vector = VECTORS.get("full_turn");
  const chunks = [": keep-alive\n\n", ...vector.chunks.flatMap((chunk) => [chunk, ": keep-alive\n\n"])];
  const server = await serve(chunks, STREAM);
  try {
    for (const stream of Object.values(clients)) assert.deepEqual(await stream(server.url), expected(vector));
  } finally {
    await server.stop();
  }
});

test("the stream helper of npm builds the same answer", async () => {
  for (const id of ["full_turn", "annotations", "usage", "late_events", "stopped_after_text", "failed_text_between_tokens"]) {
    const vector = VECTORS.get(id);
    const server = await serve(vector.chunks, STREAM);
    try {
      const stream = client(server.url).chat.completions.stream({ model: "rag", messages });
      const completion = await stream.finalChatCompletion();
      const { message } = completion.choices[0];
      assert.equal(message.content, expected(vector).text, id);
      // It keeps the last delta of a member that it does not know, so the citations come in one.
      assert.deepEqual(message.annotations ?? [], expected(vector).annotations, id);
      assert.equal(completion.choices[0].finish_reason, "stop", id);
    } finally {
      await server.stop();
    }
  }
});

test("a cut stream has no finish_reason, and both clients raise an error", async () => {
  const { chunks } = VECTORS.get("full_turn");
  for (let cutAfter = 1; cutAfter < chunks.length; cutAfter += 1) {
    const server = await serve(chunks, { ...STREAM, cutAfter });
    try {
      for (const [name, stream] of Object.entries(clients)) {
        const seen = await stream(server.url);
        assert.ok(seen.error, `${name} after ${cutAfter}`);
        assert.deepEqual([seen.finish, seen.metadata], [[], null], name);
      }
    } finally {
      await server.stop();
    }
  }
});

test("a stream that a proxy ends early looks complete to both clients, except for its finish_reason", async () => {
  const { chunks } = VECTORS.get("full_turn");
  const server = await serve(chunks.slice(0, -1), STREAM);
  try {
    for (const [name, stream] of Object.entries(clients)) {
      const seen = await stream(server.url);
      assert.deepEqual([seen.text, seen.error, seen.finish, seen.metadata], ["Headers wait [1].", null, [], null], name);
    }
  } finally {
    await server.stop();
  }
});

test("whole completions, errors and models", async () => {
  const whole = {
    npm: async (url) => {
      const seen = nothing();
      const completion = await client(url).chat.completions.create({ model: "rag", messages });
      const { message } = completion.choices[0];
      seen.text = message.content;
      seen.reasoning = message.reasoning_content ?? "";
      seen.annotations = message.annotations ?? [];
      seen.finish = [completion.choices[0].finish_reason];
      seen.metadata = completion.ragwire;
      const { usage } = completion;
      if (usage) seen.usage = tokens(usage);
      return seen;
    },
    PyPI: async (url) => JSON.parse((await run(PYTHON, [SCRIPT, url, "whole"])).stdout),
  };
  for (const [name, text, usage, native] of [
    ["completed", "Yes [1].", [3, 4, 7, null], { reasoning: "Searching with bm25: why?\nLet me see.", annotations: [FILE] }],
    ["stopped", "Ye", null, {}],
    ["failed_text", "Ye\n\nPlease retry.", null, {}],
  ]) {
    const server = await serve([twin(name)], JSON_BODY);
    try {
      for (const read of Object.values(whole)) {
        const metadata = JSON.parse(twin(name)).ragwire;
        assert.deepEqual(await read(server.url), { ...nothing(), text, usage, finish: ["stop"], metadata, ...native });
      }
    } finally {
      await server.stop();
    }
  }

  const broken = await serve([twin("error")], { ...JSON_BODY, status: 500 });
  try {
    const raised = { name: "InternalServerError", code: "chat_failed", type: "server_error" };
    const seen = (await clients.npm(broken.url)).error;
    assert.deepEqual(seen, { ...raised, message: "500 Please retry." });
    const python = (await clients.PyPI(broken.url)).error;
    assert.deepEqual({ ...python, message: "" }, { ...raised, message: "" });
    assert.match(python.message, /Please retry\./);
  } finally {
    await broken.stop();
  }

  const models = await serve([twin("models")], JSON_BODY);
  try {
    const names = [];
    for await (const model of client(models.url).models.list()) names.push(model.id);
    assert.deepEqual(names, ["rag", "rag-large"]);
    assert.deepEqual(JSON.parse((await run(PYTHON, [SCRIPT, models.url, "models"])).stdout), names);
  } finally {
    await models.stop();
  }
});
