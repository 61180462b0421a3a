// Published clients against the reference server: each client in each case, directly and through a
// proxy that damages the connection.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import net from "node:net";
import { after, before, describe, test } from "node:test";
import { startProxy, startServer } from "../clients/harness.js";
import { BYTEWISE, CASES, SHORT, SHORT_FAILURE, SHUTDOWN } from "./cases.js";
import { CLIENTS } from "./clients.js";
import { stopProcesses } from "./drivers/process.js";
import { cell, reasons, table } from "./report.js";
import { bodyOf, CLIENT_TIMEOUT_MS, cutEverywhere, expected, outcomes, truth } from "./suite.js";

const README = new URL("README.md", import.meta.url);
const ONE_BYTE = "one byte per write";
const CUT = "cut";
const CUT_BY_HTTP10 = "cut behind HTTP/1.0";
const COLUMNS = [...CASES.map(({ name }) => name), SHUTDOWN.name, ONE_BYTE, CUT, CUT_BY_HTTP10];

/** A turn whose connection was cut may go on; the questions after it, all from here, must not wait for it. */
const ADMITS_ALL = ["--max-turns", "1000", "--client-share", "100"];

let server;
before(async () => (server = await startServer({ args: ADMITS_ALL })));
after(async () => {
  stopProcesses();
  assert.equal(await server.stop(), 0);
});

const rows = new Map(CLIENTS.map(({ name }) => [name, new Map()]));
let cutTurns = 0;

for (const client of CLIENTS) {
  const cells = rows.get(client.name);
  const ask = (url, prompt) => client.ask(url, prompt, server.url);

  describe(client.name, { timeout: CLIENT_TIMEOUT_MS }, () => {
    for (const kase of CASES) {
      test(kase.name, async () => {
        const real = await truth(server.url, kase, client.wire);
        const seen = await ask(server.url, kase.prompt);
        cells.set(kase.name, cell(seen, real));
        assert.deepEqual(seen, expected(client, real));
      });
    }

    test(ONE_BYTE, async () => {
      const proxy = await startProxy(server.url, { byteAtATime: true });
      try {
        const seen = await ask(proxy.url, BYTEWISE.prompt);
        cells.set(ONE_BYTE, cell(seen, BYTEWISE));
        assert.deepEqual(seen, expected(client, BYTEWISE, ONE_BYTE));
        // A raw CR occurs only where the answer is not escaped; a line of JSON that ended with one
        // would break AG-UI's client. In the frames of a socket it may be a length.
        if (!client.socket) assert.equal(bodyOf(proxy.answers.at(-1).came).includes("\r"), client.wire === "framed");
      } finally {
        await proxy.stop();
      }
    });

    for (const [column, http10] of [
      [CUT, false],
      [CUT_BY_HTTP10, true],
    ]) {
      // A socket needs HTTP/1.1, and its own frames mark its end.
      if (client.socket && http10) {
        cells.set(column, "–");
        continue;
      }
      for (const kase of client.ours && !client.spawns ? [SHORT, SHORT_FAILURE] : [SHORT]) {
        test(`${column}: ${kase.name}`, async () => {
          const cuts = await cutEverywhere({ ...client, ask }, server, kase.prompt, { http10 });
          cutTurns += cuts.length;
          if (kase === SHORT) cells.set(column, outcomes(cuts));
          const whole = expected(client, kase);
          for (const { at, part, seen } of cuts) {
            const position = `cut after ${at} bytes, part: ${part}`;
            // The client shows no byte of the protocol as text, and nothing that was not sent.
            assert.ok(whole.text.startsWith(seen.text), position);
            assert.deepEqual(seen.events, whole.events.slice(0, seen.events.length), position);
            if (part === "headers") assert.equal(seen.outcome, "truncated", position);
            if (part === "body" && !client.resumes) assert.notEqual(seen.outcome, whole.outcome, position);
            // With the rest that it fetched the turn is complete, with nothing repeated or missing.
            if (part === "body" && seen.outcome === whole.outcome) assert.deepEqual(seen, whole, position);
            if (part === "whole") assert.equal(seen.outcome, whole.outcome, position);
            if (client.ours && part !== "whole") assert.equal(seen.outcome, "truncated", position);
          }
          // Without cuts in all of these parts, the checks above would prove nothing.
          for (const part of ["headers", "body", "whole"]) assert.ok(cuts.some((cut) => cut.part === part), part);
          assert.equal(outcomes(cuts), client.cut?.[column] ?? "truncated");
        });
      }
    }
  });
}

test("every client gets an end when the server shuts down", { timeout: CLIENT_TIMEOUT_MS }, async (t) => {
  const going = await startServer();
  t.after(() => going.child.kill("SIGKILL"));
  const asked = CLIENTS.map((client) => client.ask(going.url, SHUTDOWN.prompt, going.url));
  const active = async () => (await (await fetch(`${going.url}/healthz`)).json()).active_turns;
  while ((await active()) < CLIENTS.length) await new Promise((resolve) => setTimeout(resolve, 10));
  // A turn counts as active before its response has begun, because its question is written to disk
  // first.
  await new Promise((resolve) => setTimeout(resolve, 1000));
  assert.equal(await going.stop(), 0);
  for (const [index, seen] of (await Promise.all(asked)).entries()) {
    const client = CLIENTS[index];
    rows.get(client.name).set(SHUTDOWN.name, cell(seen, SHUTDOWN));
    assert.deepEqual(seen, expected(client, SHUTDOWN), client.name);
  }
});

/** The raw bytes of a response. */
async function rawAnswer(url, path, accept) {
  const { hostname, port } = new URL(url);
  const body = JSON.stringify({ prompt: BYTEWISE.prompt });
  const head = [
    `POST ${path} HTTP/1.1`,
    `host: ${hostname}:${port}`,
    "connection: close",
    `accept: ${accept}`,
    "content-type: application/json",
    `content-length: ${body.length}`,
  ];
  const socket = net.connect(Number(port), hostname);
  socket.write(`${head.join("\r\n")}\r\n\r\n${body}`);
  return Buffer.concat(await socket.toArray());
}

describe("the proxy", () => {
  for (const options of [{}, { byteAtATime: true }]) {
    test(`passes every byte on unchanged, CR and LF too: ${JSON.stringify(options)}`, async () => {
      for (const [accept, inText] of [["text/plain", "f\r\ng\rh"], ["text/event-stream", "f\\r\\ng\\rh"]]) {
        const proxy = await startProxy(server.url, options);
        const got = await rawAnswer(proxy.url, "/v1/turns", accept);
        await proxy.stop();
        assert.deepEqual(got, Buffer.concat(proxy.answers[0].came));
        assert.ok(bodyOf([got]).includes(inText));
      }
    });
  }
});

test("README.md has the tables of this run", () => {
  const seen = table(COLUMNS, rows);
  console.log(`What each client showed of ${CASES.length} turns and ${cutTurns} cut turns:\n\n${seen}\n`);
  const text = readFileSync(README, "utf8");
  const [begin, end] = ["<!-- seen -->\n", "<!-- end -->\n"].map((mark) => text.indexOf(mark));
  const why = `Clients that differ from their wire, and why:\n\n${reasons(CLIENTS)}`;
  const wanted = `${text.slice(0, begin)}<!-- seen -->\n\n${seen}\n\n${why}\n\n${text.slice(end)}`;
  if (process.env.UPDATE === "1") writeFileSync(README, wanted);
  else assert.equal(text, wanted, "run with UPDATE=1 to rewrite the tables");
});
