// The web page in a real Chromium.
import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { after, before, beforeEach, afterEach, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { ask, startProxy, startServer } from "./harness.js";
import { SseDecoder } from "../../clients/js/src/sse.js";
import { answerWith, cited, completed, forgetChats, passage } from "./stub.js";
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
  // Each test has a storage of its own.
  await forgetChats(server);
  page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  problems = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(server.url);
});
afterEach(async () => {
  await page.close();
  assert.deepEqual(problems, []);
});

/** The last turn of the thread. */
const LAST = "#thread > .turn:last-child";
const last = (selector) => page.locator(`${LAST} ${selector}`);
const answer = () => last(".answer").textContent();

/** Waits until the last turn, and the announcement of it, are in this state. */
async function state(name) {
  await page.waitForSelector(`${LAST}[data-state=${name}]`, { timeout: 30_000 });
  await page.waitForSelector(`#status[data-state=${name}]`, { state: "attached" });
}

async function askOnPage(question) {
  const before = await page.locator(".turn").count();
  await page.fill("#prompt", question);
  await page.click("#ask");
  await page.waitForFunction((count) => document.querySelectorAll(".turn").length > count, before);
}

/** What the browser has stored of the last turn: the text before it was rendered. */
const stored = () =>
  page.evaluate(() => JSON.parse(localStorage.getItem(`ragwire.chat.${sessionStorage.getItem("ragwire.current")}`)).turns.at(-1));

