// The web page of a server with API keys: the browser asks for a key and sends it with every request of the page.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";
import { BINARY, startServer } from "./harness.js";

const FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];
const QUESTION = "When does the response begin?";

let server, browser, folder;
const keys = {};
before(async () => {
  folder = mkdtempSync(join(tmpdir(), "ragwire-keys-"));
  let lines = "";
  for (const owner of ["ada", "bob"]) {
    // The line is on stdout, the key on stderr.
    const script = '"$0" keys new --owner "$1" --scope ask,read,documents 2>&1 >"$2"';
    const shown = execFileSync("sh", ["-c", script, BINARY, owner, join(folder, owner)], { encoding: "utf8" });
    keys[owner] = shown.trim().split(" ").at(-1);
    lines += execFileSync("cat", [join(folder, owner)], { encoding: "utf8" });
  }
  const file = join(folder, "keys.txt");
  writeFileSync(file, lines);
  server = await startServer({ args: ["--api-keys", file] });
  browser = await chromium.launch({ executablePath: process.env.TEST_CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
});
after(async () => {
  await browser?.close();
  await server?.stop();
  rmSync(folder, { recursive: true, force: true });
});

/** Opens the page in a browser of its own, whose user types this key. */
async function open(key) {
  const context = await browser.newContext({ httpCredentials: key && { username: "any", password: key } });
  const page = await context.newPage();
  const refused = [];
  page.on("response", (response) => {
    if (response.status() === 401) refused.push(new URL(response.url()).pathname);
  });
  // Chromium has no page for a key that is wrong: `goto` fails.
  const problem = await page.goto(server.url).then(
    () => undefined,
    ({ message }) => message,
  );
  return { page, refused, problem, close: () => context.close() };
}

test("without a key there is no page", async () => {
  for (const key of [undefined, "rw_unknown"]) {
    const { page, refused, problem, close } = await open(key);
    assert.ok(refused.includes("/") || problem?.includes("ERR_INVALID_AUTH_CREDENTIALS"), problem);
    assert.equal(await page.locator("#prompt").count(), 0);
    await close();
  }
});

test("with a key the page asks, shows each step, streams the answer and lists the chat", async () => {
  const { page, refused, problem, close } = await open(keys.ada);
  assert.equal(problem, undefined);
  await page.fill("#prompt", "fault:slow");
  await page.click("#ask");
  // Steps while the turn runs: the answer is read as it comes.
  await page.waitForFunction(() => document.querySelectorAll(".steps li").length >= 3);
  assert.equal(await page.locator("#thread > .turn[data-state=running]").count(), 1);
  await page.waitForSelector("#thread > .turn:last-child[data-state=completed]");
  await page.fill("#prompt", QUESTION);
  await page.click("#ask");
  await page.waitForFunction(() => document.querySelectorAll(".turn").length === 2);
  await page.waitForSelector("#thread > .turn:last-child[data-state=completed]");
  const answer = await page.locator("#thread > .turn:last-child .answer").textContent();
  assert.match(answer, /\[1\]/);
  await page.reload();
  await page.waitForFunction((text) => document.querySelector("#thread > .turn:last-child .answer")?.textContent === text, answer);
  assert.deepEqual(refused, [], "no request of the page was without the key");
  await close();

  // The chat is on the server, and only for its owner.
  const sessions = async (key) => {
    const response = await fetch(`${server.url}/v1/sessions`, { headers: { authorization: `Bearer ${key}` } });
    return (await response.json()).sessions.length;
  };
  assert.deepEqual([await sessions(keys.ada), await sessions(keys.bob)], [1, 0]);
});
