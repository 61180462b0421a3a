// @ts-check
// Runs tests/vectors/{framed,sse,ndjson} through their decoders, cut at every byte. The Rust runner
// does the same with the same files.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { FramedDecoder, FramedError } from "../src/framed.js";
import { NdjsonDecoder } from "../src/ndjson.js";
import { SseDecoder } from "../src/sse.js";

const ROOT = new URL("../../../", import.meta.url);
/** @type {Record<string, {Decoder: any, prefix: string, rules: number, mayFollow: number[]}>} */
const WIRES = {
  framed: { Decoder: FramedDecoder, prefix: "F", rules: 20, mayFollow: [] },
  sse: { Decoder: SseDecoder, prefix: "S", rules: 10, mayFollow: [0x0a, 0x0d, 0x3a] },
  ndjson: { Decoder: NdjsonDecoder, prefix: "N", rules: 10, mayFollow: [] },
};
/** The longest stream that is cut at every byte; vectors must be short. */
const MAX_BYTES = 4096;

const vectors = Object.keys(WIRES).flatMap((wire) => {
  const folder = new URL(`tests/vectors/${wire}/`, ROOT);
  const files = readdirSync(folder).sort();
  return files.map((file) => ({ wire, file, ...JSON.parse(readFileSync(new URL(file, folder), "utf8")) }));
});

const KINDS = { ok: /^complete$/, bad: /^error:/, cut: /^truncated:/ };

/** @param {any} vector */
function bytesOf(vector) {
  assert.notEqual("bytes" in vector, "bytes_hex" in vector, "a vector has either bytes or bytes_hex");
  return "bytes" in vector ? new TextEncoder().encode(vector.bytes) : new Uint8Array(Buffer.from(vector.bytes_hex, "hex"));
}

/** @param {any} vector */
function decoderFor({ wire, limits = {} }) {
  return new WIRES[wire].Decoder({ maxLineBytes: limits.max_line_bytes, maxTrailerBytes: limits.max_trailer_bytes });
}

/**
 * Decodes chunks into the form of a vector.
 *
 * @param {any} vector
 * @param {Uint8Array[]} chunks
 */
function decode(vector, chunks) {
  const decoder = decoderFor(vector);
  /** @type {any[]} */
  const frames = [];
  const merge = vector.wire === "framed";
  let finish;
  try {
    for (const chunk of chunks) {
      add(frames, decoder.feed(chunk), merge);
      // The decoder must not keep a view of its caller's buffer.
      chunk.fill(0x7d);
    }
    const end = decoder.finish();
    add(frames, end.items, merge);
    finish = end.status === "complete" ? "complete" : `truncated:${end.phase}`;
  } catch (error) {
    assert.ok(error instanceof FramedError);
    assert.equal(error, decoder.error);
    finish = `error:${error.code}`;
  }
  return { frames, finish };
}

/**
 * @param {any[]} frames
 * @param {any[]} items
 * @param {boolean} merge
 */
function add(frames, items, merge) {
  for (const { type, index, ...rest } of items) {
    assert.equal(index === undefined, merge, "an index on the wires that count, and only there");
    const last = frames.at(-1);
    if (type === "event") frames.push(rest);
    else if (type === "end") frames.push({ end: rest });
    else if (type === "snapshot") frames.push({ snapshot: { frames: index + 1, ...rest } });
    else {
      assert.notEqual(/** @type {any} */ (rest).text, "");
      if (merge && last && "text" in last) last.text += /** @type {any} */ (rest).text;
      else frames.push(rest);
    }
  }
}

/**
 * @param {any} vector
 * @param {Uint8Array[]} parts
 */
function check(vector, parts, expected = { frames: vector.frames, finish: vector.finish }) {
  const cuts = parts.map((part) => part.length);
  assert.deepEqual(
    decode(vector, parts.map((part) => part.slice())),
    expected,
    `cut into ${cuts}`,
  );
}

/** @param {any[]} frames */
function textOf(frames) {
  return frames.map((frame) => frame.text ?? "").join("");
}

