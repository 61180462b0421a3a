// @ts-check
// The test vectors through `ask`, with a connection that breaks after every byte.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { FramedError, NdjsonDecoder, SseDecoder, ask, framed, ndjson, resume, sse } from "../src/index.js";
import { collect, joined, respond, server, skipDelays } from "./support.js";

const VECTORS = new URL("../../../tests/vectors/", import.meta.url);
const RESET = new TypeError("connection reset");

/** @type {Record<string, {wire: import("../src/index.js").Wire, Decoder: any}>} */
const WIRES = { framed: { wire: framed, Decoder: null }, sse: { wire: sse, Decoder: SseDecoder }, ndjson: { wire: ndjson, Decoder: NdjsonDecoder } };

/**
 * Returns what a journal sends from an index on: the bytes after the frames before it.
 *
 * @param {string} name
 * @param {Uint8Array} bytes
 */
function journalOf(name, bytes) {
  if (name === "framed") return { first: 0, rest: () => bytes };
  const decoder = new WIRES[name].Decoder();
  /** @type {Map<number, number>} */
  const starts = new Map();
  let first = 0;
  for (let at = 0; at < bytes.length; at += 1) {
    for (const item of decoder.feed(bytes.subarray(at, at + 1))) {
      // A snapshot may be the first frame, whatever the reader asked for.
      if (starts.size === 0 && item.type !== "snapshot") first = item.index;
      starts.set(item.index + 1, at + 1);
    }
  }
  return { first, rest: (/** @type {number} */ from) => bytes.subarray(starts.get(from) ?? 0) };
}

for (const [name, { wire }] of Object.entries(WIRES)) {
  const folder = new URL(`${name}/`, VECTORS);
  const vectors = readdirSync(folder).map((file) => JSON.parse(readFileSync(new URL(file, folder), "utf8")));
  for (const { id, finish, bytes: text, bytes_hex: hex, limits = {} } of vectors) {
    const bytes = hex === undefined ? new TextEncoder().encode(text) : new Uint8Array(Buffer.from(hex, "hex"));
    const options = { wire, maxLineBytes: limits.max_line_bytes, maxTrailerBytes: limits.max_trailer_bytes };

    if (finish === "complete") {
      test(`${name}/${id}: broken after every byte, nothing is lost or repeated`, async (t) => {
        skipDelays(t);
        const { first, rest } = journalOf(name, bytes);
        const read = async (/** @type {any[]} */ ...replies) => {
          const { fetch, requests } = server(...replies);
          const turn = await resume("", "t-1", { ...options, fetch, ...(first && { from: first }) });
          return { ...(await collect(turn)), requests };
        };
        const whole = await read(respond(bytes.slice()));
        assert.equal(whole.error, undefined);
        assert.equal(whole.requests.length, 1);
        const again = (/** @type {string} */ url) => respond(rest(Number(new URL(url, "http://x").searchParams.get("from"))).slice());
        for (let at = 0; at < bytes.length; at += 1) {
          const { items, error, requests } = await read(respond(bytes.slice(0, at), at % 2 ? "end" : RESET), again);
          assert.equal(error, undefined, `cut at ${at}`);
          const isComplete = requests.length === 1;
          assert.deepEqual(joined(items), joined(whole.items), `cut at ${at}`);
          // Bytes that may follow the end are not worth another connection.
          assert.ok(!isComplete || items.at(-1).type === "end");
        }
      });
    } else if (finish.startsWith("error:")) {
      test(`${name}/${id}: what breaks a rule is not read again`, async (t) => {
        skipDelays(t);
        const { fetch, requests } = server(respond(bytes));
        const { error } = await collect(await ask("", "Why?", { ...options, fetch }));
        assert.ok(error instanceof FramedError);
        assert.equal(requests.length, 1);
      });
    }
  }
}
