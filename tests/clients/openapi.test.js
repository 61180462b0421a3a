// Checks the OpenAPI document against its standard, and the answers of a running server against the
// document.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Validator } from "@seriousme/openapi-schema-validator";
import { Ajv2020 } from "ajv/dist/2020.js";
import { startServer } from "./harness.js";

let server;
let document;
let ajv;
before(async () => {
  server = await startServer();
  document = await (await fetch(`${server.url}/openapi.json`)).json();
  // `format` is the width of a number, which JSON does not have; the document itself is not a
  // schema.
  ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
  ajv.addSchema({ $id: "requests", ...document });
  ajv.addSchema({ $id: "responses", ...closed(document) });
});
after(async () => assert.equal(await server.stop(), 0));

/** The same schema, except that objects may have only the documented members. */
function closed(value) {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== "object" || value === null) return value;
  const copy = Object.fromEntries(Object.entries(value).map(([name, member]) => [name, closed(member)]));
  return copy.type === "object" && copy.properties ? { ...copy, additionalProperties: false } : copy;
}

/** The schema at a place of the document. */
function schemaAt(which, pointer) {
  const escaped = pointer.map((name) => name.replaceAll("~", "~0").replaceAll("/", "~1"));
  return ajv.compile({ $ref: `${which}#/${escaped.map(encodeURIComponent).join("/")}` });
}

function check(which, pointer, value) {
  const validate = schemaAt(which, pointer);
  assert.ok(validate(value), `${pointer.join(" ")}: ${ajv.errorsText(validate.errors)} in ${JSON.stringify(value)}`);
}

const JSON_TYPE = "application/json";

/** Calls a route and checks the answer against the document. */
async function call(method, path, { body, headers = { "content-type": JSON_TYPE }, at = path } = {}) {
  const reply = await fetch(server.url + at, { method, body, headers: body === undefined ? {} : headers });
  const pointer = ["paths", path, method.toLowerCase(), "responses", String(reply.status)];
  const documented = document.paths[path][method.toLowerCase()].responses[reply.status];
  assert.ok(documented, `${method} ${path} does not document ${reply.status}`);
  const type = reply.headers.get("content-type")?.split(";")[0];
  if (type === undefined) {
    assert.equal(documented.content, undefined);
    assert.equal(await reply.text(), "");
    return null;
  }
  assert.ok(documented.content[type], `${method} ${path} does not document ${type}`);
  if (type !== JSON_TYPE) return reply.text();
  const value = await reply.json();
  check("responses", [...pointer, "content", type, "schema"], value);
  return value;
}

test("the document is OpenAPI 3.1", async () => {
  const validator = new Validator();
  const { valid, errors } = await validator.validate(document);
  assert.ok(valid, JSON.stringify(errors, null, 2));
  assert.equal(validator.version, "3.1");
});

