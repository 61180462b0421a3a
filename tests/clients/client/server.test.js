// `@ragwire/client` against the reference server, through connections that break.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { RequestError, answer, ask, decodeFramed, framed, ndjson, resume, sse, stop } from "../../../clients/js/src/index.js";
import { ask as question, startProxy, startServer } from "../harness.js";

const WIRES = { framed, sse, ndjson };
const words = (count) => Array.from({ length: count }, (_, at) => `word${at + 1} `).join("");

let server;
before(async () => (server = await startServer()));
after(async () => assert.equal(await server.stop(), 0));

/** Reads a turn: its events, its text and its last item. A snapshot replaces what came before. */
async function read(turn, each = () => {}) {
  let seen = { events: [], text: "", last: null, snapshots: 0, indexes: [] };
  for await (const item of turn) {
    if (item.type === "snapshot") seen = { ...seen, events: item.events, text: item.text, snapshots: seen.snapshots + 1 };
    if (item.type === "event") seen.events.push(item.event);
    if (item.type === "text") seen.text += item.text;
    if (item.index !== undefined) seen.indexes.push(item.index);
    seen.last = item;
    each(item, seen);
  }
  return seen;
}

for (const [name, wire] of Object.entries(WIRES)) {
  test(`${name}: an answer whose connection breaks again and again`, { timeout: 60_000 }, async () => {
    const proxy = await startProxy(server.url);
    const turn = await ask(proxy.url, "fault:slow", { wire });
    const cutting = setInterval(proxy.cut, 600);
    const [cut, whole] = await Promise.all([read(turn), resume(server.url, turn.id, { wire }).then((turn) => read(turn))]);
    clearInterval(cutting);
    assert.deepEqual(cut, whole);
    assert.deepEqual([cut.text, cut.events.length, cut.last.status, cut.snapshots], [words(40), 11, "completed", 0]);
    assert.deepEqual(cut.last.metadata.tools_used, ["fault"]);
    assert.deepEqual(cut.indexes, name === "framed" ? [] : cut.indexes.map((_, at) => at));
    assert.ok(proxy.answers.length > 3, `${proxy.answers.length} connections`);
    // Nothing is read twice where the wire has an index.
    const starts = proxy.answers.slice(1).map(({ head }) => Number(/from=(\d+)/.exec(head)[1]));
    assert.ok(name === "framed" ? starts.every((from) => from === 0) : starts.at(-1) > 0, `${starts}`);
    await proxy.stop();
  });

  test(`${name}: a connection that is cut after every few bytes, as its end or as an error`, { timeout: 120_000 }, async () => {
    const whole = await read(await ask(server.url, "fault:unicode", { wire }));
    assert.equal(whole.last.status, "completed");
    // How many texts were merged into one frame differs between turns, and so does the index of the end.
    const plain = ({ events, text, last }) => ({ text, last: { ...last, timing: undefined, index: undefined }, events: events.map(({ timestamp: _, ...event }) => event) });
    for (const http10 of [true, false]) {
      for (const cutAfter of [400, 500, 600, 700, 800, 900]) {
        // The first connection only: on the framed wire the next one begins at the beginning.
        const proxy = await startProxy(server.url, { cutAfter, http10, hurts: (head) => head.startsWith("POST") });
        const turn = await ask(proxy.url, "fault:unicode", { wire }).catch((error) => error);
        // Cut in the head of the response: the question may have arrived, so it is not repeated.
        if (turn instanceof RequestError) assert.equal(turn.code, "unreachable");
        else assert.deepEqual(plain(await read(turn)), plain(whole), `cut after ${cutAfter}`);
        await proxy.stop();
      }
    }
  });

  test(`${name}: bytes that arrive one at a time`, { timeout: 60_000 }, async () => {
    const proxy = await startProxy(server.url, { byteAtATime: true });
    const { text, last } = await read(await ask(proxy.url, "fault:no-events", { wire }));
    assert.deepEqual([text, last.status], ["Yes, it is.", "completed"]);
    await proxy.stop();
  });

  test(`${name}: failures and refusals are typed`, { timeout: 60_000 }, async () => {
    const failed = await read(await ask(server.url, "fault:text", { wire }));
    assert.deepEqual([failed.last.status, failed.last.error.code], ["failed", "chat_failed"]);
    assert.ok(failed.text.startsWith("The first half of an answer that breaks "));
    await assert.rejects(ask(server.url, "fault:reject", { wire }), (error) => {
      assert.ok(error instanceof RequestError);
      assert.deepEqual([error.status, error.code], [500, "chat_failed"]);
      assert.match(error.requestId, /^[0-9a-f]{32}$/);
      return true;
    });
    await assert.rejects(resume(server.url, "0".repeat(32), { wire }), { status: 404 });
    await assert.rejects(ask(server.url, { prompt: "" }, { wire }), { status: 422 });
    await assert.rejects(ask("http://127.0.0.1:1", "Why?", { wire }), { code: "unreachable", status: 0 });
  });

  test(`${name}: a stop ends the turn for its reader`, { timeout: 60_000 }, async () => {
    const turn = await ask(server.url, "fault:silent", { wire });
    let stopped;
    const { last } = await read(turn, ({ type }) => type === "event" && (stopped = turn.stop()));
    assert.deepEqual([last.status, await stopped], ["stopped", true]);
    assert.equal(await stop(server.url, turn.id), false);
    await assert.rejects(stop(server.url, "0".repeat(32)), { status: 404 });
  });

  test(`${name}: a question to a human is answered, also while the connection is broken`, { timeout: 60_000 }, async () => {
    const proxy = await startProxy(server.url);
    const turn = await ask(proxy.url, "fault:ask", { wire });
    const answers = [];
    const { text, events } = await read(turn, ({ event }) => {
      if (event?.event !== "input_requested") return;
      assert.deepEqual(event.options, ["Approve", "Reject"]);
      proxy.cut();
      answers.push(turn.answer(event.request_id, "Approve"));
    });
    assert.equal(text, "They are deleted.");
    assert.deepEqual(events.map(({ event }) => event), ["search", "input_requested", "input_resolved"]);
    assert.deepEqual(await Promise.all(answers), [true]);
    assert.equal(await answer(server.url, turn.id, "delete", "Approve"), false);
    await assert.rejects(answer(server.url, turn.id, "delete", "Reject"), { status: 409, code: "ask_answered" });
    await assert.rejects(turn.answer("unknown", "Approve"), { status: 404, code: "ask_unknown" });
    await proxy.stop();
  });

  test(`${name}: a page that was loaded again reads the turn by its ID`, { timeout: 60_000 }, async () => {
    const first = await ask(server.url, "fault:slow", { wire });
    for await (const { type } of first) if (type === "text") break;
    const { text, last } = await read(await resume(server.url, first.id, { wire }));
    assert.deepEqual([text, last.status], [words(40), "completed"]);
    if (name === "framed") return assert.rejects(resume(server.url, first.id, { wire, from: 2 }), RangeError);
    const rest = await read(await resume(server.url, first.id, { wire, from: last.index }));
    assert.deepEqual([rest.last, rest.indexes], [last, [last.index]]);
    assert.deepEqual(await read(await resume(server.url, first.id, { wire, from: last.index + 1 })), await read([]));
    await assert.rejects(resume(server.url, first.id, { wire, from: last.index + 2 }), { status: 416 });
  });

  test(`${name}: a signal ends the reading and not the turn`, { timeout: 60_000 }, async () => {
    const controller = new AbortController();
    const turn = await ask(server.url, "fault:slow", { wire, signal: controller.signal });
    await assert.rejects(
      read(turn, () => controller.abort()),
      { name: "AbortError" },
    );
    assert.equal(await stop(server.url, turn.id), true);
  });
}

