// The reference server with the clients of PyPI `trustgraph-base`: both services, on the socket and
// over HTTP.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { startServer } from "../harness.js";

const PYTHON = process.env.TEST_PYTHON ?? "python3";
const SCRIPT = fileURLToPath(new URL("read_trustgraph.py", import.meta.url));
const KINDS = ["graph-rag", "document-rag"];
const QUESTION = "What happens when a turn fails after the commit?";
const SORRY = "I hit an internal error while gathering evidence. Please retry.";
const ERRORS = { "graph-rag": "GraphRagError", "document-rag": "DocumentRagError" };
const NO_FIGURES = { in_token: null, out_token: null, model: null, sources: [] };

let server;
before(async () => (server = await startServer()));
after(() => server.stop());

/** Runs each play with its client, all in one process, because that takes a second to start. */
async function ask(plays) {
  const child = spawn(PYTHON, [SCRIPT, `${server.url}/`], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(JSON.stringify(plays.map((play) => ({ id: "req-1", ...play }))));
  const parts = [];
  for await (const part of child.stdout) parts.push(part);
  return JSON.parse(Buffer.concat(parts).toString());
}

const joined = (seen) => seen.map((item) => item.text ?? (typeof item === "string" ? item : "")).join("");

/** The chunks with text, adjacent ones merged, because the reader's speed decides how they are cut; then the last two. */
function answer(seen) {
  const ends = seen.slice(-2);
  return { text: joined(seen.slice(0, -2)), ends };
}

test("every kind of request gets the same answer", async () => {
  const ways = ["stream", "explain", "async", "whole", "async_whole", "http"];
  const plays = KINDS.flatMap((kind) => ways.map((way) => ({ kind, query: QUESTION, with: way })));
  const results = await ask(plays);
  const texts = results.map(({ seen, error }, index) => {
    assert.equal(error, null, JSON.stringify(plays[index]));
    return joined(seen);
  });
  // Each service has its own answer, always the same.
  for (const [index, kind] of KINDS.entries()) {
    const answers = texts.slice(index * ways.length, (index + 1) * ways.length);
    assert.match(answers[0], /\[1\]/, kind);
    assert.deepEqual(answers, Array(ways.length).fill(answers[0]), kind);
  }
  // Graph RAG returns its documents and the triples that it followed.
  const [streamed, explained, , whole] = results;
  const triples = explained.seen.filter(({ explain }) => explain);
  const ids = triples.map(({ explain }) => explain[0]);
  const edges = ids.filter((id) => /:(exploration|focus):/.test(id));
  assert.deepEqual([ids[0], edges[0], edges.at(-1), ids.at(-1)], ["urn:ragwire:question:1", "urn:ragwire:exploration:1", "urn:ragwire:focus:1", "urn:ragwire:synthesis:1"]);
  assert.ok(triples.every(({ entity }) => ["question", "exploration", "focus", "synthesis"].includes(entity.entity_type)));
  assert.ok(triples.every(({ explain }) => explain[1] === "urn:graph:retrieval" && explain[2].length > 0));
  const { sources } = streamed.seen.at(-1);
  assert.ok(sources.length > 0 && sources.every(({ uri }) => uri));
  assert.deepEqual(whole.seen[0].sources, sources);
});

test("the service `triples` resolves every explanation, and a focus has edges with labels", async () => {
  const results = await ask(KINDS.map((kind) => ({ kind, query: QUESTION, with: "resolve" })));
  for (const [index, { seen, error }] of results.entries()) {
    assert.equal(error, null, KINDS[index]);
    const types = seen.map(({ type }) => type);
    assert.deepEqual([types[0], types.at(-1)], ["question", "synthesis"]);
    assert.ok(seen.every(({ same }) => same), JSON.stringify(seen));
  }
  const focus = results[KINDS.indexOf("graph-rag")].seen.filter(({ type }) => type === "focus");
  assert.ok(focus.length > 0);
  for (const { edges } of focus) {
    assert.ok(edges.length > 0);
    // Names, not IRIs.
    assert.ok(edges.flat().every((label) => label && !/^urn:|_/.test(label)), JSON.stringify(edges));
  }
});

test("the chunks of a stream end as TrustGraph's do", async () => {
  const results = await ask(KINDS.map((kind) => ({ kind, query: "fault:no-events", with: "stream" })));
  for (const { seen, error } of results) {
    assert.equal(error, null);
    const marker = { text: "", end_of_stream: true, ...NO_FIGURES };
    const last = { text: "", end_of_stream: false, ...NO_FIGURES };
    assert.deepEqual(answer(seen), { text: "Yes, it is.", ends: [marker, last] });
  }
});

test("no character of an answer is lost", async () => {
  const plays = ["fault:unicode", "fault:hostile"].flatMap((query) =>
    ["stream", "whole", "http"].map((way) => ({ kind: "graph-rag", query, with: way })),
  );
  const texts = (await ask(plays)).map(({ seen }) => joined(seen));
  assert.ok(texts[0].startsWith("h\u00e9 \u{1f600}\u200d\u{1f680} a\u2028b\u2029c\u0085d\u000be\u000cf\r\ng\rh\ti\u0000j\u0001"));
  assert.deepEqual(texts, [texts[0], texts[0], texts[0], texts[3], texts[3], texts[3]]);
});

test("a failure is the client's exception, after the text so far", async () => {
  const faults = { "fault:reject": "", "fault:retrieval": "", "fault:text": "The first half of an answer that breaks ", "fault:panic": "" };
  const cases = KINDS.flatMap((kind) => Object.keys(faults).map((query) => ({ kind, query })));
  for (const way of ["stream", "whole", "http"]) {
    const results = await ask(cases.map((it) => ({ ...it, with: way })));
    for (const [index, { seen, error }] of results.entries()) {
      const { kind, query } = cases[index];
      const type = `${kind}-error`;
      const expected =
        way === "http"
          ? { name: "TrustGraphException", message: `${type}: ${SORRY}`, type: null }
          : { name: ERRORS[kind], message: SORRY, type };
      assert.deepEqual(error, expected, `${query} ${way}`);
      assert.equal(joined(seen), way === "stream" ? faults[query] : "", `${query} ${way}`);
    }
  }
});

test("errors in the request itself", async () => {
  const [empty] = await ask([{ kind: "graph-rag", query: "", with: "stream" }]);
  assert.deepEqual(empty.error, { name: "UnexpectedError", message: "The prompt is empty.", type: "error" });
  const message = "`max-path-length` must be a whole number from 1 to 10.";
  const limits = { max_path_length: 0 };
  const far = ["stream", "http"].map((way) => ({ kind: "graph-rag", query: QUESTION, with: way, limits }));
  const [streamed, whole] = await ask(far);
  assert.deepEqual(streamed.error, { name: "UnexpectedError", message, type: "error" });
  assert.deepEqual(whole.error, { name: "TrustGraphException", message: `request-error: ${message}`, type: null });
});

test("thirty questions at once on one socket", async () => {
  const topics = ["commit rule?", "back-pressure?", "citations?", "time-outs?", "fault:slow"];
  const alone = await ask(KINDS.flatMap((kind) => topics.map((query) => ({ kind, query, with: "async" }))));
  const texts = alone.map(({ seen }) => joined(seen));
  const queries = Array.from({ length: 30 }, (_, index) => topics[index % topics.length]);
  const [{ seen, error }] = await ask([{ kind: "graph-rag", queries, with: "two" }]);
  assert.equal(error, null);
  assert.deepEqual(
    seen.map(joined),
    // The two services alternate.
    queries.map((query, index) => texts[(index % 2) * topics.length + topics.indexOf(query)]),
  );
  assert.equal(new Set(texts.slice(0, topics.length)).size, topics.length);
});
