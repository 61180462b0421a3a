// The framed wire as published clients read it: curl, httpx, fetch with our own parser, and `ai`.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { TextStreamChatTransport } from "ai";
import { FramedDecoder } from "../../clients/js/src/framed.js";
import { decodeFramed } from "../../clients/js/src/stream.js";
import { ask, startProxy, startServer } from "./harness.js";

const run = promisify(execFile);
const PYTHON = process.env.TEST_PYTHON ?? "python3";
const HERE = fileURLToPath(new URL(".", import.meta.url));
const QUESTION = "When does the response begin?";
const FALLBACK = "I hit an internal error while gathering evidence. Please retry.";

let server;
before(async () => (server = await startServer()));
after(async () => assert.equal(await server.stop(), 0));

/** All items of a stream, adjacent texts merged. */
function decode(bytes) {
  const decoder = new FramedDecoder();
  const items = decoder.feed(bytes);
  const finish = decoder.finish();
  const text = items.filter((item) => item.type === "text").map((item) => item.text).join("");
  const end = items.find((item) => item.type === "end");
  return { events: items.filter((item) => item.type === "event").map((item) => item.event), text, end, finish };
}

async function body(url, prompt) {
  const response = await fetch(url, ask(prompt));
  assert.equal(response.status, 200);
  return new Uint8Array(await response.arrayBuffer());
}

test("curl -N gets the whole turn", async () => {
  const { stdout } = await run(
    "curl",
    ["-sN", server.stream, "-H", "content-type: application/json", "-d", JSON.stringify({ prompt: QUESTION })],
    { encoding: "buffer" },
  );
  const turn = decode(new Uint8Array(stdout));
  assert.deepEqual(turn.finish, { items: [], status: "complete" });
  assert.equal(turn.end.status, "completed");
  assert.ok(turn.events.length >= 4, "steps");
  assert.match(turn.text, /\[1\]/);
  assert.deepEqual(Object.keys(turn.end.metadata).sort(), ["citations", "mode", "queue_stats", "tools_used"]);
});

test("httpx reads the bytes and gets each outcome", async () => {
  const read = async (prompt) =>
    JSON.parse((await run(PYTHON, [join(HERE, "read_framed.py"), server.stream, prompt])).stdout);
  const whole = await read(QUESTION);
  const ours = decode(await body(server.stream, QUESTION));
  assert.deepEqual(whole.text, ours.text);
  assert.deepEqual(whole.trailer, ours.end.metadata);
  assert.deepEqual(whole.events, ours.events.map((event) => event.event));

  const rejected = await read("fault:reject");
  assert.equal(rejected.status, 500);
  assert.equal(rejected.error.code, "chat_failed");
  assert.deepEqual(Object.keys(rejected.error).sort(), ["code", "message", "recoverable", "request_id"]);

  const error = { code: "chat_failed", message: FALLBACK, recoverable: true };
  const queue_stats = { was_queued: false, queue_position: 0, queue_wait_ms: 0 };
  const trailer = { citations: [], mode: "hybrid", tools_used: ["chat_failed"], queue_stats, status: "failed", error };
  for (const [prompt, text] of [
    ["fault:retrieval", FALLBACK],
    ["fault:panic", FALLBACK],
    ["fault:text", `The first half of an answer that breaks \n\n${FALLBACK}`],
  ]) {
    const failed = await read(prompt);
    assert.deepEqual({ ...failed, chunks: 0 }, { status: 200, chunks: 0, events: ["search"], text, trailer });
  }
});

test("steps arrive before the answer, one by one", async () => {
  const response = await fetch(server.stream, ask("fault:slow"));
  const seen = [];
  for await (const item of decodeFramed(response.body)) {
    if (item.type === "event") seen.push([item.event.event, performance.now()]);
    if (item.type === "text") break;
  }
  assert.equal(seen.length, 11);
  // Ten steps, 100 ms apart: if they were held back, they would arrive together.
  assert.ok(seen[10][1] - seen[0][1] > 500, "steps came together");
});

test("ai's TextStreamChatTransport, which the frontend of ADR 0007 uses, shows the same text", async () => {
  const chat = new TextStreamChatTransport({
    api: server.stream,
    prepareSendMessagesRequest: ({ messages }) => ({ body: { prompt: messages.at(-1).parts[0].text } }),
  });
  const send = (text) =>
    chat.sendMessages({
      chatId: "chat",
      trigger: "submit-message",
      messages: [{ id: "1", role: "user", parts: [{ type: "text", text }] }],
    });
  const raw = async (prompt) => {
    let text = "";
    for await (const part of await send(prompt)) if (part.type === "text-delta") text += part.delta;
    return text;
  };
  for (const [prompt, status] of [[QUESTION, "completed"], ["fault:text", "failed"], ["fault:hostile", "completed"]]) {
    // The transport passes the raw stream on; the frontend of ADR 0007 then splits at the
    // separators, as the decoder does.
    const turn = decode(new TextEncoder().encode(await raw(prompt)));
    assert.equal(turn.finish.status, "complete");
    assert.equal(turn.end.status, status);
    assert.equal(turn.text, decode(await body(server.stream, prompt)).text);
  }
  await assert.rejects(send("fault:reject"), (error) => JSON.parse(error.message).error.code === "chat_failed");
});

test("no output can forge the frame", async () => {
  const turn = decode(await body(server.stream, "fault:hostile"));
  assert.equal(turn.end.metadata.citations.length, 1);
  assert.match(turn.text, /\u241e\{"citations":\[\]\} \u241d/);
});

test("one byte per write decodes to the same turn", async () => {
  const proxy = await startProxy(server.url, { byteAtATime: true });
  try {
    const whole = decode(await body(server.stream, QUESTION));
    const split = decode(await body(server.stream.replace(server.url, proxy.url), QUESTION));
    assert.equal(split.text, whole.text);
    assert.deepEqual(split.end.metadata, whole.end.metadata);
    assert.equal(split.events.length, whole.events.length);
  } finally {
    await proxy.stop();
  }
});

test("a stream cut at any byte never looks complete", async () => {
  const length = (await body(server.stream, "fault:text")).length;
  let truncated = 0;
  // Headers, chunk sizes and body: every byte until the stream is whole.
  for (let cutAfter = 1; ; cutAfter += 1) {
    const proxy = await startProxy(server.url, { cutAfter });
    let end;
    let broken;
    try {
      const response = await fetch(server.stream.replace(server.url, proxy.url), ask("fault:text"));
      for await (const item of decodeFramed(response.body)) {
        if (item.type === "end") end = item;
        if (item.type === "truncated") broken = item.phase;
      }
    } catch (error) {
      broken = error.name;
    } finally {
      await proxy.stop();
    }
    if (!end) {
      assert.ok(broken, `cut after ${cutAfter}: neither end nor break`);
      truncated += 1;
    } else {
      assert.ok(cutAfter > length, `cut after ${cutAfter} of more than ${length} bytes looked complete`);
      break;
    }
  }
  assert.ok(truncated > length);
});
