// The Python clients of reader.py, in one process for the whole run.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const PYTHON = process.env.TEST_PYTHON ?? "python3";
const SCRIPT = fileURLToPath(new URL("../reader.py", import.meta.url));

let child;
let last = 0;
const waiting = new Map();

function start() {
  child = spawn(PYTHON, [SCRIPT], { stdio: ["pipe", "pipe", "inherit"] });
  createInterface({ input: child.stdout }).on("line", (line) => {
    const { id, seen } = JSON.parse(line);
    waiting.get(id).resolve(seen);
    waiting.delete(id);
  });
  child.on("exit", (code) => {
    for (const { reject } of waiting.values()) reject(new Error(`the Python reader ended with ${code}`));
  });
}

/** What `client` of reader.py sees. */
export function python(client) {
  return (url, prompt) =>
    new Promise((resolve, reject) => {
      if (!child) start();
      last += 1;
      waiting.set(last, { resolve, reject });
      child.stdin.write(`${JSON.stringify({ id: last, client, url, prompt })}\n`);
    });
}

/** Ends the process, if there is one. */
export function stopPython() {
  child?.stdin.end();
}
