// TrustGraph's messages, read by the clients of PyPI `trustgraph-base` from a socket, and over
// HTTP.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { vectors } from "./vectors.js";

const PYTHON = process.env.TEST_PYTHON ?? "python3";
const SCRIPT = fileURLToPath(new URL("read_trustgraph.py", import.meta.url));
const VECTORS = vectors("trustgraph");
const NO_FIGURES = { in_token: null, out_token: null, model: null, sources: [] };

/** Runs each play with its client, all in one process, because that takes a second to start. */
async function read(plays) {
  const child = spawn(PYTHON, [SCRIPT], { stdio: ["pipe", "pipe", "inherit"] });
  child.stdin.end(JSON.stringify(plays));
  const parts = [];
  for await (const part of child.stdout) parts.push(part);
  return JSON.parse(Buffer.concat(parts).toString());
}

const messages = ({ chunks }) => chunks.join("").split("\n").slice(0, -1);
const kind = ({ wire = {} }) => `${wire.kind ?? "graph"}-rag`;
const play = (vector, client) => ({ id: vector.wire?.id ?? "req-1", kind: kind(vector), messages: messages(vector), with: client });

/** A term as PROTOCOL.md specifies it. */
function term(text, place) {
  const quoted = /^<(?!<)(.*)>$/s.exec(text);
  if (place !== "o" || quoted || /^(https?:\/\/|urn:)/.test(text)) return { t: "i", i: quoted ? quoted[1] : text };
  return { t: "l", v: text };
}

const triple = (it) => Object.fromEntries(["s", "p", "o"].map((place) => [place, term(it[place], place)]));

/** The figures of the last message, as PROTOCOL.md specifies them. */
function figures({ wire = {}, frames }) {
  if (wire.specified) return NO_FIGURES;
  const { usage = {}, citations } = frames.at(-1).end.metadata;
  const named = (name) => frames.filter(({ event }) => event?.event === name).map(({ event }) => event);
  const titles = new Map();
  for (const { document_id: uri, title = "" } of named("sources").flatMap(({ sources }) => sources)) {
    if (!titles.has(uri)) titles.set(uri, title);
  }
  if (titles.size === 0) for (const { document_id: uri } of citations) titles.set(uri, "");
  // The limit of the only vector that has one allows two.
  const sources = [...titles].map(([uri, title]) => ({ uri, title })).slice(0, wire.max_trailer_bytes ? 2 : Infinity);
  return {
    in_token: usage.input_tokens ?? null,
    out_token: usage.output_tokens ?? null,
    model: usage.model ?? named("generation_start").at(-1)?.model ?? null,
    sources: wire.kind === "document" ? [] : sources,
  };
}

/** The client's exception for the end of a vector. */
function failure(vector, client) {
  const { status, error } = vector.frames.at(-1).end;
  if (status !== "failed") return null;
  const own = { "graph-rag": "GraphRagError", "document-rag": "DocumentRagError" }[kind(vector)];
  const gateway = ["timeout", "write_stalled", "shutting_down", "busy"].includes(error.code);
  const type = error.code === "llm-error" ? error.code : gateway ? "gateway-error" : `${kind(vector)}-error`;
  const name = type === "llm-error" ? "LLMError" : gateway ? "GatewayError" : own;
  if (client === "http") return { name: "TrustGraphException", message: `${type}: ${error.message}`, type: null };
  // This client does not parse the error.
  if (client.startsWith("async")) {
    return { name: "TrustGraphException", message: `{'message': '${error.message}', 'type': '${type}'}`, type: null };
  }
  return { name, message: error.message, type };
}

const explanations = (messages) =>
  messages.split("\n").slice(0, -1).map((text) => JSON.parse(text).response).filter(({ message_type: type }) => type === "explain");

const chunk = (text, end_of_stream, more = NO_FIGURES) => ({ text, end_of_stream, ...more });
const whole = ({ frames }) => frames.map(({ text = "" }) => text).join("");

/** The expected result of a streaming client. */
function streamed(vector, client) {
  const specified = vector.wire?.specified;
  const seen = [];
  for (const [index, { text, event, end }] of vector.frames.entries()) {
    if (event?.event === "retract" && !specified && vector.chunks[index].includes('"\\n\\n"')) seen.push(chunk("\n\n", false));
    if (text) seen.push(chunk(text, false));
    if (event && (event.event !== "graph_explanation" || specified)) seen.push(chunk("", false));
    if (specified || !(event || end)) continue;
    for (const response of explanations(vector.chunks[index])) {
      if (client === "explain") seen.push({ explain: [response.explain_id, response.explain_graph, response.explain_triples] });
      else if (client === "async") seen.push(chunk("", false));
    }
    // The edges that an orchestrator reports are among them as PROTOCOL.md specifies terms.
    if (event?.event === "graph_explanation" && client === "explain") {
      const [, , triples] = seen.at(-1).explain;
      assert.deepEqual(triples.slice(triples.length - event.triples.length), event.triples.map(triple));
    }
  }
  const error = failure(vector, client);
  if (error) return { seen, error };
  if (specified) seen.push(chunk(whole(vector), true));
  else seen.push(chunk("", true), chunk("", false, figures(vector)));
  return { seen, error };
}

