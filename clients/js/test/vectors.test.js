// @ts-check
// Runs tests/vectors/framed through the decoder, cut in every way. The Rust runner does the same with the same files.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { FramedDecoder, FramedError } from "../src/framed.js";

const ROOT = new URL("../../../", import.meta.url);
const FOLDER = new URL("tests/vectors/framed/", ROOT);
/** All two-way splits of every stream up to here; vectors are meant to be short. */
const MAX_BYTES = 4096;

const files = readdirSync(FOLDER).sort();
const vectors = files.map((file) => ({ file, ...JSON.parse(readFileSync(new URL(file, FOLDER), "utf8")) }));

const KINDS = { ok: /^complete$/, bad: /^error:/, cut: /^truncated:/ };

/** @param {any} vector */
function bytesOf(vector) {
  assert.notEqual("bytes" in vector, "bytes_hex" in vector, "a vector has either bytes or bytes_hex");
  return "bytes" in vector ? new TextEncoder().encode(vector.bytes) : new Uint8Array(Buffer.from(vector.bytes_hex, "hex"));
}

/** @param {any} vector */
function decoderFor({ limits = {} }) {
  return new FramedDecoder({ maxLineBytes: limits.max_line_bytes, maxTrailerBytes: limits.max_trailer_bytes });
}

/**
 * Decodes chunks into what a vector writes down.
 *
 * @param {any} vector
 * @param {Uint8Array[]} chunks
 */
function decode(vector, chunks) {
  const decoder = decoderFor(vector);
  /** @type {any[]} */
  const frames = [];
  let finish;
  try {
    for (const chunk of chunks) {
      add(frames, decoder.feed(chunk));
      // The decoder must not live off its caller's buffer.
      chunk.fill(0x7d);
    }
    const end = decoder.finish();
    add(frames, end.items);
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
 * @param {import("../src/framed.js").Item[]} items
 */
function add(frames, items) {
  for (const { type, ...rest } of items) {
    const last = frames.at(-1);
    if (type === "event") frames.push(rest);
    else if (type === "end") frames.push({ end: rest });
    else {
      assert.notEqual(/** @type {any} */ (rest).text, "");
      if (last && "text" in last) last.text += /** @type {any} */ (rest).text;
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
  test(vector.file, () => {
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
        check(vector, [bytes, Uint8Array.of(byte)], { frames: vector.frames, finish: "error:trailing_bytes" });
      }
      for (let at = 0; at < bytes.length; at += 1) checkPrefix(vector, bytes.slice(0, at));
    }
    run += 1;
  });
}

/**
 * A reader that sees only the first bytes knows that they are not all, and has shown nothing but events and text that
 * the whole stream shows too.
 *
 * @param {any} vector
 * @param {Uint8Array} prefix
 */
function checkPrefix(vector, prefix) {
  const decoder = decoderFor(vector);
  /** @type {any[]} */
  const shown = [];
  add(shown, decoder.feed(prefix));
  assert.equal(decoder.error, null);
  const text = textOf(shown);
  assert.ok(textOf(vector.frames).startsWith(text), `${JSON.stringify(text)} is not how the text begins`);
  const events = shown.filter((frame) => "event" in frame);
  assert.deepEqual(events, vector.frames.filter((/** @type {any} */ frame) => "event" in frame).slice(0, events.length));
  assert.equal(shown.length, events.length + (text === "" ? 0 : 1), "nothing but events and text");

  const phase = decoder.phase;
  const { items, ...finish } = decoder.finish();
  assert.deepEqual(finish, { status: "truncated", phase });
  for (const item of items) assert.deepEqual(item, { type: "text", text: "\ufffd" });
}

test("every file was run", () => {
  assert.equal(run, files.length);
  console.log(`vectors: ${run}`);
});

test("every rule is covered by a vector, or says which test covers it", () => {
  const protocol = readFileSync(new URL("PROTOCOL.md", ROOT), "utf8");
  const rules = [...protocol.matchAll(/^\*\*\[(F-\d\d)\]\*\*(.*)/gm)];
  const names = rules.map(([, name]) => name);
  assert.deepEqual(names, Array.from({ length: 19 }, (_, at) => `F-${String(at + 1).padStart(2, "0")}`));
  const elsewhere = rules.filter(([, , text]) => text.includes("(covered by `tests/")).map(([, name]) => name);
  const covered = new Set(vectors.flatMap((vector) => vector.covers));
  assert.deepEqual(names.filter((name) => !covered.has(name)), elsewhere);
  assert.deepEqual([...covered].filter((name) => !names.includes(name)), []);
});
