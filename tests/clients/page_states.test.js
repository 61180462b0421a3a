// Each state of the page at two widths and in two themes: no violation that axe-core finds, no sideways scrolling,
// and a screenshot for a person to look at, in TEST_SHOTS or in `shots`.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";
import { startServer } from "./harness.js";
import { answerWith, cited, completed, forgetChats, passage } from "./stub.js";

const SHOTS = process.env.TEST_SHOTS ?? fileURLToPath(new URL("./shots/", import.meta.url));
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const VIEWS = [
  { name: "wide-light", width: 1280, height: 800, colorScheme: "light" },
  { name: "wide-dark", width: 1280, height: 800, colorScheme: "dark" },
  { name: "narrow-light", width: 390, height: 780, colorScheme: "light" },
  { name: "narrow-dark", width: 390, height: 780, colorScheme: "dark" },
];
const MARKDOWN = `## Short answer

**The moment** at which the status is decided [1], as \`200\` or an error [2].

1. A failure *before* it is an HTTP error.
2. A failure *after* it completes the stream:
   - the fallback sentence,
   - then the trailer [1].

| case | status | a long column of words that does not fit on a phone |
|---|--:|---|
| before | 500 | the client gets JSON with a message and a request id |
| after | 200 | the status can no longer change |

> Until the commit nothing has been sent.

\`\`\`rust
let turn = Turn::start(orchestrator, question); // a comment that is longer than the screen of a phone
\`\`\`

See [the protocol](https://example.org/protocol).`;

