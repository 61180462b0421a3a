// The package as it is published: packed, checked, and installed into fresh projects.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import { join } from "node:path";
import { before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import * as esbuild from "esbuild";
import { chromium } from "playwright-core";
import { publint } from "publint";
import * as vite from "vite";
import { startProxy, startServer } from "../harness.js";

const run = promisify(execFile);
const TESTS = fileURLToPath(new URL("..", import.meta.url));
const ROOT = join(TESTS, "../..");
const PACKAGE = join(ROOT, "clients/js");
const WORK = join(ROOT, "target/npm");
const bin = (path) => join(TESTS, "node_modules", path);
const manifest = JSON.parse(readFileSync(join(PACKAGE, "package.json"), "utf8"));

let tarball;
before(async () => {
  rmSync(WORK, { recursive: true, force: true });
  mkdirSync(WORK, { recursive: true });
  const { stdout } = await run("npm", ["pack", "--json", "--pack-destination", WORK], { cwd: PACKAGE });
  tarball = join(WORK, JSON.parse(stdout)[0].filename);
});

/** A fresh project that has nothing but the package, installed from its tarball. */
async function project(name, files) {
  const folder = join(WORK, name);
  mkdirSync(folder, { recursive: true });
  for (const [file, content] of Object.entries({ "package.json": '{ "private": true, "type": "module" }', ...files })) {
    writeFileSync(join(folder, file), content);
  }
  await run("npm", ["install", "--offline", "--no-audit", "--no-fund", tarball], { cwd: folder });
  return folder;
}

/** What a program of each project does. */
const PROGRAM = `
import { ask, decodeFramed, ndjson, sse, framed, FramedDecoder } from "@ragwire/client";
import { RagwireChatTransport } from "@ragwire/client/ai";
import { SseDecoder } from "@ragwire/client/sse";
import { NdjsonDecoder } from "@ragwire/client/ndjson";
import { decodeStream } from "@ragwire/client/stream";

export async function main(server) {
  const shown = [];
  for (const wire of [framed, sse, ndjson]) {
    let text = "";
    for await (const item of await ask(server, "fault:paced 30 20 w", { wire })) {
      if (item.type === "text") text += item.text;
      if (item.type === "end") shown.push(item.status + " " + text.split(" ").length);
    }
  }
  shown.push([FramedDecoder, SseDecoder, NdjsonDecoder, decodeFramed, decodeStream, RagwireChatTransport].every((it) => typeof it === "function"));
  return shown.join(", ");
}
`;
/** A proxy that cuts each first response within its events or its text. */
const BROKEN = { cutAfter: 900, http10: true, hurts: (head) => head.startsWith("POST") };
const SHOWN = "completed 31, completed 31, completed 31, true";

test("the tarball has the sources, their types, the licences and nothing else", async () => {
  const { stdout } = await run("tar", ["-tzf", tarball]);
  const files = stdout.trim().split("\n").map((file) => file.replace(/^package\//, "")).sort();
  const sources = readdirSync(join(PACKAGE, "src")).map((file) => `src/${file}`);
  assert.deepEqual(files, ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "package.json", ...sources].sort());
  for (const file of ["LICENSE-APACHE", "LICENSE-MIT"]) {
    assert.equal(readFileSync(join(PACKAGE, file), "utf8"), readFileSync(join(ROOT, file), "utf8"));
  }
  assert.equal(manifest.license, "MIT OR Apache-2.0");
  assert.deepEqual(Object.keys(manifest).filter((name) => /dependencies/i.test(name)), []);
  assert.ok(manifest.keywords.length > 0);
});

test("publint has no complaint", async () => {
  const { messages } = await publint({ pkgDir: PACKAGE, strict: true });
  assert.deepEqual(messages, []);
});

test("attw: every entry has types that fit, as a module", async () => {
  const attw = bin("@arethetypeswrong/cli/dist/index.js");
  const { stdout } = await run(process.execPath, [attw, tarball, "--profile", "esm-only", "--format", "json"]);
  const { analysis, problems } = JSON.parse(stdout);
  assert.deepEqual(Object.keys(analysis.entrypoints).sort(), Object.keys(manifest.exports).sort());
  const relevant = Object.values(problems ?? {}).flat().filter(({ resolutionKind }) => resolutionKind !== "node10" && resolutionKind !== "node16-cjs");
  assert.deepEqual(relevant, []);
});

test("the sources fit their types: tsc --strict over the JavaScript", async () => {
  const listed = JSON.parse(readFileSync(join(PACKAGE, "tsconfig.json"), "utf8")).files;
  assert.deepEqual(listed, readdirSync(join(PACKAGE, "src")).filter((file) => file.endsWith(".js")).map((file) => `src/${file}`).sort());
  await run(process.execPath, [bin("typescript/bin/tsc"), "-p", PACKAGE]).catch(({ stdout }) => assert.fail(stdout));
  // What the types promise exists, and nothing else does.
  for (const file of listed) {
    const types = readFileSync(join(PACKAGE, file.replace(/js$/, "d.ts")), "utf8");
    const declared = [...types.matchAll(/^export (?:class|function|const) (\w+)/gm)].map(([, name]) => name);
    for (const [, list] of types.matchAll(/^export \{([^}]*)\}/gm)) {
      declared.push(...list.split(",").map((name) => name.trim()).filter((name) => name !== "" && !name.startsWith("type ")));
    }
    assert.deepEqual(Object.keys(await import(join(PACKAGE, file))).sort(), declared.sort(), file);
  }
});

test("modules import each other with their extension, as browsers and Deno need it", () => {
  for (const file of readdirSync(join(PACKAGE, "src"))) {
    const isTypes = file.endsWith(".d.ts");
    const whole = readFileSync(join(PACKAGE, "src", file), "utf8");
    // Types are imported in the comments of the JavaScript.
    const source = whole.replaceAll(/\/\*\*[^]*?\*\//g, "");
    for (const [, from] of source.matchAll(/(?:from|import\() ?"([^"]*)"/g)) {
      assert.match(from, /^\.\/\w+\.js$/, file);
      assert.ok(existsSync(join(PACKAGE, "src", isTypes ? from.replace(/js$/, "d.ts") : from)), `${file}: ${from}`);
    }
    assert.doesNotMatch(source, /from "node:|\bprocess\b|\bBuffer\b|\brequire\(/, file);
  }
});

test("the framed reader with reconnect has at most 4 kB, gzipped", async (t) => {
  const sizeOf = async (code) => {
    const { outputFiles } = await esbuild.build({
      stdin: { contents: code, resolveDir: join(PACKAGE, "src") },
      bundle: true,
      minify: true,
      format: "esm",
      target: "es2022",
      write: false,
    });
    return gzipSync(outputFiles[0].contents, { level: 9 }).length;
  };
  const size = await sizeOf('export { ask } from "./index.js";');
  t.diagnostic(`ask on the framed wire: ${size} bytes`);
  assert.ok(size <= 4000, `${size} bytes`);
  assert.ok((await sizeOf('export { decodeFramed } from "./index.js";')) < size);
  // Bundlers leave out the other wires.
  assert.ok((await sizeOf('export { ask, sse, ndjson } from "./index.js";')) > size + 500);
});

const STRICT = ["--strict", "--noEmit", "--skipLibCheck", "false", "--target", "es2022"];

test("a fresh TypeScript project narrows events, with each way to resolve modules", async () => {
  const folder = await project("typescript", {
    "main.ts": `import { ask, ndjson, withdraw, type KnownEvent, type TurnItem } from "@ragwire/client";
import { RagwireChatTransport } from "@ragwire/client/ai";

declare module "@ragwire/client" {
  interface ApplicationEvents { progress: { done: number } }
}

export async function show(): Promise<string> {
  let text = "";
  const turn = await ask("https://host", { prompt: "Why?", mode: "agentic" }, { wire: ndjson, signal: AbortSignal.timeout(1000) });
  for await (const item of turn) {
    if (item.type === "text") text += item.text;
    if (item.type === "snapshot") text = item.text;
    if (item.type === "event") {
      if (item.event.event === "search") { const tool: string = item.event.tool; const page: number | undefined = item.event.page; void [tool, page]; }
      if (item.event.event === "review") { const verdict: "approved" | "rejected" = item.event.verdict; void verdict; }
      if (item.event.event === "retract") text = withdraw(text, item.event.kept);
      if (item.event.event === "input_requested" && item.event.options) await turn.answer(item.event.request_id, item.event.options[0]);
      if (item.event.event === "progress") { const done: number = item.event.data.done; void done; }
      if (item.event.event === "acme.step") { const data: unknown = item.event.data; void data; }
      // @ts-expect-error: a search has no verdict
      if (item.event.event === "search") void item.event.verdict;
      // @ts-expect-error: no such name
      if (item.event.event === "serach") void 0;
    }
    if (item.type === "end" && item.status === "failed") void item.error.message;
    if (item.type === "truncated") void item.error;
  }
  return text;
}
export const name = (event: KnownEvent): string => {
  switch (event.event) {
    case "search": case "reasoning": case "review": case "query_analysis": case "cache_hit": case "cache_miss": case "retrieval_start":
    case "retrieval_result": case "tool_call": case "tool_result": case "crag_evaluation": case "rerank_result": case "generation_start":
    case "round_start": case "generating": case "thinking": case "retract": case "verification": case "sources": case "queued":
    case "input_requested": case "input_resolved": case "authorization_required": case "authorization_completed": case "structured_result":
    case "graph_explanation": return event.event;
    default: { const never: never = event; return never; }
  }
};
export const last = (items: TurnItem[]) => items.at(-1);
export const transport = new RagwireChatTransport({ api: "/api/chat" });
`,
  });
  const tsc = bin("typescript/bin/tsc");
  for (const how of [["--module", "nodenext"], ["--module", "esnext", "--moduleResolution", "bundler"]]) {
    await run(process.execPath, [tsc, ...STRICT, ...how, "--lib", "es2022,dom,dom.iterable", "main.ts"], { cwd: folder }).catch(({ stdout }) => assert.fail(stdout));
  }
});

test("the transport is a ChatTransport of ai 5, 6 and 7", async () => {
  const file = join(TESTS, "client/transport_types.ts");
  const tsc = [bin("typescript/bin/tsc"), "--strict", "--noEmit", "--skipLibCheck", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom,dom.iterable"];
  await run(process.execPath, [...tsc, file]).catch(({ stdout }) => assert.fail(stdout));
});

test("a fresh Node project, with this Node and with Node 18", { timeout: 120_000 }, async (t) => {
  const server = await startServer();
  t.after(() => server.stop());
  const folder = await project("node", { "main.js": `${PROGRAM}\nconsole.log(await main(process.argv[2]));` });
  const node18 = bin("node18/bin/node");
  assert.match((await run(node18, ["--version"])).stdout, /^v18\./);
  for (const node of [process.execPath, node18]) {
    const proxy = await startProxy(server.url, BROKEN);
    const { stdout, stderr } = await run(node, ["--no-warnings", "main.js", proxy.url], { cwd: folder });
    assert.deepEqual([stdout.trim(), stderr], [SHOWN, ""]);
    assert.ok(proxy.answers.length >= 6, `${proxy.answers.length} connections`);
    await proxy.stop();
  }
});

test("a fresh Deno project reads streams that break, stops a turn, and checks its types", { timeout: 120_000 }, async (t) => {
  const server = await startServer();
  t.after(() => server.stop());
  const stopping = `
let last;
const turn = await ask(Deno.args[1], "fault:silent");
for await (const item of turn) {
  if (item.type === "event") await turn.stop();
  last = item;
}
console.log(last?.type === "end" && last.status);
`;
  const types = `
import { type EndItem, type EventItem, ask } from "@ragwire/client";

const turn = await ask("https://host", "Why?");
const ends: EndItem[] = [], searches: string[] = [];
for await (const item of turn) {
  if (item.type === "end") ends.push(item);
  if (item.type === "event" && item.event.event === "search") searches.push(item.event.tool);
}
`;
  const folder = await project("deno", {
    "main.js": `${PROGRAM}\nconsole.log(await main(Deno.args[0]));\n${stopping}`,
    "types.ts": types,
    "wrong.ts": types.replace("item.event.tool", "item.event.verdict"),
  });
  const deno = (...args) => run(bin("@deno/linux-x64-glibc/deno"), args, { cwd: folder, env: { ...process.env, NO_COLOR: "1", DENO_DIR: join(folder, ".deno"), DENO_NO_UPDATE_CHECK: "1" } });
  const proxy = await startProxy(server.url, BROKEN);
  t.after(proxy.stop);
  // No rights but to the server: the package reads no file and no variable.
  const { stdout } = await deno("run", "--no-prompt", "--node-modules-dir=manual", `--allow-net=${new URL(proxy.url).hostname},127.0.0.1`, "main.js", proxy.url, server.url);
  assert.deepEqual(stdout.trim().split("\n"), [SHOWN, "stopped"]);
  assert.ok(proxy.answers.length >= 6, `${proxy.answers.length} connections`);
  await deno("check", "--node-modules-dir=manual", "types.ts").catch(({ stderr }) => assert.fail(stderr));
  await assert.rejects(deno("check", "--node-modules-dir=manual", "wrong.ts"), /verdict/);
});

test("the package's own tests pass with Node 18", { timeout: 300_000 }, async () => {
  const tests = ["events", "stream", "turn", "vectors"].map((name) => `test/${name}.test.js`);
  // Without the variable by which this runner makes its children write its own format.
  const { NODE_TEST_CONTEXT: _, ...env } = process.env;
  const { stdout } = await run(bin("node18/bin/node"), ["--test", ...tests], { cwd: PACKAGE, env, maxBuffer: 2 ** 26 }).catch(({ stdout }) => assert.fail(stdout));
  assert.match(stdout, /^# fail 0$/m);
});

test("a fresh Vite project, built and shown by Chromium", { timeout: 120_000 }, async (t) => {
  const folder = await project("vite", {
    "index.html": '<!doctype html><title>-</title><body><script type="module" src="/main.js"></script></body>',
    "main.js": `${PROGRAM}\nmain("").then((shown) => (document.title = shown), (error) => (document.title = String(error)));`,
  });
  await vite.build({ root: folder, logLevel: "error", configFile: false });
  const server = await startServer();
  t.after(() => server.stop());
  // The page and the server under one origin, whose connections break.
  const proxy = await startProxy(server.url, BROKEN);
  t.after(proxy.stop);
  const types = { html: "text/html", js: "text/javascript" };
  const site = http.createServer((request, response) => {
    if (!request.url.startsWith("/v1/")) {
      const path = request.url === "/" ? "/index.html" : request.url;
      const file = join(folder, "dist", path);
      if (!existsSync(file)) return response.writeHead(404).end();
      return response.writeHead(200, { "content-type": types[path.split(".").pop()] ?? "text/plain" }).end(readFileSync(file));
    }
    // It is the origin of the page, so the server has to see neither.
    const { host: _, origin: __, ...headers } = request.headers;
    const passed = http.request(proxy.url + request.url, { method: request.method, headers, agent: false }, (reply) => {
      response.writeHead(reply.statusCode, reply.headers);
      reply.pipe(response);
      reply.on("error", () => response.destroy());
    });
    passed.on("error", () => response.destroy());
    request.pipe(passed);
  });
  await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
  t.after(() => (site.closeAllConnections(), new Promise((resolve) => site.close(resolve))));
  const browser = await chromium.launch({ executablePath: process.env.TEST_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
  t.after(() => browser.close());
  const page = await browser.newPage();
  await page.goto(`http://127.0.0.1:${site.address().port}/`);
  await page.waitForFunction(() => document.title !== "-", null, { timeout: 60_000 });
  assert.equal(await page.title(), SHOWN);
  assert.ok(proxy.answers.length >= 6, `${proxy.answers.length} connections`);
});