let run = 0;
for (const vector of vectors) {
  test(`${vector.wire}/${vector.file}`, () => {
    assert.equal(`${vector.id}.json`, vector.file);
    const kind = /** @type {keyof typeof KINDS} */ (vector.file.split("_")[0]);
    assert.match(vector.finish, KINDS[kind]);
    const bytes = bytesOf(vector);
    assert.ok(bytes.length <= MAX_BYTES);

    check(vector, [bytes]);
    check(vector, Array.from(bytes, (byte) => Uint8Array.of(byte)));
    for (let at = 0; at <= bytes.length; at += 1) {
      check(vector, [bytes.subarray(0, at), new Uint8Array(0), bytes.subarray(at)]);
    }

    if (kind === "ok") {
      for (let byte = 0; byte < 256; byte += 1) {
        // Any byte may follow an unfinished comment.
        const skipped = bytes.at(-1) === 0x3a || WIRES[vector.wire].mayFollow.includes(byte);
        const finish = skipped ? "complete" : "error:trailing_bytes";
        check(vector, [bytes, Uint8Array.of(byte)], { frames: vector.frames, finish });
      }
      let complete = 0;
      while (decode(vector, [bytes.slice(0, complete)]).finish !== "complete") {
        checkPrefix(vector, bytes.slice(0, complete));
        complete += 1;
      }
      assert.ok(complete === bytes.length || WIRES[vector.wire].mayFollow.includes(bytes[complete]));
    }
    run += 1;
  });
}

/**
 * Checks that a decoder that got only the first bytes reports truncation, and has returned nothing
 * but events and text that the whole stream returns too.
 *
 * @param {any} vector
 * @param {Uint8Array} prefix
 */
function checkPrefix(vector, prefix) {
  const decoder = decoderFor(vector);
  /** @type {any[]} */
  const shown = [];
  const merge = vector.wire === "framed";
  add(shown, decoder.feed(prefix), merge);
  assert.equal(decoder.error, null);
  const text = textOf(shown);
  assert.ok(textOf(vector.frames).startsWith(text), `${JSON.stringify(text)} is not how the text begins`);
  const events = shown.filter((frame) => "event" in frame);
  assert.deepEqual(events, vector.frames.filter((/** @type {any} */ frame) => "event" in frame).slice(0, events.length));
  if (merge) assert.equal(shown.length, events.length + (text === "" ? 0 : 1), "nothing but events and text");
  else assert.deepEqual(shown, vector.frames.slice(0, -1).slice(0, shown.length));

  const phase = decoder.phase;
  const { items, ...finish } = decoder.finish();
  assert.deepEqual(finish, { status: "truncated", phase });
  for (const item of items) assert.deepEqual(item, { type: "text", text: "\ufffd" });
}

test("every file was run", () => {
  assert.equal(run, vectors.length);
  for (const wire of Object.keys(WIRES)) {
    console.log(`${wire} vectors: ${vectors.filter((vector) => vector.wire === wire).length}`);
  }
});

test("every rule is covered by a vector or names the test that covers it", () => {
  const protocol = readFileSync(new URL("PROTOCOL.md", ROOT), "utf8");
  for (const [wire, { prefix, rules: count }] of Object.entries(WIRES)) {
    const rules = [...protocol.matchAll(/^\*\*\[(\w-\d\d)\]\*\*(.*)/gm)].filter(([, name]) => name.startsWith(prefix));
    const names = rules.map(([, name]) => name);
    assert.deepEqual(names, Array.from({ length: count }, (_, at) => `${prefix}-${String(at + 1).padStart(2, "0")}`));
    const elsewhere = rules.filter(([, , text]) => text.includes("(covered by `tests/")).map(([, name]) => name);
    const covered = new Set(vectors.flatMap((vector) => (vector.wire === wire ? vector.covers : [])));
    assert.deepEqual(names.filter((name) => !covered.has(name)), elsewhere);
    assert.deepEqual([...covered].filter((name) => !names.includes(name)), []);
  }
});
