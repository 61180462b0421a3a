// @ts-check
// Asking, resuming, stopping and answering, against a server that is a function.
import assert from "node:assert/strict";
import { test } from "node:test";

import { RequestError, answer, ask, framed, ndjson, resume, sse, stop } from "../src/index.js";
import { collect, joined, respond, server, skipDelays } from "./support.js";

const EVENT = '{"event":"search","tool":"bm25"}\n';
const END = '\x1e{"citations":[],"tools_used":[]}';
const RESET = new TypeError("connection reset");
const DONE = { type: "end", status: "completed", metadata: { citations: [], tools_used: [] } };
const search = { type: "event", event: { event: "search", tool: "bm25" } };

/** @param {number} status @param {string} code @param {Record<string, string>} [headers] */
const refuse = (status, code, headers) =>
  new Response(JSON.stringify({ error: { code, message: code, recoverable: true, request_id: "r-1" } }), { status, headers });

test("a question is a string or an object, and goes to /v1/turns or to a path of your own", async () => {
  for (const [question, body] of /** @type {const} */ ([
    ["Why?", { prompt: "Why?" }],
    [{ prompt: "Why?", session_id: "s-1" }, { prompt: "Why?", session_id: "s-1" }],
  ])) {
    const { fetch, requests } = server(respond(`${EVENT}\x1dA${END}`));
    const turn = await ask("https://host/prefix", question, { fetch });
    assert.equal(turn.id, "t-1");
    assert.deepEqual((await collect(turn)).items, [search, { type: "text", text: "A" }, DONE]);
    assert.deepEqual(requests, [{ url: "https://host/prefix/v1/turns", method: "POST", accept: "text/plain", body }]);
  }
  const { fetch, requests } = server(respond(`\x1d${END}`));
  await ask("", "Why?", { fetch, wire: sse, path: "/chat" });
  assert.deepEqual([requests[0].url, requests[0].accept], ["/chat", "text/event-stream"]);
});

test("a slash at the end of the server's URL is left out", async () => {
  const { fetch, requests } = server(respond(`\x1d${END}`), respond(`\x1d${END}`), Response.json({ stopped: true }));
  await ask("https://host/prefix/", "Why?", { fetch });
  await resume("https://host/", "t-1", { fetch });
  await stop("/", "t-1", { fetch });
  assert.deepEqual(requests.map(({ url }) => url), ["https://host/prefix/v1/turns", "https://host/v1/turns/t-1/stream?from=0", "/v1/turns/t-1/stop"]);
});

test("the name of a wire in place of the wire is refused before anything is asked", async () => {
  const { fetch, requests } = server();
  const options = { fetch, wire: /** @type {any} */ ("ndjson") };
  await assert.rejects(ask("", "Why?", options), { name: "TypeError", message: "wire.cursor is not a function" });
  await assert.rejects(resume("", "t-1", options), { name: "TypeError" });
  assert.deepEqual(requests, []);
});

test("each wire resumes its own way", async (t) => {
  skipDelays(t);
  const lines = ['{"index":0,"event":"search","tool":"bm25"}\n', '{"index":1,"text":"A"}\n{"index":2,"end":"completed"}\n'];
  for (const [wire, [first, rest], urls] of /** @type {[any, string[], string[]][]} */ ([
    [framed, [`${EVENT}\x1d`, `${EVENT}\x1dA${END}`], ["stream?from=0"]],
    [ndjson, lines, ["stream?from=1"]],
  ])) {
    const { fetch, requests } = server(respond(first, RESET), respond(rest));
    const { items } = await collect(await ask("", "Why?", { fetch, wire }));
    assert.deepEqual(items.map(({ index: _, ...item }) => item), [search, { type: "text", text: "A" }, DONE]);
    assert.deepEqual(requests.slice(1).map(({ url }) => url), urls.map((url) => `/v1/turns/t-1/${url}`));
    assert.equal(requests[1].accept, wire.accept);
  }
});

test("a resumed stream that does not begin at the requested frame is refused", async (t) => {
  skipDelays(t);
  const { fetch } = server(respond('{"index":0,"text":"A"}\n', RESET), respond('{"index":2,"text":"C"}\n'));
  const { items, error } = await collect(await ask("", "Why?", { fetch, wire: ndjson }));
  assert.deepEqual([items.length, error.code], [1, "gap"]);
});

