// Clients in a separate process, one for the whole run. Jobs go in and records come out as lines of
// JSON.
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const running = [];

/** Ends all processes, whatever they are waiting for. */
export function stopProcesses() {
  for (const child of running.splice(0)) child.kill();
}

/** A process that is started with the first job; `ask(job)` returns its answer. */
export class ClientProcess {
  #command;
  #script;
  #child;
  #last = 0;
  #waiting = new Map();

  constructor(command, script) {
    this.#command = command;
    this.#script = fileURLToPath(new URL(`../${script}`, import.meta.url));
  }

  #start() {
    this.#child = spawn(this.#command, [this.#script], { stdio: ["pipe", "pipe", "inherit"] });
    running.push(this.#child);
    let rest = "";
    // Not `readline`, which also splits at U+2028 and U+2029; these may occur in JSON.
    this.#child.stdout.setEncoding("utf8").on("data", (text) => {
      const lines = (rest + text).split("\n");
      rest = lines.pop();
      for (const line of lines) this.#answer(JSON.parse(line));
    });
    this.#child.on("exit", (code) => {
      for (const { reject } of this.#waiting.values()) reject(new Error(`${this.#script} ended with ${code}`));
    });
  }

  #answer({ id, seen }) {
    this.#waiting.get(id).resolve(seen);
    this.#waiting.delete(id);
  }

  ask(job) {
    return new Promise((resolve, reject) => {
      if (!this.#child) this.#start();
      this.#last += 1;
      this.#waiting.set(this.#last, { resolve, reject });
      this.#child.stdin.write(`${JSON.stringify({ id: this.#last, ...job })}\n`);
    });
  }
}
