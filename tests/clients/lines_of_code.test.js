// The table "Lines of code" of docs/wires.md, counted in the examples. UPDATE_DOCS=1 writes it.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";

const ROOT = new URL("../../", import.meta.url);
const PAGE = new URL("docs/wires.md", ROOT);

/** What a user writes, and the example that has it. */
const WAYS = [
  ["one route in an axum server, with the answer", "examples/axum_chat.rs"],
  ["the same in a bare hyper server", "examples/hyper_chat.rs"],
  ["one route that survives a reload", "examples/resumable_chat.rs"],
  ["every protocol, with the answer", "crates/ragwire-endpoints/examples/endpoints.rs"],
  ["the answer from `async-openai`", "examples/upstream/src/with_async_openai.rs"],
  ["the answer from Rig", "examples/upstream/src/with_rig.rs"],
  ["own documents with the pipeline", "crates/ragwire-rag/examples/rag_chat.rs"],
  ["a LangGraph service behind the gateway", "examples/gateway/langgraph_service.py"],
  ["a Node service behind the gateway", "examples/gateway/service.js"],
  ["a Python process behind the gateway", "examples/gateway/worker.py"],
  ["every protocol in a Python server", "clients/python/examples/evidence.py"],
];

/** Counts the lines with code: neither empty nor a comment, and outside of a module's docstring. */
export function linesOfCode(text, path) {
  const source = path.endsWith(".py") ? text.replace(/^(#!.*\n)?\s*"""[^]*?"""/, "") : text;
  const comment = path.endsWith(".py") ? /^\s*#/ : /^\s*(\/\/|\/\*|\*)/;
  return source.split("\n").filter((line) => line.trim() && !comment.test(line)).length;
}

test("comments, docstrings and empty lines are not code", () => {
  assert.equal(linesOfCode("//! A\n\nuse a;\n// b\nfn c() {} // d\n", "a.rs"), 2);
  assert.equal(linesOfCode('"""A\nb\n"""\n\n# c\nimport d\n', "a.py"), 1);
});

test("docs/wires.md counts the lines of each way in", () => {
  const rows = WAYS.map(([what, path]) => {
    const count = linesOfCode(readFileSync(new URL(path, ROOT), "utf8"), path);
    return `| ${what} | [\`${path.split("/").at(-1)}\`](../${path}) | ${count} |`;
  });
  const table = ["| what a user writes | example | lines |", "|---|---|---|", ...rows].join("\n");
  const page = readFileSync(PAGE, "utf8");
  const written = /(## Lines of code\n\n[^|]+)(\|[^]*?\|)(?=\n\n)/;
  assert.match(page, written);
  const updated = page.replace(written, (_, text) => text + table);
  if (process.env.UPDATE_DOCS) writeFileSync(PAGE, updated);
  else assert.equal(page, updated, "UPDATE_DOCS=1 writes the table");
});
