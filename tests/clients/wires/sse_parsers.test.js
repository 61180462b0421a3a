// Our reader of server-sent events compared with npm `eventsource-parser`, which `ai` uses, on
// generated streams.
import assert from "node:assert/strict";
import { test } from "node:test";
import { createParser } from "eventsource-parser";
import { FramedError } from "../../../clients/js/src/framed.js";
import { SseDecoder } from "../../../clients/js/src/sse.js";

/** Each stream is cut at every byte, so these are some 15,000 readings. */
const STREAMS = 50;

/** The result of our decoder for a stream in these chunks. */
function ours(chunks) {
  const decoder = new SseDecoder();
  const items = [];
  try {
    for (const chunk of chunks) items.push(...decoder.feed(chunk));
    return { items, status: decoder.finish().status };
  } catch (error) {
    if (!(error instanceof FramedError)) throw error;
    return { items, status: error.code };
  }
}

/** The events of the other parser, each with the last ID that was sent, as the standard requires of readers. */
function theirs(chunks) {
  const events = [];
  let id = "";
  const onEvent = (event) => events.push({ type: event.event ?? "message", data: event.data, id: (id = event.id ?? id) });
  const parser = createParser({ onEvent });
  const decoder = new TextDecoder();
  for (const chunk of chunks) parser.feed(decoder.decode(chunk, { stream: true }));
  return events;
}

/** The same events in the simplest form: LF, one space, no fillers. */
function plainly(events) {
  const lines = events.map(({ type, data, id }) => {
    const dataLines = data.split("\n").map((line) => `data: ${line}\n`);
    return `id: ${id}\nevent: ${type}\n${dataLines.join("")}\n`;
  });
  return [new TextEncoder().encode(lines.join(""))];
}

/** Numbers from 0 to `below` that look random and are the same for the same seed (mulberry32). */
function random(seed) {
  return (below) => {
    seed = (seed + 0x6d2b79f5) | 0;
    let mixed = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

const EVENTS = [
  ["text", '{"text":"a"}'],
  ["text", '{"text":"\u{1f600} \u2028\u0085 : x"}'],
  ["text", '{"text":\n"on two lines"}'],
  ["text", '\n{"text":"after an empty line"}\n'],
  ["own", '{"event":"own","data":{"n":[1]}}'],
  ["own: é", '{"event":"own: é"}'],
  ["custom", '{"event":"end","data":1}'],
  ["search", '{"event":"search","tool":"bm25"}'],
  // Events that our streams do not contain, and that both parsers must handle at the same offset.
  ["text", "no JSON"],
  ["message", '{"text":"the wrong type"}'],
];

/** A stream with varied spelling of its fields, with or without an end. */
function stream(seed) {
  const below = random(seed);
  const one = (list) => list[below(list.length)];
  const end = () => one(["\n", "\n", "\r", "\r\n"]);
  const field = (name, value) => `${name}:${value.startsWith(" ") || below(2) ? " " : ""}${value}${end()}`;
  const filler = () =>
    one([() => `:${one(["", " keep-alive", "data: x", "\0"])}${end()}`, () => field("foo", "bar"), () => `foo${end()}`,
      () => field("retry", one(["5", "x", "", "-1"])), () => field("Data", "x")])();
  let text = below(4) ? "" : "\ufeff";
  const frames = below(6);
  for (let index = 0; index <= frames; index += 1) {
    const last = index === frames && below(4);
    const [type, data] = last ? ["end", '{"end":"stopped"}'] : EVENTS[below(below(8) ? 8 : 10)];
    const fields = data.split("\n").map((line) => (line || below(2) ? field("data", line) : `data${end()}`));
    // The lines of the data keep their order; the others may be anywhere.
    const place = () => below(fields.length + 1);
    if (below(20)) fields.splice(place(), 0, field("id", String(below(20) ? index : index + 1)));
    if (type !== "message") fields.splice(place(), 0, field("event", type));
    while (!below(3)) fields.splice(place(), 0, filler());
    text += fields.join("") + end();
    while (!last && !below(3)) text += end();
    // Two fillers in a row have no empty line between them, so that no ID is without data: see the
    // differences.
    if (!last && !below(3)) text += filler() + end();
  }
  // The other parser holds back a CR at the end of a chunk until the next byte.
  return `${text}:\n`;
}

function cuts(bytes) {
  const twice = Array.from({ length: bytes.length + 1 }, (_, at) => [bytes.subarray(0, at), bytes.subarray(at)]);
  return [...twice, Array.from(bytes, (_, at) => bytes.subarray(at, at + 1))];
}

test("both parsers return the same events, however the bytes are cut", () => {
  const seen = new Map();
  for (let seed = 0; seed < STREAMS; seed += 1) {
    const bytes = new TextEncoder().encode(stream(seed));
    const expected = ours(plainly(theirs([bytes])));
    seen.set(expected.status, (seen.get(expected.status) ?? 0) + 1);
    for (const chunks of cuts(bytes)) {
      assert.deepEqual(ours(chunks), expected, `${seed}: ${JSON.stringify(stream(seed))}`);
      assert.deepEqual(theirs(chunks), theirs([bytes]), `${seed}`);
    }
  }
  // The streams are of all kinds.
  assert.deepEqual([...seen.keys()].sort(), ["bad_event", "complete", "gap", "truncated"]);
});

test("the differences, in which our parser follows the standard", () => {
  const bytes = (text) => [new TextEncoder().encode(text)];
  const text = '{"text":"a"}';
  const items = [{ type: "text", text: "a", index: 7 }];

  // The last ID is the one sent last, even in an event without data.
  const idAlone = `id: 7\n\nevent: text\ndata: ${text}\n\n`;
  assert.deepEqual(ours(bytes(idAlone)).items, items);
  assert.deepEqual(theirs(bytes(idAlone)), [{ type: "text", data: text, id: "" }]);

  // A line ends at its CR, whatever follows.
  const crLast = `id: 7\revent: text\rdata: ${text}\r\r`;
  assert.deepEqual(ours(bytes(crLast)).items, items);
  assert.deepEqual(theirs(bytes(crLast)), []);
});