test("a framed turn whose beginning was dropped is replaced, not mixed", async (t) => {
  skipDelays(t);
  for (const other of [`${EVENT}\x1dOther text`, `\x1dOld tex`, `${EVENT}${EVENT}\x1dOld text`, "\x1dO"]) {
    const { fetch } = server(respond(`${EVENT}\x1dOld text`, RESET), () => respond(`${other}${END}`));
    const { items } = await collect(await ask("", "Why?", { fetch }));
    const at = items.findIndex(({ type }) => type === "snapshot");
    assert.deepEqual(items.slice(0, at), [search, { type: "text", text: "Old text" }]);
    assert.deepEqual(items[at], { type: "snapshot", events: [], text: "" });
    const { items: whole } = await collect(await ask("", "Why?", { fetch: server(respond(`${other}${END}`)).fetch }));
    assert.deepEqual(items.slice(at + 1), whole);
  }
});

test("delays grow, have jitter, and end with the attempts", async (t) => {
  const delays = skipDelays(t);
  const { fetch, requests } = server(respond(EVENT, RESET), RESET);
  const { items } = await collect(await ask("", "Why?", { fetch, attempts: 9 }));
  assert.equal(requests.length, 9);
  assert.deepEqual(items.slice(0, -1), [search]);
  const { type, phase, error } = items.at(-1);
  assert.deepEqual([type, phase, error.code, error.cause], ["truncated", "events", "unreachable", RESET]);
  const ceilings = [250, 500, 1000, 2000, 4000, 8000, 15_000, 15_000];
  assert.equal(delays.length, ceilings.length);
  delays.forEach((delay, at) => assert.ok(delay >= ceilings[at] / 2 && delay <= ceilings[at], `${delays}`));
  assert.notDeepEqual(delays, ceilings);
});

test("progress begins the attempts from scratch; a repeated beginning is not progress", async (t) => {
  skipDelays(t);
  const text = "x".repeat(50);
  let reached = 0;
  const grows = () => respond(`\x1d${text.slice(0, (reached += 1))}`, RESET);
  const stuck = server(respond(`\x1d${text}`, RESET), () => respond(`\x1d${text}`, RESET));
  const growing = server(...Array.from({ length: 50 }, () => grows), respond(`\x1d${text}${END}`));
  const { items } = await collect(await ask("", "Why?", { fetch: growing.fetch, attempts: 2 }));
  assert.deepEqual(joined(items), [{ type: "text", text }, DONE]);
  const { items: last } = await collect(await ask("", "Why?", { fetch: stuck.fetch, attempts: 4 }));
  assert.deepEqual([last.at(-1).type, last.at(-1).phase, stuck.requests.length], ["truncated", "text", 4]);
});

test("Retry-After is respected, in seconds and as a date", async (t) => {
  for (const value of ["7", new Date(Date.now() + 7000).toUTCString()]) {
    const delays = skipDelays(t);
    const { fetch } = server(respond(EVENT, RESET), refuse(503, "unavailable", { "retry-after": value }), respond(`${EVENT}\x1d${END}`));
    const { items } = await collect(await ask("", "Why?", { fetch }));
    assert.equal(items.at(-1).status, "completed");
    assert.ok(delays[1] > 5000 && delays[1] <= 7500, `${delays}`);
  }
});

test("a question is repeated only if it was refused for now", async (t) => {
  skipDelays(t);
  for (const status of [429, 503]) {
    const { fetch, requests } = server(refuse(status, "busy", { "retry-after": "1" }), respond(`\x1d${END}`));
    const { items } = await collect(await ask("", "Why?", { fetch }));
    assert.deepEqual([items, requests.length], [[DONE], 2]);
  }
  for (const reply of [RESET, refuse(503, "queue"), refuse(500, "chat_failed"), refuse(502, "upstream", { "retry-after": "1" }), refuse(422, "invalid_request")]) {
    const { fetch, requests } = server(reply);
    await assert.rejects(ask("", "Why?", { fetch }), RequestError);
    assert.equal(requests.length, 1);
  }
  const { fetch, requests } = server(() => refuse(503, "busy", { "retry-after": "1" }));
  await assert.rejects(ask("", "Why?", { fetch, attempts: 3 }), { code: "busy", status: 503, retryAfter: 1000, requestId: "r-1" });
  assert.equal(requests.length, 3);
});

test("a turn that the server no longer has ends as truncated, with the refusal", async (t) => {
  skipDelays(t);
  for (const [status, code] of /** @type {const} */ ([[404, "not_found"], [409, "lost"], [410, "gone"], [416, "ahead"]])) {
    const { fetch, requests } = server(respond(EVENT, RESET), refuse(status, code));
    const { items } = await collect(await ask("", "Why?", { fetch }));
    assert.deepEqual([items.at(-1).type, items.at(-1).error.code, requests.length], ["truncated", code, 2]);
  }
  const { fetch } = server(refuse(404, "not_found"));
  await assert.rejects(resume("", "t-1", { fetch }), { status: 404 });
});

