// @ts-check
// Tests that vectors cannot express: the decoder's contract, its memory and its time.
import assert from "node:assert/strict";
import { test } from "node:test";

import { FramedDecoder, FramedError } from "../src/framed.js";

/** @param {string} text */
const bytes = (text) => new TextEncoder().encode(text);

test("a string is refused with a message that explains why", () => {
  for (const value of ["\x1d", null, undefined, new ArrayBuffer(1), [0x1d], new Uint16Array(1)]) {
    const decoder = new FramedDecoder();
    assert.throws(() => decoder.feed(/** @type {any} */ (value)), { name: "TypeError", message: "feed takes a Uint8Array" });
    assert.deepEqual(decoder.feed(bytes("\x1dA")), [{ type: "text", text: "A" }], "the decoder is as it was");
  }
});

test("a Node Buffer is accepted", () => {
  assert.deepEqual(new FramedDecoder().feed(Buffer.from("\x1dA")), [{ type: "text", text: "A" }]);
});

test("limits are whole numbers", () => {
  for (const limit of [0, -1, 1.5, NaN, Infinity, "9"]) {
    assert.throws(() => new FramedDecoder({ maxLineBytes: /** @type {any} */ (limit) }), RangeError);
    assert.throws(() => new FramedDecoder({ maxTrailerBytes: /** @type {any} */ (limit) }), RangeError);
  }
});

test("an error returns the items before it and is thrown by every later call", () => {
  const decoder = new FramedDecoder();
  assert.deepEqual(decoder.feed(bytes('{"event":"a"}\nnope\n{"event":"b"}\n')), [
    { type: "event", event: { event: "a", data: {} } },
  ]);
  const { error } = decoder;
  assert.ok(error instanceof FramedError && error instanceof Error);
  assert.equal(error.code, "bad_event");
  assert.equal(error.name, "FramedError");
  for (const call of [() => decoder.feed(bytes("\x1d")), () => decoder.feed(bytes("")), () => decoder.finish()]) {
    assert.throws(call, (thrown) => thrown === error);
  }
});

test("finish is final and can be called again", () => {
  const decoder = new FramedDecoder();
  decoder.feed(new Uint8Array([0x1d, 0xf0, 0x9f]));
  assert.deepEqual(decoder.finish(), {
    items: [{ type: "text", text: "\ufffd" }],
    status: "truncated",
    phase: "text",
  });
  assert.deepEqual(decoder.finish(), { items: [], status: "truncated", phase: "text" });
  assert.throws(() => decoder.feed(bytes("A")), { message: "feed after finish" });
});

test("the phase follows the stream", () => {
  const decoder = new FramedDecoder();
  for (const [text, phase] of /** @type {const} */ ([
    ["", "events"],
    ['{"event":"a"}\n', "events"],
    ["\x1d", "text"],
    ["A", "text"],
    ["\x1e", "trailer"],
    ["{", "trailer"],
    ["}", "ended"],
  ])) {
    decoder.feed(bytes(text));
    assert.equal(decoder.phase, phase);
  }
  assert.deepEqual(decoder.finish(), { items: [], status: "complete" });
});

test("an event is returned with its line end, text with its last byte", () => {
  const decoder = new FramedDecoder();
  assert.deepEqual(decoder.feed(bytes('{"event":"a"}')), []);
  assert.deepEqual(decoder.feed(bytes("\n")), [{ type: "event", event: { event: "a", data: {} } }]);
  assert.deepEqual(decoder.feed(bytes("\x1dA")), [{ type: "text", text: "A" }]);
  assert.deepEqual(decoder.feed(new Uint8Array([0x42, 0xf0, 0x9f, 0x98])), [{ type: "text", text: "B" }]);
  assert.deepEqual(decoder.feed(new Uint8Array([0x80])), [{ type: "text", text: "\u{1f600}" }]);
});

test("the default limits are those of the protocol", () => {
  const line = (/** @type {number} */ length) => bytes(`{"event":"${"x".repeat(length - 12)}"}`);
  const trailer = (/** @type {number} */ length) => bytes(`\x1d\x1e{"mode":"${"x".repeat(length - 11)}"}`);
  for (const [input, code] of /** @type {const} */ ([
    [line(262_144), undefined],
    [line(262_145), "line_too_long"],
    [trailer(1_048_576), undefined],
    [trailer(1_048_577), "trailer_too_long"],
  ])) {
    const decoder = new FramedDecoder();
    decoder.feed(input);
    assert.equal(decoder.error?.code, code);
  }
});

test("an endless line and an endless trailer are refused at the limit", () => {
  for (const [start, code] of [
    ["", "line_too_long"],
    ["\x1d\x1e{", "trailer_too_long"],
  ]) {
    const decoder = new FramedDecoder({ maxLineBytes: 1000, maxTrailerBytes: 1000 });
    decoder.feed(bytes(start));
    const byte = bytes(" ");
    let fed = start === "" ? 0 : 1;
    while (!decoder.error) {
      decoder.feed(byte);
      fed += 1;
    }
    assert.equal(decoder.error.code, code);
    assert.equal(fed, 1001);
  }
});

test("an unfinished line is one buffer within the limit", () => {
  const limit = 1 << 20;
  const before = process.memoryUsage();
  const decoders = Array.from({ length: 4 }, () => new FramedDecoder({ maxLineBytes: limit }));
  const byte = bytes("x");
  for (const decoder of decoders) for (let fed = 0; fed < limit; fed += 1) decoder.feed(byte);
  const after = process.memoryUsage();
  // 4 MiB of lines: 4 Mi fragments would take some 400 MiB.
  const held = after.heapUsed + after.arrayBuffers - before.heapUsed - before.arrayBuffers;
  assert.ok(held < 128 * limit, `${held} bytes`);
  for (const decoder of decoders) assert.equal(decoder.error, null);
});

// Doubling the input must about double the time. A rescan from the start of the line, or to the
// next separator, would exceed the bound a hundred times at these sizes.
test("time is linear", () => {
  const inputs = {
    "one line, byte by byte": [bytes("x".repeat(262_000)), 1],
    "many lines in one chunk": [bytes('{"event":"a"}\n'.repeat(200_000)), Infinity],
    "keep-alives in one chunk": [bytes("\n".repeat(2_000_000)), Infinity],
    "text, byte by byte": [bytes("\x1d" + "x".repeat(300_000)), 1],
    "a trailer, byte by byte": [bytes('\x1d\x1e{"a":"' + "x".repeat(1_000_000)), 1],
  };
  for (const [name, [input, step]] of Object.entries(inputs)) {
    const chunks = /** @type {Uint8Array} */ (input);
    const width = Math.min(/** @type {number} */ (step), chunks.length);
    const decoder = new FramedDecoder();
    const started = performance.now();
    for (let at = 0; at < chunks.length; at += width) decoder.feed(chunks.subarray(at, at + width));
    const took = performance.now() - started;
    assert.equal(decoder.error, null);
    assert.ok(took < 5000, `${name}: ${took} ms`);
  }
});
