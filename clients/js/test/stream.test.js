// @ts-check
import assert from "node:assert/strict";
import { test } from "node:test";

import { RequestError } from "../src/errors.js";
import { FramedError } from "../src/framed.js";
import { NdjsonDecoder } from "../src/ndjson.js";
import { FramedDecoderStream, decodeFramed, decodeStream, withdraw } from "../src/stream.js";

const EVENT = '{"event":"search","tool":"bm25"}\n';
const WHOLE = `${EVENT}\x1dHi \u{1f600}\x1e{"citations":[],"tools_used":["bm25"]}`;
const ITEMS = [
  { type: "event", event: { event: "search", tool: "bm25" } },
  { type: "text", text: "Hi \u{1f600}" },
  { type: "end", status: "completed", metadata: { citations: [], tools_used: ["bm25"] } },
];
const MAKERS = {
  decodeFramed,
  FramedDecoderStream: (/** @type {ReadableStream<Uint8Array>} */ readable) =>
    iterate(readable.pipeThrough(new FramedDecoderStream())),
};

/**
 * A stream of the chunks that then stays open (`undefined`), ends (`"end"`) or fails (an error),
 * and records how it was cancelled.
 *
 * @param {Uint8Array[]} chunks
 * @param {"end" | Error} [last]
 */
function source(chunks, last) {
  const left = [...chunks];
  /** @type {{readable: ReadableStream<Uint8Array>, cancelled: unknown[]}} */
  const made = { readable: /** @type {any} */ (null), cancelled: [] };
  made.readable = new ReadableStream({
    pull(controller) {
      const chunk = left.shift();
      if (chunk) controller.enqueue(chunk);
      else if (last === "end") controller.close();
      else if (last) controller.error(last);
      else return new Promise(() => {});
    },
    cancel(reason) {
      made.cancelled.push(reason);
    },
  }, { highWaterMark: 0 });
  return made;
}

/** @param {string} text */
const whole = (text) => [new TextEncoder().encode(text)];
/** @param {string} text */
const byteByByte = (text) => Array.from(new TextEncoder().encode(text), (byte) => Uint8Array.of(byte));

/**
 * Iterates a stream by its reader, because not every browser can iterate a stream.
 *
 * @param {ReadableStream<any>} readable
 */
async function* iterate(readable) {
  const reader = readable.getReader();
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) yield next.value;
  } finally {
    await reader.cancel();
  }
}

/**
 * @param {AsyncIterable<any>} items
 * @returns {Promise<{items: any[], error?: any}>} with adjacent texts merged
 */
async function collect(items) {
  /** @type {any[]} */
  const all = [];
  try {
    for await (const item of items) {
      if (item.type === "text" && all.at(-1)?.type === "text") all.at(-1).text += item.text;
      else all.push(item);
    }
  } catch (error) {
    return { items: all, error };
  }
  return { items: all };
}

for (const [name, decode] of Object.entries(MAKERS)) {
  for (const chunks of [whole, byteByByte]) {
    test(`${name}: ${chunks.name}`, async () => {
      assert.deepEqual(await collect(decode(source(chunks(WHOLE), "end").readable)), { items: ITEMS });
    });

    test(`${name}: a truncated stream ends with a truncated item, ${chunks.name}`, async () => {
      for (const [text, items] of /** @type {const} */ ([
        ["", [{ type: "truncated", phase: "events" }]],
        [EVENT, [ITEMS[0], { type: "truncated", phase: "events" }]],
        [`${EVENT}\x1dHi`, [ITEMS[0], { type: "text", text: "Hi" }, { type: "truncated", phase: "text" }]],
        [WHOLE.slice(0, -1), [ITEMS[0], ITEMS[1], { type: "truncated", phase: "trailer" }]],
      ])) {
        assert.deepEqual(await collect(decode(source(chunks(text), "end").readable)), { items });
      }
    });

    test(`${name}: items before an error are not lost, ${chunks.name}`, async () => {
      const stream = source(chunks(`${EVENT}nope\n${EVENT}`));
      const { items, error } = await collect(decode(stream.readable));
      assert.deepEqual(items, [ITEMS[0]]);
      assert.ok(error instanceof FramedError);
      assert.equal(error.code, "bad_event");
      assert.equal(stream.cancelled.length, 1, "nobody reads on");
    });

    test(`${name}: bytes after the end, ${chunks.name}`, async () => {
      const { items, error } = await collect(decode(source(chunks(`${WHOLE}\n`), "end").readable));
      assert.deepEqual(items, ITEMS);
      assert.equal(error.code, "trailing_bytes");
    });
  }

  test(`${name}: a character that is cut by the end`, async () => {
    const chunks = [new Uint8Array([0x1d, 0x41, 0xf0, 0x9f])];
    assert.deepEqual(await collect(decode(source(chunks, "end").readable)), {
      items: [{ type: "text", text: "A\ufffd" }, { type: "truncated", phase: "text" }],
    });
  });

  test(`${name}: leaving the loop cancels the stream`, async () => {
    const stream = source(whole(EVENT));
    for await (const item of decode(stream.readable)) {
      assert.deepEqual(item, ITEMS[0]);
      break;
    }
    assert.equal(stream.cancelled.length, 1);
  });

  test(`${name}: an item is delivered before the next bytes arrive`, async () => {
    const items = decode(source([...whole(EVENT), ...whole("\x1dHi")]).readable);
    assert.deepEqual(await items.next(), { done: false, value: ITEMS[0] });
    assert.deepEqual(await items.next(), { done: false, value: { type: "text", text: "Hi" } });
  });

  test(`${name}: a failure of the transport is thrown unchanged`, async () => {
    const failure = new Error("connection reset");
    const { items, error } = await collect(decode(source(whole(`${EVENT}\x1d`), failure).readable));
    assert.deepEqual(items, [ITEMS[0]]);
    assert.equal(error, failure);
  });

  test(`${name}: a stream of strings is refused`, async () => {
    const stream = source(/** @type {any} */ (["\x1d"]));
    const { error } = await collect(decode(stream.readable));
    assert.equal(error.name, "TypeError");
    assert.equal(stream.cancelled.length, 1);
  });
}

