// Every block of the README files, used as a reader would: Rust and its dependencies pasted into an empty package,
// TypeScript through `tsc --strict`, commands run or their arguments checked, transcripts compared with the server.
import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { BINARY, startServer } from "./harness.js";

const run = promisify(execFile);
const HERE = fileURLToPath(new URL(".", import.meta.url));
const ROOT = join(HERE, "../..");
const WORK = join(ROOT, "target/readme");
/** What a dependency's name means until it is published. */
const PACKAGES = Object.fromEntries([
  ["ragwire", ROOT],
  ...["ragwire-endpoints", "ragwire-rag"].map((name) => [name, join(ROOT, "crates", name)]),
]);
const PAGES = ["README.md", "crates/ragwire-endpoints/README.md", "crates/ragwire-rag/README.md", "crates/ragwire-server/README.md", "clients/js/README.md"];

/** The fenced blocks of a page: {language, code, line}. */
function blocks(page) {
  const found = [];
  let block = null;
  readFileSync(join(ROOT, page), "utf8")
    .split("\n")
    .forEach((text, index) => {
      const fence = /^```(.*)$/.exec(text);
      if (!fence) block?.lines.push(text);
      else if (block) {
        found.push({ language: block.language, code: block.lines.join("\n") + "\n", line: block.line });
        block = null;
      } else block = { language: fence[1], lines: [], line: index + 2 };
    });
  assert.equal(block, null, `${page}: a block is not closed`);
  return found;
}

const of = (page, ...languages) => blocks(page).filter(({ language }) => languages.includes(language));

/** The commands of a shell block, without comments; a line that ends in `\` continues on the next one. */
function commands(code) {
  return code
    .replaceAll(/\\\n\s*/g, " ")
    .split("\n")
    .map((line) => line.replace(/(^|\s)#\s.*$/, "").trim())
    .filter((line) => line !== "");
}

/** The words of a command: quotes group, `~` is some folder. */
function words(command) {
  return [...command.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map((m) => m[1] ?? m[2] ?? m[3]);
}

let server;
let workspace;
before(async () => {
  server = await startServer();
  const { stdout } = await run("cargo", ["metadata", "--no-deps", "--format-version", "1"], {
    cwd: ROOT,
    maxBuffer: 2 ** 26,
  });
  workspace = JSON.parse(stdout).packages;
  rmSync(WORK, { recursive: true, force: true });
});
after(async () => assert.equal(await server.stop(), 0));

/** A port below those that the system assigns to other tests while the program is built: see tests/support/ports.py. */
async function freePort() {
  for (;;) {
    const port = randomInt(20_000, 32_000);
    const socket = net.createServer();
    const isFree = await new Promise((resolve) => {
      socket.once("error", () => resolve(false));
      socket.listen(port, "127.0.0.1", () => socket.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}

/** Builds a package of its own from the page's dependencies and `code`, and returns its program. */
async function build(name, dependencies, code) {
  const folder = join(WORK, name);
  mkdirSync(join(folder, "src"), { recursive: true });
  const patches = Object.entries(PACKAGES)
    .filter(([dependency]) => new RegExp(`^${dependency} *=`, "m").test(dependencies))
    .map(([dependency, path]) => `${dependency} = { path = ${JSON.stringify(path)} }\n`)
    .join("");
  // With the profiles of the workspace, so that what it built is not built again.
  const sections = readFileSync(join(ROOT, "Cargo.toml"), "utf8").split(/^(?=\[)/m);
  const profiles = sections.filter((section) => section.startsWith("[profile.")).join("");
  const manifest = `[package]\nname = "${name}"\nedition = "2024"\n\n${dependencies}
[workspace]\n\n[patch.crates-io]\n${patches}\n${profiles}`;
  writeFileSync(join(folder, "Cargo.toml"), manifest);
  // With its versions too, and in its target folder.
  cpSync(join(ROOT, "Cargo.lock"), join(folder, "Cargo.lock"));
  writeFileSync(join(folder, "src/main.rs"), code);
  const target = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target");
  await run("cargo", ["build", "--quiet", "--target-dir", target], { cwd: folder, maxBuffer: 2 ** 26 });
  return join(target, "debug", name);
}

for (const page of PAGES.filter((page) => of(page, "rust").length > 0)) {
  test(`${page}: each Rust block is a program with the dependencies that the page names`, async () => {
    const dependencies = of(page, "toml");
    assert.equal(dependencies.length, 1, "one block names the dependencies");
    for (const { code, line } of of(page, "rust")) {
      assert.doesNotMatch(code, /^# |^#$/m, `line ${line}: a line is hidden from readers of rustdoc only`);
      const port = await freePort();
      const name = `readme-${PAGES.indexOf(page)}-${line}`;
      const program = await build(name, dependencies[0].code, code.replaceAll("127.0.0.1:8080", `127.0.0.1:${port}`));
      const asks = of(page, "sh").flatMap(({ code }) => commands(code)).filter((c) => c.includes("localhost:8080"));
      if (!code.includes("127.0.0.1")) assert.notEqual((await run(program)).stdout.trim(), "", `line ${line}`);
      if (!code.includes("127.0.0.1:8080")) continue;
      assert.notEqual(asks.length, 0, "a server that nobody asks");
      const child = spawn(program, { stdio: "ignore" });
      try {
        for (const ask of asks) assert.ok((await curl(ask, `localhost:${port}`)).length > 0, ask);
      } finally {
        child.kill();
      }
    }
  });
}

/** Runs a `curl` command against `host`, with retries while the server starts. */
async function curl(command, host) {
  const args = words(command.replaceAll(/(?:localhost|127\.0\.0\.1):\d+/g, host)).slice(1);
  for (let attempt = 0; ; attempt += 1) {
    try {
      return (await run("curl", ["--silent", "--show-error", "--fail", ...args])).stdout;
    } catch (error) {
      if (error.code !== 7 || attempt === 50) throw error;
      await sleep(100);
    }
  }
}

/** The value behind an option, or undefined. */
const option = (args, name) => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined);

/** The arguments of a program, up to where its output goes. */
const arguments_of = ([, ...args]) => args.slice(0, args.findIndex((word) => /^>{1,2}$/.test(word)) >>> 0);

/** Checks that what a cargo command names is in the workspace, and that the server takes its arguments. */
async function cargo(command) {
  const [own, passed] = command.split(" -- ");
  const args = words(own);
  const name = option(args, "-p") ?? "ragwire";
  const named = workspace.find((candidate) => candidate.name === name);
  assert.ok(named, `no package ${name}`);
  for (const feature of (option(args, "--features") ?? "").split(",").filter(Boolean)) {
    assert.ok(feature in named.features, `${name} has no feature ${feature}`);
  }
  for (const kind of ["example", "test", "bench"]) {
    const target = option(args, `--${kind}`);
    if (target === undefined) continue;
    assert.ok(
      named.targets.some((candidate) => candidate.name === target && candidate.kind.includes(kind)),
      `${name} has no ${kind} ${target}`,
    );
  }
  if (args[1] === "run" && name === "ragwire-server" && passed) {
    // `--help` is reached only if everything before it is understood.
    await run(BINARY, [...words(passed), "--help"]);
  }
}

for (const page of PAGES.filter((page) => of(page, "sh", "text").length > 0)) {
  test(`${page}: each command exists and takes its arguments`, async () => {
    for (const { code, line } of of(page, "sh")) {
      for (const command of commands(code)) {
        const called = words(command).filter((word) => !/^[A-Z_]+=/.test(word));
        const program = called[0];
        const at = `${page}:${line}: ${command}`;
        if (program === "cargo") await cargo(command).catch((error) => assert.fail(`${at}\n${error.message}`));
        else if (program === "ragwire-server") await run(BINARY, [...arguments_of(called), "--help"]);
        else if (program === "curl") {
          // TURN is the ID of a turn that only a reader has; `fault:` takes a minute; other ports are asked above.
          if (!command.includes("localhost:8787") || command.includes("TURN") || command.includes("fault:")) continue;
          assert.ok((await curl(command, new URL(server.url).host)).length > 0, at);
        } else if (program.includes("/")) assert.ok(existsSync(join(ROOT, program)), at);
        else assert.ok(["npm", "redis-server"].includes(program), `${at}: who has that?`);
      }
    }
  });
}

test("README.md: the transcript is what the server answers", async () => {
  const [transcript] = of("README.md", "text").filter(({ code }) => code.startsWith("$ curl"));
  const [command, ...shown] = commands(transcript.code.slice(2));
  const answered = (await curl(command, new URL(server.url).host)).split("\n");
  let next = 0;
  for (const line of shown) {
    const pieces = line.split("…");
    const fits = (answer) => {
      let at = 0;
      return pieces.every((piece, index) => {
        const found = answer.indexOf(piece, at);
        at = found + piece.length;
        return found >= 0 && (index > 0 || found === 0);
      });
    };
    const found = answered.slice(next).findIndex(fits);
    assert.ok(found >= 0, `not answered: ${line}\n${answered.join("\n")}`);
    next += found + 1;
  }
  assert.equal(answered[next], "", "the transcript ends with the answer");
});

test("each TypeScript block passes tsc --strict", async () => {
  const folder = join(WORK, "typescript");
  mkdirSync(join(folder, "node_modules/@ragwire"), { recursive: true });
  symlinkSync(join(ROOT, "clients/js"), join(folder, "node_modules/@ragwire/client"));
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }\n');
  const files = PAGES.flatMap((page, number) =>
    of(page, "ts").map(({ code, line }) => {
      const file = `page-${number}-line-${line}.ts`;
      writeFileSync(join(folder, file), code);
      return file;
    }),
  );
  assert.notEqual(files.length, 0);
  const strict = ["--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--lib", "es2022,dom,dom.iterable"];
  const tsc = join(HERE, "node_modules/typescript/bin/tsc");
  await run(process.execPath, [tsc, ...strict, ...files], { cwd: folder }).catch(({ stdout }) => assert.fail(stdout));
});

test("each JSON block is JSON", () => {
  const texts = PAGES.flatMap((page) => of(page, "json"));
  assert.notEqual(texts.length, 0);
  for (const { code } of texts) JSON.parse(code);
});

test("no page has a block in a language that nothing checks", () => {
  // Python is checked with the wheel, by clients/python/tests/test_readme.py.
  const known = ["rust", "toml", "sh", "text", "ts", "json", "python"];
  for (const page of PAGES) {
    for (const { language, line } of blocks(page)) assert.ok(known.includes(language), `${page}:${line}: ${language}`);
  }
});