let server, browser;
before(async () => {
  mkdirSync(SHOTS, { recursive: true });
  server = await startServer();
  browser = await chromium.launch({ executablePath: process.env.TEST_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"] });
});
after(async () => {
  await browser?.close();
  await server?.stop();
});

const WRITTEN = [
  { event: "search", tool: "bm25", query: "commit rule" },
  { event: "thinking", content: "The reader asks for the rule. " },
  { event: "sources", sources: [passage("a", "The rule", "The commit is the moment."), passage("b", "Failures", "A failure is an error.")] },
  { event: "generation_start", context_chunks: 2, total_context_tokens: 100, model: "a-model" },
  { text: MARKDOWN },
  { event: "verification", claims_checked: 3, claims_supported: 2, claims_partially_supported: 0, claims_unsupported: 1, details: [], confidence: 0.7 },
  completed([cited("a", "The commit is the moment."), cited("b", "A failure is an error.")]),
];

const ended = (page) => page.waitForFunction(() => document.querySelector(".turn:last-child")?.dataset.state !== "running" && document.querySelector(".turn") !== null);
async function ask(page, question) {
  await page.fill("#prompt", question);
  await page.click("#ask");
}
async function asked(page, question) {
  await ask(page, question);
  await ended(page);
}
/** Opens the link to the last turn. */
async function share(page) {
  const id = await page.evaluate(() => JSON.parse(localStorage.getItem(`ragwire.chat.${sessionStorage.getItem("ragwire.current")}`)).turns.at(-1).id);
  await page.goto(`${page.url()}#turn=${id}`);
}
const menu = (page) => page.locator("#menu").isVisible().then((narrow) => narrow && page.click("#menu"));

/** The states, each from an empty chat of a new browser. */
const STATES = {
  empty: (page) => page.locator(".suggestion").first().waitFor(),
  "empty-library": async (page) => {
    await page.route("**/v1/documents", (route) => route.fulfill({ json: { documents: [] } }));
    await page.reload();
    await page.getByRole("button", { name: "Add documents" }).waitFor();
  },
  running: async (page) => {
    await ask(page, "fault:slow");
    await page.waitForFunction(() => document.querySelectorAll(".steps li").length >= 3);
  },
  answering: async (page) => {
    await ask(page, "fault:long");
    await page.waitForFunction(() => document.querySelector(".answer")?.textContent.includes("word3"));
  },
  answered: (page) => asked(page, "What is the commit rule?"),
  thread: async (page) => {
    await asked(page, "What is the commit rule?");
    await asked(page, "When does the response begin?");
  },
  card: async (page) => {
    await asked(page, "What is the commit rule?");
    await page.locator("button.cite").first().hover();
    await page.locator("#card").waitFor();
  },
  passage: async (page) => {
    await asked(page, "What is the commit rule?");
    await page.locator("button.cite").last().click();
    await page.locator("#passage mark").waitFor();
  },
  opened: async (page) => {
    await asked(page, "What is the commit rule?");
    await page.locator(".work summary").click();
    await page.locator(".sources summary").click();
  },
  markdown: async (page) => {
    await answerWith(page, WRITTEN);
    await asked(page, "What is the commit rule?");
    await page.locator(".thoughts summary").click();
    await page.evaluate(() => scrollTo(0, 0));
  },
  fallback: async (page) => {
    const frames = WRITTEN.slice(0, -1);
    const end = completed([cited("a", "The commit is the moment."), cited("b", "A failure is an error.")]);
    const metadata = { ...end.metadata, fallback: "model_unavailable", fallback_parts: ["embedder", "reranker"] };
    await answerWith(page, [...frames, { ...end, metadata }]);
    await asked(page, "What is the commit rule?");
    await page.locator(".turn .notice").scrollIntoViewIfNeeded();
  },
  refused: (page) => asked(page, "Who won the football world cup in 1954?"),
  failed: (page) => asked(page, "fault:text"),
  rejected: (page) => asked(page, "fault:reject"),
  stopped: async (page) => {
    await ask(page, "fault:long");
    await page.waitForFunction(() => document.querySelector(".answer")?.textContent.includes("word3"));
    await page.keyboard.press("Escape");
    await ended(page);
  },
  human: async (page) => {
    await ask(page, "fault:ask");
    await page.getByRole("group", { name: "Delete 3 files?" }).waitFor();
  },
  "human-text": async (page) => {
    await ask(page, "fault:ask-text");
    await page.getByRole("textbox", { name: "What is your name?" }).waitFor();
  },
  rated: async (page) => {
    await asked(page, "What is the commit rule?");
    await page.getByRole("button", { name: "Not helpful" }).click();
    await page.getByRole("button", { name: "Add a note" }).click();
  },
  settings: async (page) => {
    await menu(page);
    await page.click("#open-settings");
    await page.waitForFunction(() => document.querySelector("#model").textContent !== "");
  },
  shared: async (page) => {
    await asked(page, "What is the commit rule?");
    await share(page);
    await page.locator(".turn").waitFor();
  },
  "shared-unknown": async (page) => {
    await page.goto(`${page.url()}#turn=${"0".repeat(32)}`);
    await page.getByText("no longer stored").waitFor();
  },
  editing: async (page) => {
    await asked(page, "What is the commit rule?");
    await page.getByRole("button", { name: "Edit question" }).click();
  },
  chats: async (page) => {
    await asked(page, "What is the commit rule?");
    await menu(page);
    await page.locator("#chats li").hover();
  },
  "chat-rename": async (page) => {
    await asked(page, "What is the commit rule?");
    await menu(page);
    await page.locator("#chats li").hover();
    await page.getByRole("button", { name: /^Rename/ }).click();
  },
  "chat-delete": async (page) => {
    await asked(page, "What is the commit rule?");
    await menu(page);
    await page.locator("#chats li").hover();
    await page.locator("#chats").getByRole("button", { name: /^Delete/ }).click();
  },
  library: async (page) => {
    await page.click("#open-library");
    await page.locator("#documents li").first().waitFor();
  },
  "library-refused": async (page) => {
    await page.click("#open-library");
    await page.setInputFiles("#upload", { name: "broken.pdf", mimeType: "application/pdf", buffer: Buffer.from("%PDF-1.7 broken") });
    await page.locator("#uploads .refused").waitFor();
  },
  "library-delete": async (page) => {
    await page.click("#open-library");
    await page.getByRole("button", { name: /^Delete sample/ }).first().click();
    await page.getByRole("button", { name: "Undo" }).waitFor();
    // Each state needs the whole library, and a page that is closed sends the deletion.
    await page.evaluate(() => (globalThis.fetch = () => new Promise(() => {})));
  },
  "library-samples": async (page) => {
    const record = (name, more) => ({ id: name, name, kind: "markdown", title: name, chunks: 3, text_bytes: 900, added_ms: 1, removable: true, ...more });
    await page.route("**/v1/documents", (route) => route.fulfill({ json: { documents: [record("kites.md", {}), record("sample/citations.md", { sample: true })] } }));
    await page.reload();
    await page.click("#open-library");
    await page.getByRole("button", { name: "Remove the samples" }).waitFor();
  },
  "library-many": async (page) => {
    const documents = Array.from({ length: 3000 }, (_, at) => ({ id: String(at), name: `folder/document-${at}.md`, kind: "markdown", title: `Title ${at}`, chunks: 12, text_bytes: 4000, added_ms: at, removable: at % 2 === 0 }));
    await page.route("**/v1/documents", (route) => route.fulfill({ json: { documents } }));
    await page.reload();
    await page.click("#open-library");
    await page.locator("#pages").scrollIntoViewIfNeeded();
  },
};

for (const view of VIEWS) {
  test(`every state is accessible and fits: ${view.name}`, async (context) => {
    for (const [name, reach] of Object.entries(STATES)) {
      await context.test(name, async () => {
        await forgetChats(server);
        const page = await browser.newPage({ viewport: { width: view.width, height: view.height }, colorScheme: view.colorScheme, reducedMotion: "reduce" });
        try {
          await page.goto(server.url);
          await reach(page);
          await page.screenshot({ path: `${SHOTS}/${name}-${view.name}.png` });
          await page.evaluate(AXE);
          const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
          const found = violations.flatMap(({ id, nodes }) => nodes.map(({ html, any, all }) => `${id}: ${html} ${[...any, ...all].map(({ message }) => message).join("; ")}`));
          assert.deepEqual(found, []);
          const { scroll, client } = await page.evaluate(() => ({ scroll: document.documentElement.scrollWidth, client: document.documentElement.clientWidth }));
          assert.ok(scroll <= client, `${scroll} of ${client} px wide`);
        } finally {
          await page.close();
        }
      });
    }
  });
}