test("a question is answered with steps, text and citations that open", async () => {
  await askOnPage("When does the response begin?");
  await state("completed");
  assert.equal(await page.inputValue("#prompt"), "", "the field is empty for the next question");
  assert.equal(await last(".asked").textContent(), "When does the response begin?");
  assert.ok((await last(".steps li").count()) >= 3);
  assert.equal(await last(".work").getAttribute("open"), null, "the steps are folded");
  assert.match(await last(".live").textContent(), /^Searched .* · \d+ passages? · \d+ used · /);
  assert.match(await answer(), /\[1\]/);
  await last(".answer button.cite").first().hover();
  const quote = await page.locator("#card blockquote").textContent();
  assert.match(await page.locator("#card .name").textContent(), /sample\//);
  // The pointer can move onto the card, and Esc hides it.
  await page.locator("#card").hover();
  assert.equal(await page.locator("#card:visible").count(), 1);
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#card:visible").count(), 0);
  await last(".answer button.cite").first().click();
  // The quote is marked in the passage, and the passage is from the library.
  await page.locator("#passage mark").waitFor();
  const squeeze = (text) => text.replace(/\s+/g, " ").trim();
  assert.equal(squeeze(await page.locator("#passage mark").textContent()), squeeze(quote));
  assert.match(await page.locator("#passage-heading").textContent(), /sample\//);
  await page.screenshot({ path: `${SHOTS}answered.png`, fullPage: true });
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#passage[open]").count(), 0);
  assert.match(await page.evaluate(() => document.activeElement.className), /cite/, "the focus is back on the number");
});

test("citations of one passage share one number and one source", async () => {
  await answerWith(page, [
    { event: "sources", sources: [passage("a", "The rule", "The commit is the moment. It comes once."), passage("b", "Failures", "A failure is an error.")] },
    { text: "The commit is the moment [1]. It comes once [2]. A failure is an error [3]." },
    completed([cited("a", "The commit is the moment."), cited("a", "It comes once."), cited("b", "A failure is an error.")]),
  ]);
  await askOnPage("What is the commit rule?");
  await state("completed");
  const numbers = await last(".answer button.cite").allTextContents();
  assert.deepEqual(numbers, ["[1]", "[1]", "[2]"]);
  assert.equal(await last(".citations > li").count(), 2);
  // Focus shows the quote of each number, not only the first of its passage.
  const quotes = [];
  for (const number of await last(".answer button.cite").all()) {
    await page.keyboard.press("Tab");
    await number.focus();
    quotes.push(await page.locator("#card blockquote").textContent());
  }
  assert.equal(new Set(quotes).size, numbers.length, "each number has its own quote");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator("#card:visible").count(), 0);
});

test("each step is shown while retrieval runs, and text while it is written", async () => {
  await askOnPage("fault:slow");
  await page.waitForFunction(() => document.querySelectorAll(".steps li").length >= 3);
  assert.equal((await answer()).trim(), "", "the answer came before the steps were over");
  assert.match(await last(".live").textContent(), /^Step \d+ of 10\.$/);
  await state("running");
  await page.screenshot({ path: `${SHOTS}running.png`, fullPage: true });
  await page.waitForFunction(() => document.querySelector(".answer").innerText.includes("word3"));
  assert.doesNotMatch(await answer(), /word40/, "the text came at once");
  await state("completed");
  assert.match(await answer(), /word40/);
});

test("a failed turn shows the failure and keeps the text so far", async () => {
  await askOnPage("fault:text");
  await state("failed");
  assert.match(await answer(), /The first half of an answer/);
  assert.notEqual(await last(".notice").textContent(), "");
  await page.screenshot({ path: `${SHOTS}failed.png`, fullPage: true });
  await askOnPage("fault:reject");
  await state("failed");
  assert.notEqual(await last(".notice").textContent(), "");
  await last(".retry").click();
  await state("failed");
  assert.equal(await page.locator(".turn").count(), 2, "a retry replaces its turn");
});

test("a refusal does not look like an answer", async () => {
  await askOnPage("Who won the football world cup in 1954?");
  await state("refused");
  assert.equal(await last(".answer button.cite").count(), 0);
  assert.equal(await page.textContent("#status"), "No direct answer in the documents.");
});

const words = (count) => Array.from({ length: count }, (_, at) => `word${at + 1} `).join("");
const waitForAnswer = (text) =>
  page.waitForFunction(([last, text]) => document.querySelector(`${last} .answer`)?.textContent.includes(text), [LAST, text]);

/** Checks that exactly these words are shown, and that exactly this text was received. */
async function assertWords(count) {
  assert.equal(await answer(), words(count).trim());
  assert.equal((await stored()).answer, words(count));
}

test("a broken connection is resumed, and nothing is lost or shown twice", async () => {
  const proxy = await startProxy(server.url);
  try {
    await page.goto(proxy.url);
    await askOnPage("fault:slow");
    await page.waitForFunction(() => document.querySelectorAll(".steps li").length >= 3);
    proxy.cut();
    await waitForAnswer("word3");
    proxy.cut();
    await state("completed");
    await assertWords(40);
    const steps = await last(".steps li").allTextContents();
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
  await page.waitForFunction(() => document.querySelector(".live").textContent.startsWith("The connection was lost."));
  await page.screenshot({ path: `${SHOTS}reconnecting.png`, fullPage: true });
  await state("truncated");
  assert.match(await last(".notice").textContent(), /^The connection was lost/);
  assert.match((await stored()).answer, /^word1 word2 word3 /, "what there was is kept");
  assert.equal(await answer(), (await stored()).answer.trim());
  await page.screenshot({ path: `${SHOTS}truncated.png`, fullPage: true });
});

test("a reload in mid-answer shows it again and continues live", async () => {
  await askOnPage("fault:slow");
  await waitForAnswer("word5");
  await page.reload();
  await waitForAnswer("word5");
  assert.equal(await last(".asked").textContent(), "fault:slow");
  assert.doesNotMatch(await answer(), /word40/, "it still runs");
  await state("running");
  await page.screenshot({ path: `${SHOTS}reloaded.png`, fullPage: true });
  await state("completed");
  await assertWords(40);
  assert.equal(await last(".steps li").count(), 11);
  // Another reload shows the whole of it.
  await page.reload();
  await state("completed");
  await assertWords(40);
});

test("a turn continues while another chat is shown", async () => {
  await askOnPage("fault:slow");
  await waitForAnswer("word1");
  await page.click("#new-chat");
  await page.locator("#welcome").waitFor();
  await askOnPage("When does the response begin?");
  await state("completed");
  await page.getByRole("button", { name: "fault:slow", exact: true }).click();
  await state("completed");
  await assertWords(40);
});

test("a turn that is no longer stored is reported, and the chat continues", async () => {
  await askOnPage("fault:no-events");
  await state("completed");
  await page.evaluate(() => {
    const key = `ragwire.chat.${sessionStorage.getItem("ragwire.current")}`;
    const chat = JSON.parse(localStorage.getItem(key));
    Object.assign(chat.turns[0], { id: "0".repeat(32), state: "running", answer: "" });
    localStorage.setItem(key, JSON.stringify(chat));
  });
  // Otherwise the server still has the turns of the chat.
  await forgetChats(server);
  await page.reload();
  await state("unknown");
  assert.equal(await last(".notice").textContent(), "The server no longer has this answer.");
  await askOnPage("When does the response begin?");
  await state("completed");
  assert.equal(await page.locator(".turn").count(), 2);
});

test("a chat has several turns, and chats are listed, renamed and deleted", async () => {
  await askOnPage("What is the commit rule?");
  await state("completed");
  await askOnPage("fault:no-events");
  await state("completed");
  assert.deepEqual(await page.locator(".asked").allTextContents(), ["What is the commit rule?", "fault:no-events"]);
  await page.reload();
  assert.deepEqual(await page.locator(".asked").allTextContents(), ["What is the commit rule?", "fault:no-events"]);
  assert.ok((await page.locator(".turn .citations > li").count()) > 0, "the citations are back");
  await page.click("#new-chat");
  assert.equal(await page.locator(".turn").count(), 0);
  await page.locator("#welcome").waitFor();
  await page.locator("#chats li").hover();
  await page.getByRole("button", { name: "Rename What is the commit rule?" }).click();
  await page.getByRole("textbox", { name: "Title" }).fill("Rules");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Rules", exact: true }).click();
  assert.equal(await page.locator(".turn").count(), 2);
  await page.getByRole("button", { name: "Delete Rules" }).click();
  await page.getByRole("group", { name: "Delete Rules?" }).getByRole("button", { name: "Delete" }).click();
  assert.equal(await page.locator(".turn").count(), 0);
  assert.equal(await page.locator("#chats li").count(), 0);
});

test("a chat that is deleted while its turn runs stops the turn and stays deleted", async () => {
  await askOnPage("fault:long");
  await waitForAnswer("word2");
  const turn = (await stored()).id;
  await page.locator("#chats li").hover();
  await page.getByRole("button", { name: "Delete fault:long" }).click();
  const stopped = page.waitForResponse((response) => response.url().endsWith("/stop"));
  await page.getByRole("group", { name: "Delete fault:long?" }).getByRole("button", { name: "Delete" }).click();
  await stopped;
  const again = await fetch(`${server.url}/v1/turns/${turn}/stop`, { method: "POST" });
  assert.deepEqual(await again.json(), { stopped: false });
  await page.reload();
  assert.equal(await page.locator("#chats li").count(), 0);
});

test("a question is edited, and the turns after it are removed from the chat and from its session", async () => {
  const bodies = [];
  page.on("request", (request) => request.url().endsWith("/v1/turns") && bodies.push(request.postDataJSON()));
  for (const question of ["What is the commit rule?", "fault:no-events", "fault:text"]) {
    await askOnPage(question);
    await page.waitForSelector("#stop", { state: "hidden" });
  }
  await page.locator(".turn").nth(1).getByRole("button", { name: "Edit question" }).click();
  await page.getByRole("textbox", { name: "Question", exact: true }).fill("When does the response begin?");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelectorAll(".turn").length === 2);
  await state("completed");
  assert.deepEqual(await page.locator(".asked").allTextContents(), ["What is the commit rule?", "When does the response begin?"]);
  const [session] = new Set(bodies.map(({ session_id }) => session_id));
  assert.ok(bodies.every(({ session_id }) => session_id === session), "one chat is one session");
  const { messages } = await (await fetch(`${server.url}/v1/sessions/${session}`)).json();
  assert.deepEqual(messages.map(({ role }) => role), ["user", "assistant", "user", "assistant"]);
  assert.deepEqual([messages[0].content, messages[2].content], ["What is the commit rule?", "When does the response begin?"]);
});

test("documents are uploaded, asked about, found, and deleted unless that is undone", async () => {
  const note = "# Kites\n\nThe red kite turns its tail to steer in thermals.\n";
  await page.click("#open-library");
  await page.setInputFiles("#upload", [
    { name: "kites.md", mimeType: "text/markdown", buffer: Buffer.from(note) },
    { name: "broken.pdf", mimeType: "application/pdf", buffer: Buffer.from("%PDF-1.7 broken") },
  ]);
  const item = page.locator("#documents li", { hasText: "kites.md" });
  await item.waitFor();
  const refused = page.locator("#uploads .refused", { hasText: "broken.pdf" });
  await refused.waitFor();
  assert.match(await refused.locator(".note").textContent(), /damaged/, "a refusal has its reason");
  await page.fill("#filter", "KITES");
  assert.equal(await page.locator("#documents li").count(), 1);
  await page.keyboard.press("Escape");
  await page.locator("#library .close").click();
  await askOnPage("What does the red kite turn to steer?");
  await state("completed");
  assert.match(await answer(), /turns its tail to steer in thermals/);
  await page.click("#open-library");
  await page.fill("#filter", "");
  await item.getByRole("button", { name: "Delete kites.md" }).click();
  await item.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Undo" }).click();
  await item.waitFor();
  await item.getByRole("button", { name: "Delete kites.md" }).click();
  await item.waitFor({ state: "detached" });
  // Leaving the page does not restore the document.
  await page.reload();
  const names = async () => (await (await fetch(`${server.url}/v1/documents`)).json()).documents.map(({ name }) => name);
  while ((await names()).includes("kites.md")) await new Promise(setImmediate);
  assert.equal(await item.count(), 0);
});

test("a library of thousands of documents is shown page by page", async () => {
  const documents = Array.from({ length: 3000 }, (_, at) => (
    { id: String(at), name: `${String(at).padStart(4, "0")}.md`, kind: "markdown", title: `Title ${at}`, chunks: 1, text_bytes: 3000 - at, added_ms: at, removable: true }));
  await page.route("**/v1/documents", (route) => route.fulfill({ json: { documents } }));
  await page.reload();
  await page.click("#open-library");
  await page.locator("#documents li").first().waitFor();
  assert.equal(await page.locator("#documents li").count(), 50);
  assert.equal(await page.textContent("#range"), "1–50 of 3,000");
  await page.click("#next");
  assert.match(await page.locator("#documents li").first().textContent(), /0050\.md/);
  await page.selectOption("#sort", "added");
  assert.match(await page.locator("#documents li").first().textContent(), /2999\.md/);
  await page.fill("#filter", "title 2998");
  assert.equal(await page.textContent("#count"), "1 of 3,000 documents");
});

test("an empty chat says what is in the library and suggests questions that it answers", async () => {
  await page.locator(".suggestion").first().waitFor();
  assert.match(await page.textContent("#holdings"), /^The library has \d+ documents with \d+ passages/);
  const questions = await page.locator(".suggestion").allTextContents();
  assert.equal(questions.length, 3);
  for (const question of questions) {
    await page.click("#new-chat");
    await page.getByRole("button", { name: question, exact: true }).last().click();
    await page.waitForSelector(`${LAST}[data-state=completed]`);
    assert.ok((await last(".answer button.cite").count()) > 0, question);
  }
});

test("the button stops the turn itself, and the text so far is kept", async () => {
  await askOnPage("fault:slow");
  await waitForAnswer("word3");
  const turn = (await stored()).id;
  await page.click("#stop");
  await state("stopped");
  const shown = (await stored()).answer;
  assert.equal(await answer(), shown.trim());
  assert.ok(words(40).startsWith(shown) && shown.length < words(40).length, shown);
  await page.screenshot({ path: `${SHOTS}stopped.png`, fullPage: true });
  // The turn has ended on the server, for every other reader too.
  const again = await fetch(`${server.url}/v1/turns/${turn}/stop`, { method: "POST" });
  assert.deepEqual(await again.json(), { stopped: false });
  await page.reload();
  await state("stopped");
  assert.equal(await answer(), shown.trim());
});

test("the keyboard asks, breaks lines, stops and recalls", async () => {
  await page.locator("#prompt").focus();
  await page.keyboard.type("fault:slow");
  await page.keyboard.press("Shift+Enter");
  assert.equal(await page.inputValue("#prompt"), "fault:slow\n");
  await page.keyboard.press("Enter");
  await waitForAnswer("word2");
  await page.keyboard.press("Escape");
  await state("stopped");
  await page.keyboard.press("ArrowUp");
  assert.equal(await page.inputValue("#prompt"), "fault:slow");
});

test("a long answer is followed until the reader scrolls up, and a button returns", async () => {
  await page.setViewportSize({ width: 360, height: 400 });
  await askOnPage("fault:long");
  await waitForAnswer("word120");
  const distance = () => page.evaluate(() => document.documentElement.scrollHeight - innerHeight - scrollY);
  assert.ok((await distance()) <= 120, "the page follows");
  await page.mouse.move(180, 150);
  await page.mouse.wheel(0, -600);
  await page.locator("#latest").waitFor();
  const at = await page.evaluate(() => scrollY);
  await waitForAnswer("word140");
  assert.equal(await page.evaluate(() => scrollY), at, "the page stays where the reader is");
  await page.click("#latest");
  assert.ok((await distance()) <= 120);
  await waitForAnswer("word145");
  assert.ok((await distance()) <= 120, "the page follows again");
  assert.ok(await page.locator("#latest").isHidden());
  await page.click("#stop");
  await state("stopped");
});

test("a turn that asks is answered with a button, also after a reload", async () => {
  await askOnPage("fault:ask");
  await page.getByRole("group", { name: "Delete 3 files?" }).waitFor();
  await page.reload();
  const question = page.getByRole("group", { name: "Delete 3 files?" });
  await question.waitFor();
  assert.deepEqual(await question.getByRole("button").allTextContents(), ["Approve", "Reject"]);
  assert.equal(await last(".live").textContent(), "Waiting for your reply.");
  await page.screenshot({ path: `${SHOTS}asked.png`, fullPage: true });
  await question.getByRole("button", { name: "Reject" }).click();
  await state("completed");
  assert.equal(await answer(), "They are left alone.");
  assert.equal(await last(".questions form").count(), 0);
  assert.deepEqual((await last(".steps li").allTextContents()).slice(-1), ["Answered: Reject"]);
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
  assert.equal(await answer(), "Hello, <b>Ada</b>.");
});

test("a waiting user sees how many turns are ahead", async () => {
  const full = await startServer({ args: ["--max-turns", "1"] });
  try {
    const first = new AbortController();
    await fetch(`${full.url}/v1/turns`, { ...ask("fault:silent"), signal: first.signal });
    await page.goto(full.url);
    await askOnPage("fault:no-events");
    await page.waitForFunction(() => document.querySelector(".live").textContent === "Waiting. One question is ahead of this one.");
    await page.screenshot({ path: `${SHOTS}waiting.png`, fullPage: true });
    await page.click("#stop");
    await state("stopped");
    assert.equal(await answer(), "");
    first.abort();
  } finally {
    await full.stop();
  }
});

test("nothing in an answer or a document becomes markup", async () => {
  await askOnPage("fault:hostile");
  await state("completed");
  assert.match(await answer(), /<img src=x/);
  await last(".answer button.cite").first().click();
  await page.locator("#passage .problem").waitFor();
  assert.equal(await page.locator(".turn img, .turn script, #passage img, #passage script").count(), 0);
  assert.notEqual(await page.title(), "owned");
});

test("the page takes less than 80 kB of the network", async () => {
  const sizes = await page.evaluate(() =>
    [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].map(({ name, encodedBodySize }) => [name, encodedBodySize]));
  const files = sizes.filter(([name]) => !name.includes("/v1/"));
  assert.ok(files.length >= 20, `${files.length} files`);
  const total = files.reduce((sum, [, size]) => sum + size, 0);
  assert.ok(total > 0 && total < 80_000, `${total} bytes: ${JSON.stringify(files)}`);
});

test("the theme is chosen, survives a reload, and follows the system otherwise", async () => {
  const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.emulateMedia({ colorScheme: "light" });
  const light = await background();
  await page.click("#open-settings");
  await page.selectOption("#theme", "dark");
  const dark = await background();
  assert.notEqual(dark, light);
  await page.reload();
  assert.equal(await background(), dark);
  await page.click("#open-settings");
  await page.selectOption("#theme", "system");
  assert.equal(await background(), light);
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
  }
  // After the retry time of the stream, a broken connection is opened again with the index of the
  // last frame.
  let isRead;
  const arrived = new Promise((resolve) => (isRead = resolve));
  const { url, requests } = await serve(chunks, { headers: EVENT_STREAM, cutAfter: 3, arrived });
  const reopened = page.evaluate((url) => {
    window.seen = [];
    const source = new EventSource(url);
    for (const type of ["search", "acme: \u00e9"]) source.addEventListener(type, ({ lastEventId }) => window.seen.push(lastEventId));
    let opened = 0;
    return new Promise((resolve) => (source.onopen = () => (opened += 1) === 2 && resolve(source.close())));
  }, url);
  await page.waitForFunction(() => window.seen?.length === 2);
  isRead();
  await reopened;
  assert.deepEqual(requests.slice(0, 2).map(({ headers }) => headers["last-event-id"]), [undefined, "1"]);
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
    // The events that the browser got, as a minimal stream.
    const plain = seen.map(([type, data, index]) => `id: ${index}\nevent: ${type}\n${data.replace(/^/gm, "data: ")}\n\n`);
    const [ours, theirs] = [new SseDecoder(), new SseDecoder()];
    const items = ours.feed(new Uint8Array(stream));
    assert.deepEqual(theirs.feed(new TextEncoder().encode(plain.join(""))), items, id);
    assert.deepEqual([ours.finish().status, theirs.finish().status], ["complete", "complete"], id);
  }
});