test("cancel does not wait for bytes that never arrive", async () => {
  const stream = source([]);
  const reader = stream.readable.pipeThrough(new FramedDecoderStream()).getReader();
  const pending = reader.read();
  await reader.cancel("enough");
  assert.deepEqual(await pending, { done: true, value: undefined });
  assert.deepEqual(stream.cancelled, ["enough"]);
});

test("limits are passed on", async () => {
  const options = { maxLineBytes: 5 };
  const direct = await collect(decodeFramed(source(whole(WHOLE), "end").readable, options));
  assert.equal(direct.error.code, "line_too_long");
  const piped = source(whole(WHOLE), "end").readable.pipeThrough(new FramedDecoderStream(options));
  assert.equal((await collect(iterate(piped))).error.code, "line_too_long");
});

test("a response is taken as it is; without a body it is a typed error", async () => {
  assert.deepEqual(await collect(decodeFramed(new Response(WHOLE))), { items: ITEMS });
  for (const source of [null, new Response(null), new Response(null, { status: 204 })]) {
    const { items, error } = await collect(decodeFramed(source));
    assert.deepEqual(items, []);
    assert.ok(error instanceof RequestError);
    assert.equal(error.code, "no_body");
  }
});

test("a refused response is the server's error and never a stream", async () => {
  const refusal = { error: { code: "busy", message: "Try later.", recoverable: true, request_id: "r-1" } };
  for (const [body, headers, expected] of /** @type {[string, Record<string, string>, object][]} */ ([
    [JSON.stringify(refusal), { "retry-after": "7" }, { code: "busy", message: "Try later.", recoverable: true, requestId: "r-1", retryAfter: 7000 }],
    ["<html>\x1dHi\x1e{}", {}, { code: "http", message: "the server answered 503", recoverable: true, requestId: undefined, retryAfter: undefined }],
    ["null", { "retry-after": "soon" }, { code: "http", retryAfter: 0 }],
    ["[]", { "retry-after": "Thu, 01 Jan 1970 00:00:00 GMT" }, { code: "http", retryAfter: 0 }],
  ])) {
    const { items, error } = await collect(decodeFramed(new Response(body, { status: 503, headers })));
    assert.deepEqual(items, []);
    assert.ok(error instanceof RequestError);
    assert.deepEqual({ ...error, message: error.message }, { ...error, message: error.message, status: 503, ...expected });
  }
});

test("decodeStream reads any wire and reports where to resume", async () => {
  const decoder = new NdjsonDecoder();
  const items = [];
  for await (const item of decodeStream(source(byteByByte('{"index":4,"text":"a"}\n{"index":5,'), "end").readable, decoder)) {
    items.push(item);
  }
  assert.deepEqual(items, [
    { type: "text", text: "a", index: 4 },
    { type: "truncated", phase: "text" },
  ]);
  assert.equal(decoder.nextIndex, 5);
});

test("withdraw counts code points", () => {
  for (const [kept, text] of /** @type {[number, string][]} */ ([[0, ""], [1, "\u{1f600}"], [2, "\u{1f600}\u00e4"], [9, "\u{1f600}\u00e4b"]])) {
    assert.equal(withdraw("\u{1f600}\u00e4b", kept), text);
  }
});
