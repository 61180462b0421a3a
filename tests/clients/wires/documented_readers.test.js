// The readers that the documentation of Forge and of the session chat prints get every event of
// every vector.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { streamQuery } from "./documented_readers/forge.mjs";
import { streamChat } from "./documented_readers/session_chat.mjs";
import { serve, vectors } from "./vectors.js";

const run = promisify(execFile);
const PYTHON = process.env.TEST_PYTHON ?? "python3";
const READERS = fileURLToPath(new URL("documented_readers/", import.meta.url));
const headers = { "content-type": "text/event-stream" };

/** The events of a stream; fails if a chunk does not end with a frame. */
function expected(chunks) {
  return chunks.flatMap((chunk) => {
    const frames = chunk.split("\n\n");
    assert.equal(frames.pop(), "");
    return frames.map((frame) => JSON.parse(frame.slice(frame.indexOf("data: ") + 6)));
  });
}

for (const [wire, read, byteAtATime] of [
  // The Forge reader loses a frame whose two lines arrive in different reads, so each frame is one
  // write.
  ["forge", (url, onEvent) => streamQuery(url, "q", "agentic", onEvent), [false]],
  ["session_chat", (url, onEvent) => streamChat(url, "q", onEvent), [false, true]],
]) {
  test(`the JavaScript reader of the ${wire} documentation gets every event`, async () => {
    for (const [id, vector] of vectors(wire)) {
      for (const bytewise of byteAtATime) {
        const server = await serve([...vector.chunks, ": keep-alive\n\n"], { headers, byteAtATime: bytewise });
        try {
          const events = [];
          await read(server.url, (event) => events.push(event));
          assert.deepEqual(events, expected(vector.chunks), id);
        } finally {
          await server.stop();
        }
      }
    }
  });

  test(`the Python reader of the ${wire} documentation gets every event`, async () => {
    const all = [...vectors(wire).values()];
    for (const bytewise of [false, true]) {
      const servers = await Promise.all(all.map(({ chunks }) => serve(chunks, { headers, byteAtATime: bytewise })));
      try {
        const urls = servers.map((server) => server.url);
        const { stdout } = await run(PYTHON, [`${READERS}${wire}.py`, ...urls]);
        assert.deepEqual(JSON.parse(stdout), all.map(({ chunks }) => expected(chunks)));
      } finally {
        await Promise.all(servers.map((server) => server.stop()));
      }
    }
  });
}