function expected(vector, client) {
  if (client === "stream" || client === "explain") return streamed(vector, client);
  if (client === "async") {
    const { seen, error } = streamed(vector, client);
    return { seen: seen.map(({ text }) => text), error };
  }
  const error = failure(vector, client);
  if (error) return { seen: [], error };
  return { seen: [client === "async_whole" ? whole(vector) : { text: whole(vector), ...figures(vector) }], error };
}

test("every vector, in every client of its service", async () => {
  const plays = [];
  for (const vector of VECTORS.values()) {
    const clients = vector.wire?.streaming ? ["stream", "explain", "async"] : ["whole", "async_whole", "http"];
    for (const client of clients) {
      const one = play(vector, client);
      if (client === "http") one.messages = one.messages.map((text) => JSON.stringify(JSON.parse(text).response));
      plays.push({ vector, client, one });
    }
  }
  assert.ok(plays.length >= 150, `${plays.length} plays`);
  const results = await read(plays.map(({ one }) => one));
  for (const [index, { vector, client }] of plays.entries()) {
    const { error } = results[index];
    // The entities are another test's.
    const seen = results[index].seen.map((item) => (item?.explain ? { explain: item.explain } : item));
    assert.deepEqual({ seen, error }, expected(vector, client), `${vector.id} with ${client}`);
  }
});

test("what --explainable shows", async () => {
  const entities = async (name) => {
    const [{ seen }] = await read([play(VECTORS.get(name), "explain")]);
    return seen.filter(({ explain }) => explain).map(({ entity: { uri, ...entity } }) => entity);
  };
  assert.deepEqual(await entities("document_retrieval"), [
    { entity_type: "question", query: "http://x?", timestamp: "2026-01-02T03:04:05Z", question_type: "document-rag" },
    { entity_type: "exploration", edge_count: 0, chunk_count: 8, entities: [] },
    { entity_type: "synthesis", document: "" },
  ]);
  assert.deepEqual(await entities("triples"), [
    { entity_type: "exploration", edge_count: 8, chunk_count: 0, entities: ["a", "Ann", "s"] },
    { entity_type: "exploration", edge_count: 0, chunk_count: 0, entities: [] },
  ]);
});

test("clients up to version 1.7 read the pieces of the answer from `chunk`", () => {
  for (const vector of VECTORS.values()) {
    if (!vector.wire?.streaming || vector.wire.specified || vector.id === "retracted") continue;
    const pieces = messages(vector).map((text) => JSON.parse(text).response.chunk ?? "");
    assert.equal(pieces.join(""), whole(vector), vector.id);
  }
});

test("the requests of the clients", async () => {
  const graph = VECTORS.get("graph_not_streaming");
  const document = VECTORS.get("document_full_turn");
  const [first, second, twin] = await read([play(graph, "whole"), play(document, "stream"), play(graph, "http")]);
  const limits = {
    "entity-limit": 50,
    "triple-limit": 30,
    "max-subgraph-size": 1000,
    "max-path-length": 2,
    "edge-score-limit": 30,
    "edge-limit": 25,
    "max-reranker-input": 350,
  };
  const address = { id: "req-1", workspace: "default", flow: "default" };
  const question = { query: "?", collection: "c" };
  assert.deepEqual(first.asked, [{ ...address, service: "graph-rag", request: { ...question, ...limits, streaming: false } }]);
  assert.deepEqual(second.asked, [
    { ...address, service: "document-rag", request: { ...question, "doc-limit": 10, "fetch-limit": 0, streaming: true } },
  ]);
  assert.deepEqual(
    twin.asked.map(({ path }) => path),
    ["/api/v1/flow/default/service/graph-rag"],
  );
});

test("two requests on one socket, message by message", async () => {
  const graph = messages(VECTORS.get("graph_full_turn"));
  const document = messages(VECTORS.get("document_full_turn")).map((text) => text.replace('"id":"req-1"', '"id":"req-2"'));
  const both = graph.flatMap((text, index) => [text, document[index]]);
  const [{ seen, error }] = await read([{ id: "", kind: "graph-rag", messages: both, with: "two" }]);
  const texts = ["", "", "", "", "", "Headers wait", " [1].", "", "", ""];
  assert.deepEqual({ seen, error }, { seen: [texts, texts], error: null });
});

test("a refused request", async () => {
  const refused = (type) => ({
    id: "req-1",
    kind: "graph-rag",
    messages: [`{"id":"req-1","error":{"message":"No.","type":"${type}"},"complete":true}`],
  });
  const plays = ["stream", "whole"].flatMap((client) =>
    ["unknown-service", "gateway-error"].map((type) => ({ ...refused(type), with: client })),
  );
  const names = { "unknown-service": "UnexpectedError", "gateway-error": "GatewayError" };
  for (const { seen, error } of await read(plays)) {
    assert.deepEqual({ seen, error }, { seen: [], error: { name: names[error.type], message: "No.", type: error.type } });
  }
});
