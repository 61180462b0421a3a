// What the page shares with the server: chats in several browsers, links to answers, feedback, settings, and originals.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, afterEach, before, beforeEach, test } from "node:test";
import { chromium } from "playwright-core";
import { startServer } from "./harness.js";
import { answerWith, completed, forgetChats } from "./stub.js";

const FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];
const QUESTION = "When does the response begin?";

let server, browser, page;
before(async () => {
  server = await startServer();
  browser = await chromium.launch({ executablePath: process.env.TEST_CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const problems = [];
/** A page with a storage of its own: another browser, as far as the server can see. */
async function another({ url = server.url } = {}) {
  const opened = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  opened.on("pageerror", (error) => problems.push(String(error)));
  await opened.goto(url);
  return opened;
}
beforeEach(async () => {
  await forgetChats(server);
  page = await another();
});
afterEach(async () => {
  await page.close();
  assert.deepEqual(problems.splice(0), []);
});

const ended = (on, state = "completed") => on.waitForSelector(`#thread > .turn:last-child[data-state=${state}]`);
async function ask(on, question, state) {
  const turns = await on.locator(".turn").count();
  await on.fill("#prompt", question);
  await on.click("#ask");
  await on.waitForFunction((count) => document.querySelectorAll(".turn").length > count, turns);
  await ended(on, state);
}
const lastId = (on) =>
  on.evaluate(() => JSON.parse(localStorage.getItem(`ragwire.chat.${sessionStorage.getItem("ragwire.current")}`)).turns.at(-1).id);
const get = async (path) => (await fetch(`${server.url}${path}`)).json();

test("a chat is listed, continued, renamed and deleted in another browser", async () => {
  await ask(page, QUESTION);
  const answer = await page.locator(".answer").textContent();
  const other = await another();
  await other.getByRole("button", { name: QUESTION, exact: true }).click();
  await other.locator(".turn").waitFor();
  assert.equal(await other.locator(".asked").textContent(), QUESTION);
  assert.equal(await other.locator(".answer").textContent(), answer);
  assert.match(await other.locator(".sources .name").first().textContent(), /^sample\//, "a citation has the name of its document");
  await other.locator(".answer button.cite").first().click();
  await other.locator("#passage mark").waitFor();
  await other.keyboard.press("Escape");
  await ask(other, "fault:no-events");
  await other.locator("#chats li").hover();
  await other.getByRole("button", { name: `Rename ${QUESTION}` }).click();
  const renamed = other.waitForResponse((response) => response.request().method() === "PATCH");
  await other.getByRole("textbox", { name: "Title" }).fill("Rules");
  await other.keyboard.press("Enter");
  await renamed;
  // The first browser shows the second turn, and still has the steps of the first.
  await page.reload();
  await page.getByRole("button", { name: "Rules", exact: true }).waitFor();
  await page.waitForFunction(() => document.querySelectorAll(".turn").length === 2);
  assert.ok((await page.locator(".turn").first().locator(".steps li").count()) > 0);
  const deleted = page.waitForResponse((response) => response.request().method() === "DELETE");
  await page.locator("#chats li").hover();
  await page.getByRole("button", { name: "Delete Rules" }).click();
  await page.getByRole("group", { name: "Delete Rules?" }).getByRole("button", { name: "Delete" }).click();
  await deleted;
  await other.reload();
  await other.waitForFunction(() => document.querySelectorAll("#chats li").length === 0);
  assert.deepEqual((await get("/v1/sessions")).sessions, []);
  await other.close();
});

test("a server that does not know its users lists nothing, and the page keeps its own chats", async () => {
  const shared = await startServer({ args: ["--allow-host", "docs.example"] });
  try {
    await page.goto(shared.url);
    await ask(page, QUESTION);
    await page.reload();
    await page.getByRole("button", { name: QUESTION, exact: true }).waitFor();
    const other = await another({ url: shared.url });
    await other.locator(".suggestion").first().waitFor();
    assert.equal(await other.locator("#chats li").count(), 0);
    await other.click("#open-settings");
    await other.getByText("in this browser only").waitFor();
    await other.close();
  } finally {
    await shared.stop();
  }
});

test("a link shows one finished turn to read, and nothing to change", async () => {
  await ask(page, QUESTION);
  const link = `${server.url}/#turn=${await lastId(page)}`;
  await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => (globalThis.copied = text) } }));
  await page.getByRole("button", { name: "Copy link to this answer" }).click();
  assert.equal(await page.evaluate(() => globalThis.copied), link);
  const other = await another({ url: link });
  await other.locator(".turn").waitFor();
  assert.equal(await other.locator(".asked").textContent(), QUESTION);
  assert.equal(await other.locator("#prompt:visible, #side:visible, #open-library:visible").count(), 0);
  const names = (buttons) => buttons.map((button) => button.getAttribute("aria-label"));
  assert.deepEqual(await other.locator(".actions button").evaluateAll(names), ["Copy the answer"]);
  await other.locator(".answer button.cite").first().click();
  await other.locator("#passage mark").waitFor();
  await other.keyboard.press("Escape");
  await other.getByRole("link", { name: "Ask your own question" }).click();
  await other.locator("#prompt:visible").waitFor();
  await other.goto(`${server.url}/#turn=${"0".repeat(32)}`);
  await other.getByText("no longer stored").waitFor();
  assert.equal(await other.locator(".turn").count(), 0);
  await other.close();
});

test("feedback is stored with the turn, shown again, and exported", async () => {
  await ask(page, QUESTION);
  const pressed = () => page.locator(".feedback [aria-pressed=true]").getAttribute("aria-label");
  await page.getByRole("button", { name: "Not helpful" }).click();
  await page.getByText("Thank you.").waitFor();
  await page.getByRole("button", { name: "Add a note" }).click();
  await page.getByRole("textbox", { name: "Note" }).fill("The date is missing.");
  await page.keyboard.press("Enter");
  await page.getByText("The note is stored.").waitFor();
  const { turns } = await get("/v1/feedback");
  assert.deepEqual(turns.map(({ question, feedback }) => [question, feedback]), [[QUESTION, { rating: "down", note: "The date is missing." }]]);
  await page.click("#open-settings");
  const exported = page.waitForEvent("download");
  await page.getByRole("link", { name: "Export the feedback on answers" }).click();
  const file = await (await exported).path();
  assert.deepEqual(JSON.parse(readFileSync(file, "utf8")).turns, turns);
  await page.locator("#settings .close").click();
  await page.reload();
  assert.equal(await pressed(), "Not helpful");
  await page.getByRole("button", { name: "Not helpful" }).click();
  await page.getByText("Removed.").waitFor();
  assert.deepEqual((await get("/v1/feedback")).turns, []);
});

test("settings go with each question and survive a reload", async () => {
  await page.click("#open-settings");
  await page.getByText("Answers quote the documents.", { exact: false }).first().waitFor();
  await page.selectOption("#mode", "direct");
  await page.selectOption("#effort", "high");
  await page.check("#review");
  await page.reload();
  const body = page.waitForRequest((request) => request.url().endsWith("/v1/turns"));
  await ask(page, QUESTION);
  const { mode, reasoning_effort, review_enabled } = (await body).postDataJSON();
  assert.deepEqual({ mode, reasoning_effort, review_enabled }, { mode: "direct", reasoning_effort: "high", review_enabled: true });
});

test("a number shows its passage while the answer is written", async () => {
  await page.addInitScript(() => {
    const fetched = globalThis.fetch;
    const frames = [
      { index: 0, event: "sources", sources: [{ chunk_id: "a", document_id: "doc", text: "First.\nThe commit is\nthe moment. Last.", page_numbers: [4], title: "rule.pdf", heading: "The rule" }] },
      { index: 1, text: "> The commit is the moment. [1]\n\nIn other words, it is then [2]. " },
    ];
    // The stream stays open after these frames.
    const start = (controller) => frames.forEach((frame) => controller.enqueue(new TextEncoder().encode(`${JSON.stringify(frame)}\n`)));
    globalThis.fetch = (url, options) =>
      url === "/v1/turns" ? Promise.resolve(new Response(new ReadableStream({ start }), { headers: { "x-ragwire-turn": "1".repeat(32) } })) : fetched(url, options);
  });
  await page.reload();
  await page.fill("#prompt", "Why?");
  await page.click("#ask");
  await page.locator("button.cite").first().hover();
  assert.equal(await page.locator("#card blockquote").textContent(), "The commit is the moment.");
  assert.equal(await page.locator("#card .where").textContent(), "The rule · page 4");
  await page.locator("button.cite").last().hover();
  await page.getByText("The quote follows with the end of the answer.").waitFor();
});

test("the original of a citation is linked, and a PDF at its page", async () => {
  await ask(page, "What is truncation?");
  const numbers = page.locator(".answer button.cite");
  const hrefs = [];
  for (let at = 0; at < (await numbers.count()); at += 1) {
    await numbers.nth(at).click();
    const link = page.locator("#passage-original a");
    await link.waitFor();
    hrefs.push([await page.textContent("#passage-heading"), await link.getAttribute("href")]);
    await page.keyboard.press("Escape");
  }
  const [, pdf] = hrefs.find(([name]) => name.endsWith(".pdf")) ?? assert.fail(JSON.stringify(hrefs));
  assert.match(pdf, /^\/v1\/documents\/[0-9a-f]{32}\/original#page=\d+$/);
  const file = await fetch(`${server.url}${pdf}`);
  assert.deepEqual([file.headers.get("content-type"), file.headers.get("x-content-type-options")], ["application/pdf", "nosniff"]);
  assert.match(file.headers.get("content-security-policy"), /^sandbox; default-src 'none'/);
  assert.equal(Buffer.from(await file.arrayBuffer()).subarray(0, 5).toString(), "%PDF-");
});

test("a dropped folder is added with its subfolders, without other files", async () => {
  await page.evaluate(() => {
    const file = (name, text) => ({ isFile: true, isDirectory: false, name, file: (give) => give(new File([text], name)) });
    const folder = (name, entries) => ({
      isFile: false, isDirectory: true, name,
      // A reader returns its entries in parts, and an empty list at the end.
      createReader: () => ({ left: [...entries], readEntries(give) { give(this.left.splice(0, 1)); } }),
    });
    const dropped = folder("notes", [
      file("kestrel.md", "# Kestrels\n\nA kestrel hovers above the field.\n"),
      folder("deep", [file("osprey.txt", "An osprey dives for fish."), file("kestrel.md", "# Kestrels\n\nA kestrel is a falcon.\n")]),
      folder(".git", [file("config.txt", "hidden")]),
      file("photo.png", "no"), file(".hidden.md", "no"),
    ]);
    const event = new Event("drop", { bubbles: true, cancelable: true });
    Object.defineProperty(event, "dataTransfer", { value: { types: ["Files"], files: [], items: [{ webkitGetAsEntry: () => dropped }] } });
    document.body.dispatchEvent(event);
  });
  await page.getByText("3 files added.").waitFor();
  const { documents } = await get("/v1/documents");
  const added = documents.filter(({ name }) => !name.startsWith("sample/"));
  assert.equal(await page.isVisible("#share"), false, "without users everyone finds everything");
  assert.deepEqual(added.map(({ name }) => name).sort(), ["notes/deep/kestrel.md", "notes/deep/osprey.txt", "notes/kestrel.md"]);
  for (const { id } of added) await fetch(`${server.url}/v1/documents/${id}`, { method: "DELETE" });
});

test("users delete what they added, and a refused deletion has its reason", async () => {
  const owned = await startServer({ args: ["--owner-header", "x-user"] });
  const ada = await browser.newPage({ extraHTTPHeaders: { "x-user": "ada" } });
  try {
    ada.on("pageerror", (error) => problems.push(String(error)));
    await ada.goto(owned.url);
    await ada.click("#open-library");
    await ada.locator("#documents li").first().waitFor();
    assert.equal(await ada.locator("#documents .delete").count(), 0, "the samples are shared");
    assert.match(await ada.textContent("#count"), /^\d+ documents\. You can delete those that you added\.$/);
    const buffer = Buffer.from("# Kites\n\nThe red kite steers with its tail.\n");
    await ada.setInputFiles("#upload", { name: "kites.md", mimeType: "text/markdown", buffer });
    const remove = ada.getByRole("button", { name: "Delete kites.md" });
    await remove.waitFor();
    assert.equal(await ada.locator("#documents .delete").count(), 1);
    assert.match(await ada.locator("#documents li", { hasText: "kites.md" }).textContent(), /only you find it/);
    const original = async (user) => {
      const { documents } = await (await fetch(`${owned.url}/v1/documents?name=kites`, { headers: { "x-user": "ada" } })).json();
      return (await fetch(`${owned.url}/v1/documents/${documents[0].id}/original`, { headers: { "x-user": user } })).status;
    };
    assert.deepEqual([await original("ada"), await original("eve")], [200, 404]);
    // Shared, it exists for others too, who may not delete it.
    await ada.getByLabel("Let everyone find what I add").check();
    await ada.setInputFiles("#upload", { name: "kites.md", mimeType: "text/markdown", buffer });
    await ada.locator("#documents li", { hasText: "kites.md" }).filter({ hasNotText: "only you find it" }).waitFor();
    assert.deepEqual([await original("ada"), await original("eve")], [200, 200]);
    // The user of the page is another one by the time at which the deletion is sent.
    await ada.route("**/v1/documents/*", (route) => route.continue({ headers: { ...route.request().headers(), "x-user": "eve" } }));
    await ada.clock.install();
    await remove.click();
    await ada.getByText("kites.md was deleted.").waitFor();
    await ada.clock.fastForward(60_000);
    await ada.getByText(/^kites\.md was not deleted: .*belongs to another user/).waitFor();
    await remove.waitFor();
  } finally {
    await ada.close();
    await owned.stop();
  }
});

test("an answer says which part of the server it had to do without", async () => {
  const end = (fallback_parts) => ({ ...completed([]), metadata: { citations: [], tools_used: ["bm25"], answered: true, fallback: "model_unavailable", fallback_parts } });
  const words = "The embedding model failed, so the documents were searched by words only.";
  for (const [parts, notice] of [
    [["embedder"], words],
    [["embedder", "reranker"], `${words} The reranker failed, so the passages are in the order of the search.`],
    // Its answer says so itself.
    [["language_model"], ""],
  ]) {
    await page.unroute("**/v1/turns");
    await answerWith(page, [{ text: "Found." }, end(parts)]);
    await ask(page, QUESTION);
    assert.equal(await page.locator("#thread > .turn:last-child .notice").textContent(), notice);
  }
  await page.reload();
  await page.locator(".turn").nth(1).getByText("The reranker failed").waitFor();
});

test("an answer that the model did not finish says so", async () => {
  await page.unroute("**/v1/turns");
  await ask(page, "fault:length");
  const turn = page.locator("#thread > .turn:last-child");
  assert.match(await turn.textContent(), /The first half of an answer/);
  assert.equal(await turn.locator(".notice").textContent(), "The answer was cut short: the model reached its limit, or repeated itself.");
});

test("an original is sent as a type in which nothing runs, and leaves with its document", async () => {
  const files = [
    ["page.html", "<!DOCTYPE html><title>T</title><p>A heron waits. <script>fetch('/steal')</script>", "text/plain; charset=utf-8"],
    ["größe \"1\".md", "# Size\n\nA heron is a metre tall.\n", "text/plain; charset=utf-8"],
  ];
  for (const [name, text, type] of files) {
    const form = new FormData();
    form.append("file", new Blob([text]), name);
    const { documents: [{ id }] } = await (await fetch(`${server.url}/v1/documents`, { method: "POST", body: form })).json();
    const address = `${server.url}/v1/documents/${id}/original`;
    const reply = await fetch(address);
    assert.equal(await reply.text(), text);
    assert.equal(reply.headers.get("content-type"), type);
    assert.equal(reply.headers.get("x-content-type-options"), "nosniff");
    assert.match(reply.headers.get("content-security-policy"), /^sandbox; default-src 'none'/);
    const [, encoded] = /^inline; filename\*=UTF-8''(\S+)$/.exec(reply.headers.get("content-disposition"));
    assert.equal(decodeURIComponent(encoded).replace(/%22/g, '"'), name);
    assert.equal((await fetch(`${server.url}/v1/documents/${id}`, { method: "DELETE" })).status, 204);
    assert.equal((await fetch(address)).status, 404);
  }
});