test("an answer that outgrew its journal is replaced and continues, on each wire", { timeout: 120_000 }, async (t) => {
  // A quarter of it is the answer so far, which is sent in place of what was dropped.
  const small = await startServer({ args: ["--journal-turn-size", "16KiB"] });
  t.after(() => small.child.kill());
  for (const [name, wire] of Object.entries(WIRES)) {
    let isDown = false;
    // The beginning is dropped while the server cannot be reached.
    let failures = 4;
    const unsteady = async (...request) => {
      if (isDown && failures-- > 0) throw new TypeError("fetch failed");
      return fetch(...request);
    };
    const proxy = await startProxy(small.url);
    const turn = await ask(proxy.url, "fault:paced 600 5 w", { wire, fetch: unsteady });
    t.after(proxy.stop);
    const seen = await read(turn, (_, { text }) => {
      if (text.length < 600 || isDown) return;
      isDown = true;
      proxy.cut();
    });
    assert.deepEqual([seen.snapshots, seen.last.status], [1, "completed"], name);
    assert.equal(seen.text, Array.from({ length: 600 }, (_, at) => `w-${at + 1} `).join(""), name);
  }
  assert.equal(await small.stop(), 0);
});

test("a server that is full says when to come back, and is asked again then", { timeout: 60_000 }, async (t) => {
  const full = await startServer({ args: ["--max-turns", "1", "--max-queued", "0"] });
  t.after(() => full.child.kill());
  const first = await ask(full.url, "fault:silent");
  await assert.rejects(ask(full.url, "fault:empty", { attempts: 1 }), (error) => {
    assert.deepEqual([error.code, error.status], ["busy", 503]);
    assert.ok(error.retryAfter >= 1000);
    return true;
  });
  const second = ask(full.url, "fault:empty");
  await sleep(100);
  assert.equal(await first.stop(), true);
  assert.equal((await read(await second)).last.status, "completed");
  assert.equal(await full.stop(), 0);
});

test("ADR 0007's own route, and a response that was fetched without us", { timeout: 60_000 }, async () => {
  const proxy = await startProxy(server.url);
  const turn = await ask(proxy.url, { prompt: "fault:slow" }, { path: "/v1/rag/sessions/js/messages/stream" });
  setTimeout(proxy.cut, 1500);
  assert.equal((await read(turn)).text, words(40));
  await proxy.stop();
  assert.equal((await read(decodeFramed(await fetch(server.stream, question("fault:no-events"))))).text, "Yes, it is.");
  const { stack: _, ...refused } = await read(decodeFramed(await fetch(server.stream, question("fault:reject")))).catch((error) => error);
  assert.deepEqual([refused.status, refused.code], [500, "chat_failed"]);
});