test("a turn without an ID is not read again", async (t) => {
  skipDelays(t);
  const { fetch, requests } = server(respond(EVENT, RESET, {}));
  const turn = await ask("", "Why?", { fetch });
  const { items } = await collect(turn);
  assert.deepEqual([turn.id, items.at(-1).type, items.at(-1).error, requests.length], [null, "truncated", RESET, 1]);
});

test("`unavailable` is the end of a connection, and of the turn only after the last attempt", async (t) => {
  skipDelays(t);
  const cut = '{"index":1,"end":"failed","error":{"code":"unavailable","message":"m","recoverable":true}}\n';
  const { fetch, requests } = server(respond(`{"index":0,"text":"A"}\n${cut}`), respond('{"index":1,"text":"B"}\n{"index":2,"end":"completed"}\n'));
  const { items } = await collect(await ask("", "Why?", { fetch, wire: ndjson }));
  assert.deepEqual(items.map(({ text, status }) => text ?? status), ["A", "B", "completed"]);
  assert.match(requests[1].url, /from=1$/);
  const { items: last } = await collect(await ask("", "Why?", { fetch: server(() => respond(cut.replace("1", "0"))).fetch, wire: ndjson }));
  assert.deepEqual(last.map(({ error }) => error.code), ["unavailable"]);
});

test("nothing is left to read: no item and no error", async () => {
  const { fetch } = server(new Response(null, { status: 204 }));
  assert.deepEqual(await collect(await resume("", "t-1", { fetch, wire: ndjson, from: 9 })), { items: [] });
});

test("a silent connection counts as lost", async () => {
  const { fetch, requests } = server(respond(EVENT, "open"), respond(`${EVENT}\x1d${END}`));
  const { items } = await collect(await ask("", "Why?", { fetch, idleTimeout: 5 }));
  assert.deepEqual([items, requests.length], [[search, DONE], 2]);
});

test("a signal ends the request, the delay and the stream", async (t) => {
  const reason = new Error("enough");
  for (const replies of [[respond(EVENT, RESET), RESET], [respond(EVENT, "open")]]) {
    const { fetch } = server(...replies);
    const controller = new AbortController();
    const aborted = /** @type {any} */ (async (/** @type {any} */ url, /** @type {any} */ init) => {
      const response = await fetch(url, init);
      const body = response.body.pipeThrough(new TransformStream(), { signal: init.signal });
      return new Response(body, { headers: response.headers });
    });
    const turn = await ask("", "Why?", { fetch: aborted, signal: controller.signal });
    const items = turn[Symbol.asyncIterator]();
    assert.deepEqual((await items.next()).value, search);
    const pending = items.next();
    setTimeout(() => controller.abort(reason), 10);
    await assert.rejects(pending, (error) => error === reason);
  }
  const controller = new AbortController();
  controller.abort(reason);
  await assert.rejects(ask("", "Why?", { fetch: server(RESET).fetch, signal: controller.signal }), (error) => error === reason);
});

test("leaving the loop cancels the response and asks for nothing more", async () => {
  const { fetch, requests } = server(respond(`${EVENT}${EVENT}`, "open"));
  for await (const item of await ask("", "Why?", { fetch })) {
    assert.deepEqual(item, search);
    break;
  }
  assert.equal(requests.length, 1);
});

test("a stop and an answer are repeated until they arrive", async (t) => {
  skipDelays(t);
  const ok = (/** @type {object} */ body) => new Response(JSON.stringify(body));
  const stopping = server(RESET, refuse(503, "unavailable"), ok({ stopped: true }));
  assert.equal(await stop("https://host", "t/1", { fetch: stopping.fetch }), true);
  assert.deepEqual(stopping.requests.map(({ url, method }) => [url, method]), Array(3).fill(["https://host/v1/turns/t%2F1/stop", "POST"]));
  const answering = server(RESET, ok({ accepted: false }));
  assert.equal(await answer("", "t-1", "delete", "Approve", { fetch: answering.fetch }), false);
  assert.deepEqual(answering.requests[1], { url: "/v1/turns/t-1/answer", method: "POST", accept: null, body: { request_id: "delete", response: "Approve" } });
  await assert.rejects(answer("", "t-1", "delete", "No", { fetch: server(refuse(409, "ask_answered")).fetch }), { code: "ask_answered" });
});

test("headers are made for each request", async (t) => {
  skipDelays(t);
  const { fetch } = server(respond(EVENT, RESET), respond(`${EVENT}\x1d${END}`));
  /** @type {(string | null)[]} */
  const sent = [];
  let token = 0;
  const spy = /** @type {any} */ ((/** @type {any} */ url, /** @type {any} */ init) => (sent.push(init.headers.get("authorization")), fetch(url, init)));
  await collect(await ask("", "Why?", { fetch: spy, headers: async () => ({ authorization: `Bearer ${(token += 1)}` }) }));
  assert.deepEqual(sent, ["Bearer 1", "Bearer 2"]);
});
