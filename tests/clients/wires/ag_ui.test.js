// The AG-UI wire, read by `HttpAgent` of @ag-ui/client, which checks the order of every stream.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { read } from "./read_ag_ui.js";
import { parks, serve, vectors } from "./vectors.js";

const run = promisify(execFile);
const SCRIPT = fileURLToPath(new URL("read_ag_ui.js", import.meta.url));

const STREAM = { headers: { "content-type": "text/event-stream" } };
// asks.test.js reads the vectors with questions.
const VECTORS = new Map([...vectors("ag_ui")].filter(([, vector]) => !parks(vector)));

/** The objects in the bytes of a vector. */
const objects = (chunks) =>
  chunks
    .join("")
    .split("\n\n")
    .filter((frame) => frame)
    .map((frame) => JSON.parse(frame.slice("data: ".length)));

/** The thoughts of a turn: pieces with one ID that follow one another are one. */
function thoughts(frames) {
  const thoughts = [];
  let open;
  for (const { event } of frames) {
    const { event: name, content, id } = event ?? {};
    const isThought = ["thinking", "reasoning"].includes(name);
    if (isThought && id !== undefined && id === open) thoughts.push(thoughts.pop() + content);
    else if (isThought) thoughts.push(content);
    open = isThought ? id : undefined;
  }
  return thoughts;
}

/** The outcome, errors and messages that a client must show for a vector's frames. */
function expected({ frames }) {
  const { end } = frames.at(-1);
  const text = frames.map((frame) => frame.text ?? "").join("");
  const { status, metadata } = end;
  return {
    failed: null,
    error: status === "failed" ? { message: end.error.message, code: end.error.code } : null,
    outcome: { completed: "success", stopped: "cancelled", failed: null }[status],
    result: status === "completed" ? metadata : null,
    text,
    // Each thought and each tool is a message; events without their own name in AG-UI are not.
    reasoning: thoughts(frames),
    // The client treats calls with one ID as one call.
    calls: new Set(
      frames.flatMap(({ event }, index) => (event?.event === "tool_call" ? [event.call_id ?? index] : [])),
    ).size,
    results: frames.flatMap(({ event }) =>
      event?.event !== "tool_result"
        ? []
        : [typeof event.result === "string" ? event.result : event.result ? JSON.stringify(event.result) : ""],
    ),
  };
}

function summary({ failed, error, outcome, result, messages }) {
  const role = (name) => messages.filter((message) => message.role === name);
  const answers = role("assistant").filter((message) => /^r-message(-\d+)?$/.test(message.id));
  // The steps of retrieval are tools too; a test below has all of them.
  const isRetrieval = (id) => id.startsWith("r-retrieval-");
  return {
    failed,
    error,
    outcome,
    result,
    text: answers.map((message) => message.content).join(""),
    reasoning: role("reasoning").map((message) => message.content),
    calls: role("assistant").flatMap((message) => message.toolCalls ?? []).filter(({ id }) => !isRetrieval(id)).length,
    results: role("tool").filter((message) => !isRetrieval(message.toolCallId)).map((message) => message.content),
  };
}

assert.ok(VECTORS.size >= 15);
for (const [id, vector] of VECTORS) {
  for (const byteAtATime of [false, true]) {
    test(`${id}${byteAtATime ? ", one byte per write" : ""}`, async () => {
      const server = await serve(vector.chunks, { ...STREAM, byteAtATime });
      try {
        const seen = await read(server.url);
        assert.deepEqual(seen.events, objects(vector.chunks));
        const { results, ...rest } = summary(seen);
        const { results: sentResults, ...wanted } = expected(vector);
        assert.deepEqual(rest, wanted);
        // The client puts results after their calls, so their order may differ.
        assert.deepEqual(results.sort(), sentResults.sort());
      } finally {
        await server.stop();
      }
    });
  }
}

/** The messages of a run in the order in which the client shows them, in short. */
const shown = (messages) =>
  messages.map(({ role, id, content, toolCalls, toolCallId }) => {
    if (role === "tool") return ["result", toolCallId, content];
    if (!toolCalls) return [role, id, content];
    return ["calls", ...toolCalls.map((call) => [call.id, call.function.name, JSON.parse(call.function.arguments)])];
  });

