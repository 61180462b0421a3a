// The web page in a real Chromium.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { after, before, beforeEach, afterEach, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { ask, startProxy, startServer } from "./harness.js";
import { SseDecoder } from "../../clients/js/src/sse.js";
import { serve, vectors } from "./wires/vectors.js";

const SHOTS = fileURLToPath(new URL("./shots/", import.meta.url));
// Without these flags Chromium contacts its vendor's servers, which a closed network refuses one by
// one.
const QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
  "--disable-background-networking", "--disable-component-update"];

let server, browser, page, problems;
before(async () => {
  mkdirSync(SHOTS, { recursive: true });
  server = await startServer();
  browser = await chromium.launch({ executablePath: process.env.TEST_CHROMIUM ?? "/usr/bin/chromium", args: QUIET });
});
after(async () => {
  await browser?.close();
  await server?.stop();
});
beforeEach(async () => {
  page = await browser.newPage();
  problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(server.url);
});
afterEach(async () => {
  assert.deepEqual(problems, []);
  await page.close();
});

const state = (name) => page.waitForSelector(`#status[data-state=${name}]`, { timeout: 30_000 });

async function askOnPage(question) {
  await page.fill("#prompt", question);
  await page.click("#ask");
}

test("a question is answered with steps, text and citations that open", async () => {
  await askOnPage("When does the response begin?");
  await state("completed");
  assert.ok((await page.locator("#steps li").count()) >= 3);
  assert.match(await page.textContent("#answer"), /\[1\]/);
  await page.locator("#answer button.cite").first().click();
  const open = page.locator("#citations details[open]");
  const quote = await open.locator("blockquote").textContent();
  // The quote is in the passage, and the passage is from the library.
  await open.locator(".chunk").waitFor();
  const chunk = (await open.locator(".chunk").textContent()).replace(/\s+/g, " ");
  assert.ok(chunk.includes(quote.replace(/\s+/g, " ")), `${quote} is not in ${chunk}`);
  assert.match(await open.locator("summary").innerText(), /sample\//);
  await page.screenshot({ path: `${SHOTS}answered.png`, fullPage: true });
});

test("each step is shown while retrieval runs, and text while it is written", async () => {
  await askOnPage("fault:slow");
  await page.waitForFunction(() => document.querySelectorAll("#steps li").length >= 3);
  assert.equal(await page.textContent("#answer").then((text) => text.trim()), "", "the answer came before the steps were over");
  await state("running");
  await page.screenshot({ path: `${SHOTS}running.png`, fullPage: true });
  await page.waitForFunction(() => document.querySelector("#answer").innerText.includes("word3"));
  assert.doesNotMatch(await page.textContent("#answer"), /word40/, "the text came at once");
  await state("completed");
  assert.match(await page.textContent("#answer"), /word40/);
});

test("a failed turn shows the failure and keeps the text so far", async () => {
  await askOnPage("fault:text");
  await state("failed");
  assert.match(await page.textContent("#answer"), /The first half of an answer/);
  await page.screenshot({ path: `${SHOTS}failed.png`, fullPage: true });
  await askOnPage("fault:reject");
  await state("failed");
});

const words = (count) => Array.from({ length: count }, (_, at) => `word${at + 1} `).join("");
const waitForAnswer = (text) => page.waitForFunction((text) => document.querySelector("#answer").textContent.includes(text), text);

test("a broken connection is resumed, and nothing is lost or shown twice", async () => {
  const proxy = await startProxy(server.url);
  try {
    await page.goto(proxy.url);
    await askOnPage("fault:slow");
    await page.waitForFunction(() => document.querySelectorAll("#steps li").length >= 3);
    proxy.cut();
    await waitForAnswer("word3");
    proxy.cut();
    await state("completed");
    assert.equal(await page.textContent("#answer"), words(40));
    const steps = await page.locator("#steps li").allTextContents();
    assert.deepEqual(steps, ["Searching for “slow”", ...Array.from({ length: 10 }, (_, at) => `Step ${at + 1} of 10.`)]);
  } finally {
    await proxy.stop();
  }
});

test("a server that stays away is reported, and the text so far is kept", async () => {
  const proxy = await startProxy(server.url);
  await page.goto(proxy.url);
  await askOnPage("fault:slow");
  await waitForAnswer("word3");
  await proxy.stop();
  await page.waitForFunction(() => document.querySelector("#status").textContent.startsWith("The connection was lost."));
  await page.screenshot({ path: `${SHOTS}reconnecting.png`, fullPage: true });
  await state("truncated");
  assert.match(await page.textContent("#answer"), /^word1 word2 word3 /, "what there was is kept");
  await page.screenshot({ path: `${SHOTS}truncated.png`, fullPage: true });
});

test("a reload in mid-answer shows it again and continues live", async () => {
  await askOnPage("fault:slow");
  await waitForAnswer("word5");
  await page.reload();
  await waitForAnswer("word5");
  assert.equal(await page.textContent("#asked"), "fault:slow");
  assert.equal(await page.inputValue("#prompt"), "fault:slow");
  assert.doesNotMatch(await page.textContent("#answer"), /word40/, "it still runs");
  await state("running");
  await page.screenshot({ path: `${SHOTS}reloaded.png`, fullPage: true });
  await state("completed");
  assert.equal(await page.textContent("#answer"), words(40));
  assert.equal(await page.locator("#steps li").count(), 11);
  // While the server stores the turn, another reload shows the whole of it.
  await page.reload();
  await state("completed");
  assert.equal(await page.textContent("#answer"), words(40));
});

test("a turn that is no longer stored is forgotten", async () => {
  await page.evaluate(() => sessionStorage.setItem("turn", JSON.stringify({ id: "0".repeat(32), question: "Why?" })));
  await page.reload();
  await page.waitForFunction(() => sessionStorage.getItem("turn") === "null");
  await state("idle");
  await askOnPage("When does the response begin?");
  await state("completed");
});

test("documents are uploaded, asked about, and deleted", async () => {
  const note = "# Kites\n\nThe red kite turns its tail to steer in thermals.\n";
  await page.setInputFiles("#upload", { name: "kites.md", mimeType: "text/markdown", buffer: Buffer.from(note) });
  const item = page.locator("#documents li", { hasText: "kites.md" });
  await item.waitFor();
  await askOnPage("What does the red kite turn to steer?");
  await state("completed");
  assert.match(await page.textContent("#answer"), /turns its tail to steer in thermals/);
  await item.getByRole("button").click();
  await item.waitFor({ state: "detached" });
});

test("the button stops the turn itself, and the text so far is kept", async () => {
  await askOnPage("fault:slow");
  await waitForAnswer("word3");
  const turn = await page.evaluate(() => JSON.parse(sessionStorage.getItem("turn")).id);
  await page.click("#stop");
  await state("stopped");
  const shown = await page.textContent("#answer");
  assert.ok(words(40).startsWith(shown) && shown.length < words(40).length, shown);
  await page.screenshot({ path: `${SHOTS}stopped.png`, fullPage: true });
  // The turn has ended on the server, for every other reader too.
  const again = await fetch(`${server.url}/v1/turns/${turn}/stop`, { method: "POST" });
  assert.deepEqual(await again.json(), { stopped: false });
  await page.reload();
  await state("stopped");
  assert.equal(await page.textContent("#answer"), shown);
});

test("a turn that asks is answered with a button, also after a reload", async () => {
  await askOnPage("fault:ask");
  await page.getByRole("group", { name: "Delete 3 files?" }).waitFor();
  await page.reload();
  const question = page.getByRole("group", { name: "Delete 3 files?" });
  await question.waitFor();
  assert.deepEqual(await question.getByRole("button").allTextContents(), ["Approve", "Reject"]);
  await page.screenshot({ path: `${SHOTS}asked.png`, fullPage: true });
  await question.getByRole("button", { name: "Reject" }).click();
  await state("completed");
  assert.equal(await page.textContent("#answer"), "They are left alone.");
  assert.equal(await page.locator("#questions form").count(), 0);
  assert.deepEqual((await page.locator("#steps li").allTextContents()).slice(-1), ["Answered: Reject"]);
});

test("a turn that asks for text gets it from a field, by keyboard", async () => {
  await page.setViewportSize({ width: 360, height: 740 });
  await askOnPage("fault:ask-text");
  const field = page.getByRole("textbox", { name: "What is your name?" });
  await field.fill("<b>Ada</b>");
  await page.screenshot({ path: `${SHOTS}asked-narrow.png`, fullPage: true });
  const { width } = await page.evaluate(() => ({ width: document.documentElement.scrollWidth }));
  assert.ok(width <= 360, `${width} px wide`);
  await field.press("Enter");
  await state("completed");
  assert.equal(await page.textContent("#answer"), "Hello, <b>Ada</b>.");
});

test("a waiting user sees how many turns are ahead", async () => {
  const full = await startServer({ args: ["--max-turns", "1"] });
  try {
    const first = new AbortController();
    await fetch(`${full.url}/v1/turns`, { ...ask("fault:silent"), signal: first.signal });
    await page.goto(full.url);
    await askOnPage("fault:no-events");
    await page.waitForFunction(() => document.querySelector("#status").textContent === "Waiting. One question is ahead of this one.");
    await page.screenshot({ path: `${SHOTS}waiting.png`, fullPage: true });
    await page.click("#stop");
    await state("stopped");
    assert.equal(await page.textContent("#answer"), "");
    first.abort();
  } finally {
    await full.stop();
  }
});

test("nothing in an answer or a document becomes markup", async () => {
  await askOnPage("fault:hostile");
  await state("completed");
  assert.match(await page.textContent("#answer"), /<img src=x/);
  assert.equal(await page.locator("#answer img, #steps img, #citations script").count(), 0);
  assert.notEqual(await page.title(), "owned");
});

// ---- the wire of server-sent events, as a browser's own EventSource reads it ------------------------------------------------

const EVENT_STREAM = { "content-type": "text/event-stream", "access-control-allow-origin": "*" };

/** Opens a local page without a content security policy, which could block the servers below. */
async function plainPage() {
  const empty = await serve(["<!doctype html>"], { headers: { "content-type": "text/html" } });
  await page.goto(empty.url);
  await empty.stop();
}

/** The events that an EventSource passes to listeners of these types, up to the first event of the type `last`. */
function listen(url, types, last = "end") {
  const inPage = ([url, types, last]) =>
    new Promise((resolve) => {
      const source = new EventSource(url);
      const seen = [];
      const take = ({ type, data, lastEventId }) => {
        seen.push([type, data, lastEventId]);
        if (type !== last) return;
        source.close();
        resolve(seen);
      };
      for (const type of types) source.addEventListener(type, take);
    });
  return page.evaluate(inPage, [url, types, last]);
}

test("an EventSource gets each frame under its type, with its index", async () => {
  await plainPage();
  const chunks = [
    ": keep-alive\n\n",
    'retry: 10\nid: 0\nevent: search\ndata: {"event":"search","tool":"bm25"}\n\n',
    'id: 1\nevent: acme: \u00e9\ndata: {"event":"acme: \u00e9","data":"\\u2028"}\n\n',
    ": keep-alive\n\n",
    'id: 2\nevent: custom\ndata: {"event":"open","data":1}\n\n',
    'id: 3\nevent: text\ndata: {"text":"a\\n\\r\\u0000\\u2028b\u{1f600}"}\n\n',
    'id: 4\nevent: end\ndata: {"end":"stopped"}\n\n',
  ];
  const expected = [
    ["search", '{"event":"search","tool":"bm25"}', "0"],
    ["acme: \u00e9", '{"event":"acme: \u00e9","data":"\\u2028"}', "1"],
    ["custom", '{"event":"open","data":1}', "2"],
    ["text", '{"text":"a\\n\\r\\u0000\\u2028b\u{1f600}"}', "3"],
    ["end", '{"end":"stopped"}', "4"],
  ];
  const types = ["message", "search", "acme: \u00e9", "custom", "text", "end"];
  for (const byteAtATime of [false, true]) {
    const server = await serve(chunks, { headers: EVENT_STREAM, byteAtATime });
    assert.deepEqual(await listen(server.url, types), expected);
    await server.stop();
  }
  // After the retry time of the stream, a broken connection is opened again with the index of the
  // last frame.
  const server = await serve(chunks, { headers: EVENT_STREAM, cutAfter: 3 });
  const twice = page.evaluate((url) => {
    window.source = new EventSource(url);
    return new Promise((resolve) => {
      let opened = 0;
      window.source.onopen = () => (opened += 1) === 2 && resolve(window.source.close());
    });
  }, server.url);
  await twice;
  assert.deepEqual(server.requests.slice(0, 2).map(({ headers }) => headers["last-event-id"]), [undefined, "1"]);
  await server.stop();
});

test("an EventSource and our decoder get the same from every complete vector", async () => {
  await plainPage();
  const complete = [...vectors("sse").values()].filter(({ finish }) => finish === "complete");
  assert.ok(complete.length >= 15, `${complete.length} vectors`);
  for (const { id, bytes, bytes_hex } of complete) {
    const stream = bytes === undefined ? Buffer.from(bytes_hex, "hex") : Buffer.from(bytes);
    const types = [...stream.toString().matchAll(/^event: ?([^\r\n]*)/gm)].map(([, type]) => type);
    const server = await serve([stream], { headers: EVENT_STREAM });
    const seen = await listen(server.url, [...new Set(["message", "text", "end", ...types])]);
    await server.stop();
    // The events that the browser got, as a minimal stream.
    const plain = seen.map(([type, data, index]) => `id: ${index}\nevent: ${type}\n${data.replace(/^/gm, "data: ")}\n\n`);
    const [ours, theirs] = [new SseDecoder(), new SseDecoder()];
    const items = ours.feed(new Uint8Array(stream));
    assert.deepEqual(theirs.feed(new TextEncoder().encode(plain.join(""))), items, id);
    assert.deepEqual([ours.finish().status, theirs.finish().status], ["complete", "complete"], id);
  }
});
