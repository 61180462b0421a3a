// @ts-check
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { generate } from "../scripts/events.js";
import { FramedDecoder } from "../src/framed.js";

const ROOT = new URL("../../../", import.meta.url);
const { types, names } = generate();

test("the types of the events are those of the Rust library", () => {
  const written = readFileSync(new URL("../src/events.d.ts", import.meta.url), "utf8");
  assert.equal(written, types, "run `node scripts/events.js`");
  assert.ok(names.length >= 26);
});

test("PROTOCOL.md lists the same names", () => {
  const protocol = readFileSync(new URL("PROTOCOL.md", ROOT), "utf8");
  const list = /^These names have their own shape.*\n\n([^]*?)\n\n/m.exec(protocol)?.[1];
  assert.deepEqual([...(list ?? "").matchAll(/`(\w+)`/g)].map(([, name]) => name), names);
});

test("the decoders take exactly these names for typed events", () => {
  const event = (/** @type {string | null} */ name) => {
    const [item] = new FramedDecoder().feed(new TextEncoder().encode(`{"event":"${name}","n":1}\n`));
    return item;
  };
  for (const name of names) assert.deepEqual(event(name), { type: "event", event: { event: name, n: 1 } });
  for (const name of ["acme.progress", "searches", "", "constructor"]) {
    assert.deepEqual(event(name), { type: "event", event: { event: name, data: { n: 1 } } });
  }
});