for (const [id, messages] of Object.entries({
  tool_amid_text: [
    ["assistant", "r-message", "Let me look. "],
    ["calls", ["w", "web", {}]],
    ["result", "w", "found"],
    ["assistant", "r-message-2", "It is so."],
  ],
  thought_in_pieces: [
    ["reasoning", "r-reasoning-1", "First the index."],
    ["reasoning", "r-reasoning-3", "Then"],
    ["reasoning", "r-reasoning-5", " more"],
    ["reasoning", "r-reasoning-6", "Whole."],
    ["reasoning", "r-reasoning-7", "Last"],
    ["assistant", "r-message", "Here."],
  ],
  retrieval: [
    ["calls", ["r-retrieval-1", "search_documents", { query: "commit", tool: "bm25", page: 1 }]],
    ["result", "r-retrieval-1", '{"tool":"bm25","chunks_found":3,"duration_ms":7}'],
    ["assistant", "r-message", "Yes."],
    ["calls", ["r-retrieval-2", "verify_answer", { claims: 1 }]],
    [
      "result",
      "r-retrieval-2",
      '{"claims_checked":1,"claims_supported":1,"claims_partially_supported":0,"claims_unsupported":0,"details":[]}',
    ],
  ],
  retract: [
    ["assistant", "r-message", "Half a wrong"],
    ["assistant", "r-message-2", "right one."],
  ],
})) {
  test(`the messages of ${id} are in order`, async () => {
    const server = await serve(VECTORS.get(id).chunks, STREAM);
    try {
      assert.deepEqual(shown((await read(server.url)).messages), messages);
    } finally {
      await server.stop();
    }
  });
}

test("calls find their results, and metadata stays on the messages", async () => {
  const server = await serve(VECTORS.get("tools").chunks, STREAM);
  try {
    const { messages } = await read(server.url);
    const calls = messages.flatMap((message) => message.toolCalls ?? []);
    assert.deepEqual(
      calls.map((call) => [call.id, call.function.name, JSON.parse(call.function.arguments), call.metadata ?? null]),
      [
        ["c1", "bm25", { q: 'a"b' }, { iteration: 1, round: 1, max_rounds: 5 }],
        ["c2", "graph", {}, null],
      ],
    );
    const results = messages.filter((message) => message.role === "tool");
    assert.deepEqual(
      Object.fromEntries(results.map((message) => [message.toolCallId, [message.content, message.metadata]])),
      {
        c1: ["no index", { tool: "bm25", is_error: true }],
        c2: ['{"n":[1,2]}', { tool: "graph", is_error: false, duration_ms: 12 }],
      },
    );
  } finally {
    await server.stop();
  }
});

test("comments are skipped everywhere", async () => {
  const { chunks } = VECTORS.get("full_turn");
  const server = await serve([": keep-alive\n\n", ...chunks.flatMap((chunk) => [chunk, ": keep-alive\n\n"])], STREAM);
  try {
    assert.deepEqual((await read(server.url)).events, objects(chunks));
  } finally {
    await server.stop();
  }
});

test("a cut connection is a failed run, a stream that ends early is not", async () => {
  for (const id of ["full_turn", "failed_between_tokens"]) {
    const { chunks } = VECTORS.get(id);
    for (let cutAfter = 1; cutAfter < chunks.length; cutAfter += 1) {
      const cut = await serve(chunks, { ...STREAM, cutAfter });
      const early = await serve(chunks.slice(0, cutAfter), STREAM);
      try {
        // In a separate process: in addition to the failure the client leaves a rejection that
        // cannot be handled.
        const broken = JSON.parse((await run(process.execPath, [SCRIPT, cut.url])).stdout);
        assert.ok(broken.failed, `cut after ${cutAfter}`);
        assert.deepEqual([broken.outcome, broken.result, broken.rejections], [null, null, ["terminated"]]);
        // A reader recognises the cut by the missing outcome and the missing error.
        const silent = await read(early.url);
        assert.deepEqual([silent.failed, silent.error, silent.outcome, silent.result], [null, null, null, null]);
      } finally {
        await cut.stop();
        await early.stop();
      }
    }
  }
});