test("descriptions are not written for readers of the Rust API", () => {
  const text = JSON.stringify(document, (name, value) => (name === "example" ? undefined : value));
  assert.doesNotMatch(text, /```|crate::|use ragwire/);
});

test("examples match their schemas", () => {
  let examples = 0;
  for (const [path, item] of Object.entries(document.paths)) {
    for (const [method, { requestBody }] of Object.entries(item)) {
      const { example } = requestBody?.content[JSON_TYPE] ?? {};
      if (example === undefined) continue;
      check("requests", ["paths", path, method, "requestBody", "content", JSON_TYPE, "schema"], example);
      examples += 1;
    }
  }
  assert.equal(examples, 18);
});

test("answers match the document", async () => {
  const answered = new Set();
  const { id: session } = await call("POST", "/v1/sessions", { body: "{}" });
  const placed = (path) =>
    path.replace("{session_id}", session).replace("{flow}", "default").replace("{service}", "graph-rag");
  for (const [path, item] of Object.entries(document.paths)) {
    const example = item.post?.requestBody?.content[JSON_TYPE]?.example;
    if (example === undefined) continue;
    await call("POST", path, { body: JSON.stringify(example), at: placed(path) });
    answered.add(path);
    // Refusals: invalid JSON, wrong members, a missing JSON media type; and a failure before the
    // response.
    await call("POST", path, { body: "{", at: placed(path) });
    await call("POST", path, { body: '{"title":7}', at: placed(path) });
    await call("POST", path, { body: "{}", headers: { "content-type": "text/plain" }, at: placed(path) });
    const fails = JSON.stringify(example).replace("What is the commit rule?", "fault:reject");
    await call("POST", path, { body: fails, at: placed(path) });
  }
  const completion = { model: "ragwire", messages: [{ role: "user", content: "What is the commit rule?" }] };
  await call("POST", "/v1/chat/completions", { body: JSON.stringify(completion) });
  await call("POST", "/v1/chat/completions", { body: JSON.stringify({ ...completion, model: "gpt-4o" }) });
  const { id: completionId } = await call("POST", "/v1/chat/completions", { body: JSON.stringify({ ...completion, store: true }) });
  const stored = "/v1/chat/completions/{completion_id}";
  for (const tail of [completionId, `${completionId}?stream=true&starting_after=2`, `${completionId}?stream=true&starting_after=x`, "unknown"]) {
    await call("GET", stored, { at: `/v1/chat/completions/${tail}` });
  }
  const { thread_id: thread } = await call("POST", "/threads", { body: '{"metadata":{"topic":"birds"}}' });
  const of = (path) => path.replace("{thread_id}", thread).replace("{checkpoint_id}", "unknown");
  for (const body of ['{"values":{"messages":[{"type":"human","content":"Why?"}]}}', '{"values":{"topic":1}}', '{"checkpoint_id":"0"}']) {
    await call("POST", "/threads/{thread_id}/state", { body, at: of("/threads/{thread_id}/state") });
  }
  await call("PATCH", "/threads/{thread_id}", { body: '{"metadata":{"seen":true}}', at: of("/threads/{thread_id}") });
  for (const path of ["/threads/search", "/threads/count"]) await call("POST", path, { body: "{}" });
  for (const path of ["/threads/{thread_id}", "/threads/{thread_id}/state", "/threads/{thread_id}/state/{checkpoint_id}", "/threads/{thread_id}/runs"]) {
    await call("GET", path, { at: of(path) });
  }
  for (const body of ["{}", '{"limit":1}']) {
    await call("POST", "/threads/{thread_id}/history", { body, at: of("/threads/{thread_id}/history") });
  }
  const whole = "/v1/rag/sessions/{session_id}/messages";
  const { citations } = await call("POST", whole, { body: '{"prompt":"What is the commit rule?"}', at: placed(whole) });
  await call("POST", whole, { body: '{"prompt":"Why?"}', at: whole.replace("{session_id}", "a%2Fb") });
  const inSession = "/v1/sessions/{session_id}/turns";
  const { turns } = await call("GET", inSession, { at: placed(inSession) });
  const { turn_id: recorded } = turns.at(-1);
  for (const id of [recorded, "0".repeat(32)]) {
    await call("GET", "/v1/turns/{turn_id}", { at: `/v1/turns/${id}` });
    for (const body of ['{"rating":"down","note":"Too long."}', '{"rating":"sideways"}', "{"]) {
      await call("POST", "/v1/turns/{turn_id}/feedback", { body, at: `/v1/turns/${id}/feedback` });
    }
  }
  // With feedback, the turn has every member.
  await call("GET", "/v1/feedback");
  for (const body of ['{"title":"Rules"}', '{"title":""}']) await call("PATCH", "/v1/sessions/{session_id}", { body, at: placed("/v1/sessions/{session_id}") });
  for (let times = 0; times < 2; times += 1) await call("DELETE", `${inSession}/{turn_id}`, { at: `${placed(inSession)}/${recorded}` });
  const { id: deleted } = await call("POST", "/v1/sessions", { body: "{}" });
  for (let times = 0; times < 2; times += 1) await call("DELETE", "/v1/sessions/{session_id}", { at: `/v1/sessions/${deleted}` });

  const upload = { body: "An owl.", headers: { "content-type": "text/markdown" } };
  const { documents } = await call("POST", "/v1/documents", { ...upload, at: "/v1/documents?name=owl.md" });
  await call("POST", "/v1/documents", upload);
  await call("GET", "/v1/documents");
  const chunk = "/v1/documents/{document_id}/chunks/{chunk_id}";
  const [{ document_id, chunk_id }] = citations;
  await call("GET", chunk, { at: `/v1/documents/${document_id}/chunks/${chunk_id}` });
  await call("GET", chunk, { at: "/v1/documents/a/chunks/b" });
  const original = "/v1/documents/{document_id}/original";
  for (const id of [documents[0].id, "unknown"]) await call("GET", original, { at: `/v1/documents/${id}/original` });
  const remove = "/v1/documents/{document_id}";
  for (let times = 0; times < 2; times += 1) await call("DELETE", remove, { at: `/v1/documents/${documents[0].id}` });
  for (const id of [session, "unknown", "a%2Fb"]) {
    await call("GET", "/v1/sessions/{session_id}", { at: `/v1/sessions/${id}` });
  }
  await call("POST", "/api/v1/flow/{flow}/service/{service}", {
    body: '{"query":"Why?"}',
    at: "/api/v1/flow/default/service/agent",
  });
  for (const model of ["ragwire", "gpt-4o"]) await call("GET", "/v1/models/{model}", { at: `/v1/models/${model}` });
  const eve = "/eve/v1/session/{session_id}";
  const { sessionId, continuationToken } = await call("POST", "/eve/v1/session", { body: '{"message":"Why?"}' });
  await call("GET", `${eve}/stream`, { at: `/eve/v1/session/${sessionId}/stream` });
  await call("GET", `${eve}/stream`, { at: `/eve/v1/session/${sessionId}/stream?startIndex=x` });
  await call("GET", `${eve}/stream`, { at: "/eve/v1/session/unknown/stream" });
  for (const id of [sessionId, "unknown"]) await call("POST", `${eve}/cancel`, { at: `/eve/v1/session/${id}/cancel` });
  const more = { message: "And why not?", continuationToken };
  await call("POST", eve, { body: JSON.stringify(more), at: `/eve/v1/session/${sessionId}` });
  for (const id of [sessionId, "unknown"]) {
    await call("POST", eve, { body: '{"message":"Why?"}', at: `/eve/v1/session/${id}` });
  }
  const answer = "/v1/turns/{turn_id}/answer";
  for (const body of ["{", '{"request_id":"r","response":1}']) {
    await call("POST", answer, { body, at: `/v1/turns/${"0".repeat(32)}/answer` });
  }
  await call("GET", "/api/chat/{chat_id}/stream", { at: "/api/chat/c/stream" });
  await call("POST", "/api/chat/{chat_id}/stop", { at: "/api/chat/c/stop" });
  const { turn } = await call("POST", "/v1/turns", {
    body: '{"prompt":"What is the commit rule?"}',
    headers: { "content-type": "application/json", prefer: "respond-async" },
  });
  for (const tail of [`${turn}/stream`, `${turn}/stream?from=x`, `${turn}/stream?from=1000`, `${"0".repeat(32)}/stream`]) {
    await call("GET", "/v1/turns/{turn_id}/stream", { at: `/v1/turns/${tail}` });
  }
  for (const id of [turn, "0".repeat(32)]) await call("POST", "/v1/turns/{turn_id}/stop", { at: `/v1/turns/${id}/stop` });
  for (const [path, item] of Object.entries(document.paths)) {
    if (item.get && !path.includes("{")) await call("GET", path);
  }
  assert.equal(answered.size, 17);
});

const human = { role: "user", content: "What is the commit rule?" };
const ofUi = { role: "user", parts: [{ type: "text", text: "What is the commit rule?" }] };
const agUi = { threadId: "t", runId: "r", messages: [human] };
const model = "ragwire";
const ask = { name: "ask", arguments: { question: "What is the commit rule?" } };

// Bodies that a route accepts, and bodies that it refuses: its schema has to say so.
const BODIES = {
  "/v1/turns": {
    accepted: [{ prompt: "Why?", history: [{ role: "assistant", text: "Because." }] }, { prompt: "Why?", filter: { tags: "a", kind: ["markdown"] } }],
    refused: [{ prompt: " " }, { prompt: "Why?", history: [{}] }, { prompt: "Why?", history: [{ role: "tool", text: "1" }] }, { prompt: "Why?", options: [] }, { prompt: "Why?", session_id: "s", history: [{ role: "user", text: "x" }] }, { prompt: "Why?", options: { service: null } }, { prompt: "Why?", options: { output_schema: {} } }],
  },
  "/v1/rag/sessions/{session_id}/messages": {
    accepted: [{ prompt: "Why?", filter: { folders: ["a"], language: "en", since: "2026-01" } }, { prompt: "Why?", filter: null }],
    refused: ["x", { a: 1 }, { colour: "red" }, { tags: [1] }, { kinds: ["word"] }, { language: "xx" }, { since: "yesterday" }, { since: Array(101).fill("2026") }].map((filter) => ({ prompt: "Why?", filter })),
  },
  "/v1/sessions": { accepted: [{}, { profile_name: "default" }, { title: "é".repeat(200) }], refused: [{ profile_name: "" }, { title: "x".repeat(201) }] },
  "/v1/sessions/{session_id}/chat": { accepted: [{ message: "Why?" }], refused: [{ message: "" }, { message: "\n" }, { message: "\u0085" }] },
  "/v1/chat/completions": {
    accepted: [{ model, messages: [human] }, { model, messages: [{ role: "user", content: [{ type: "text", text: "Why?" }] }], response_format: { type: "text" }, reasoning_effort: "minimal" }, { model, messages: [human], n: 1.0, seed: 7, stop: null, user: "u", tool_choice: "none", filter: { tags: "a" }, later: null }],
    refused: [
      { model, messages: [human], n: 2 },
      { model, messages: [human], temperature: 0 },
      { model, messages: [human], seed: 0.5 },
      { model, messages: [human], later: true },
      { model, messages: [human], filter: { colour: "red" } },
      { model, messages: [] },
      { model, messages: [{ role: "reasoning", content: null }] },
      { model, messages: [{ role: "user", content: "" }] },
      { model, messages: [{ ...human, images: ["aGk="] }] },
      { model, messages: [{ role: "user", content: [{ type: "text" }] }] },
      { model, messages: [{ role: "user", content: {} }] },
      { model, messages: [{ role: "user", content: [{ type: "thought", text: "Why?" }] }] },
      { model, messages: [human], response_format: {} },
      { model, messages: [human], response_format: { type: "json_object" } },
      { model, messages: [human], reasoning_effort: "extreme" },
    ],
  },
  "/api/generate": {
    accepted: [{ model, prompt: "Why?" }, { model, prompt: "Why?", images: null }, { model, prompt: "Why?", raw: false, suffix: "", keep_alive: "5m", think: "high", format: "", tools: [], options: { num_ctx: 8192, temperature: 0.8, stop: [], later: null } }],
    refused: [{ images: ["aGk="] }, { raw: true }, { later: 1 }, { format: "json" }, { format: { type: "object" } }, { options: { filter: [] } }, { options: { temperature: 0 } }, { options: { later: 1 } }, { options: [] }].map((others) => ({ model, prompt: "Why?", ...others })),
  },
  "/v1/responses": {
    accepted: [{ model, input: "Why?" }, { model, input: [human, { type: "function_call" }], tools: [{ type: "file_search" }], reasoning: { effort: "low" }, text: { format: { type: "text" } } }],
    refused: [
      { model },
      ...[null, "", [], [{ type: "function_call" }]].map((input) => ({ model, input })),
      ...[{}, "x", [{}], [{ type: "function" }]].map((tools) => ({ model, input: "Why?", tools })),
      { model, input: "Why?", reasoning: { effort: "extreme" } },
      { model, input: "Why?", truncation: "auto" },
      { model, input: "Why?", later: [] },
      { model, input: "Why?", text: { format: { type: "json_object" } } },
    ],
  },
  "/api/chat": {
    accepted: [{ messages: [ofUi] }, { id: "c", messages: [{ role: "user", parts: [{ type: "data-x", data: 1 }, ...ofUi.parts] }] }],
    refused: [{ messages: [] }, { messages: [{ role: "user", parts: [] }] }, { messages: [{ role: "user", parts: [{ type: "reasoning", text: "x" }] }] }, { id: "", messages: [ofUi] }, { messages: [{ role: "user", parts: [{ ...ofUi.parts[0], state: 1 }] }] }],
  },
  "/api/query/stream": { accepted: [{ query: "Why?", filter: { kinds: ["markdown"] } }, { query: "Why?", filter: null }], refused: [{ query: "Why?", filter: { colour: "red" } }, { query: "Why?", later: 1 }] },
  "/ag-ui": {
    accepted: [agUi, { ...agUi, forwardedProps: [null] }],
    refused: [{ ...agUi, messages: [{ role: "reasoning", content: null }] }, { ...agUi, runId: "" }],
  },
  "/mcp": {
    accepted: [{ jsonrpc: "2.0", id: "a", method: "tools/call", params: ask }, { jsonrpc: "2.0", method: "notifications/initialized" }],
    refused: ["AAA", [], { jsonrpc: "2.0", id: {}, method: "ping" }, { jsonrpc: "2.0", id: 1, method: "tools/call", params: [null] }],
  },
  "/eve/v1/session": { accepted: [{ message: "Why?" }, { message: [{ type: "text", text: "Why?" }] }], refused: [{}, { message: "" }, { message: [{ type: "image", text: "x" }] }, { message: "Why?", outputSchema: {} }] },
  "/runs/wait": {
    accepted: ["Why?", { query: "Why?" }, { prompt: "", messages: [human] }, { messages: "Why?" }, { messages: [["human", "Why?"]] }, { messages: [{ type: "human", content: ["Why?"] }] }].map((input) => ({ input })),
    refused: [{}, ...[null, 0, "", {}, { question: " " }, { messages: [] }, { messages: [{ type: "ai", content: "x" }] }, { messages: [{ type: "human", content: " " }] }].map((input) => ({ input }))],
  },
  "/threads/{thread_id}/runs/wait": { accepted: [{ input: "Why?" }], refused: [{ input: null }, { command: { resume: null } }, { input: "" }] },
  "/threads/{thread_id}/state": {
    accepted: [{}, { values: null }, { values: { messages: [{ type: "ai", content: "x" }, { type: "remove", id: "__remove_all__" }] } }],
    refused: [{ values: { topic: 1 } }, { values: [] }, { values: { messages: 1 } }, { values: { messages: [{ type: "remove" }] } }, { values: { messages: ["ai", [{ text: "x" }]] } }, { checkpoint: "x" }],
  },
  "/threads/{thread_id}/history": { accepted: [{}, { limit: 1.0e3, before: "x" }], refused: [{ limit: -1 }, { limit: 0.5 }] },
  "/threads/search": { accepted: [{ limit: 2.5e20, offset: 4.8e21 }], refused: [{ offset: 0.5 }, { sort_by: "colour" }] },
};

test("a route refuses a body if and only if its schema does", async () => {
  const { id: session } = await call("POST", "/v1/sessions", { body: "{}" });
  const { thread_id: thread } = await call("POST", "/threads", { body: "{}" });
  const wrong = [];
  for (const [path, { accepted, refused }] of Object.entries(BODIES)) {
    const at = path.replace("{session_id}", session).replace("{thread_id}", thread);
    const validate = schemaAt("requests", ["paths", path, "post", "requestBody", "content", JSON_TYPE, "schema"]);
    for (const [isAccepted, bodies] of [[true, accepted], [false, refused]]) {
      for (const value of bodies) {
        const body = JSON.stringify(value);
        const reply = await fetch(server.url + at, { method: "POST", body, headers: { "content-type": JSON_TYPE } });
        await reply.body?.cancel();
        if (reply.ok !== isAccepted) wrong.push(`${path} answers ${reply.status} to ${body}`);
        if (validate(value) !== isAccepted) wrong.push(`${path}: the schema ${isAccepted ? "refuses" : "allows"} ${body}`);
      }
    }
  }
  assert.deepEqual(wrong, []);
});

// The same for parameters: `[method, path, where, name, accepted, refused]`.
const PARAMETERS = [
  ["get", "/v1/documents", "query", "kind", ["markdown"], ["", "word"]],
  ["get", "/v1/documents", "query", "language", ["de"], ["", "xx"]],
  ["get", "/v1/documents", "query", "since", ["2026", "2026-01-31"], ["", "2026-13", "26", "2026-06-31", "2026-02-30"]],
  ["get", "/threads/{thread_id}/runs", "query", "offset", ["0", "9223372036854775807"], ["-1", "9223372036854775808"]],
  ["get", "/eve/v1/session/{session_id}/stream", "query", "startIndex", ["0"], ["-1", "x", "9223372036854775808"]],
  ["get", "/threads/{thread_id}/runs", "query", "status", ["success"], ["", "happy"]],
  ["get", "/threads/{thread_id}/runs/{run_id}", "path", "thread_id", [], ["\u00d7", "."]],
  ["get", "/threads/{thread_id}/runs/{run_id}/stream", "header", "last-event-id", ["-1", "0-", "3vu"], ["null", "\u00c2", "3uv", "03"]],
];

test("a route refuses a parameter if and only if its schema does", async () => {
  const { thread_id: thread } = await call("POST", "/threads", { body: "{}" });
  const started = await fetch(`${server.url}/threads/${thread}/runs`, { method: "POST", body: '{"input":"What is the commit rule?"}', headers: { "content-type": JSON_TYPE } });
  const { run_id: run } = await started.json();
  const eve = await fetch(`${server.url}/eve/v1/session`, { method: "POST", body: '{"message":"Why?"}', headers: { "content-type": JSON_TYPE } });
  const { sessionId } = await eve.json();
  const wrong = [];
  for (const [method, path, where, name, accepted, refused] of PARAMETERS) {
    const parameter = document.paths[path][method].parameters.find((one) => one.in === where && one.name === name);
    assert.ok(parameter, `${path} has no ${name}`);
    const validate = ajv.compile({ ...parameter.schema, $id: undefined });
    const { type } = parameter.schema;
    for (const [isAccepted, values] of [[true, accepted], [false, refused]]) {
      for (const value of values) {
        const placed = where === "path" ? path.replace(`{${name}}`, encodeURIComponent(value)) : path;
        const at = placed.replace("{thread_id}", thread).replace("{run_id}", run).replace("{session_id}", sessionId) + (where === "query" ? `?${name}=${encodeURIComponent(value)}` : "");
        const reply = await fetch(server.url + at, { headers: where === "header" ? { [name]: value } : {} });
        await reply.body?.cancel();
        if (reply.ok !== isAccepted) wrong.push(`${at} answers ${reply.status} to ${name} ${value}`);
        if (validate(type === "integer" && /\d$/.test(value) ? BigInt(value) <= 2n ** 63n - 1n ? Number(value) : Number.MAX_VALUE : value) !== isAccepted) wrong.push(`${path}: the schema ${isAccepted ? "refuses" : "allows"} ${name} ${value}`);
      }
    }
  }
  assert.deepEqual(wrong, []);
});
