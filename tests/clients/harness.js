// Starts the reference server, and a proxy that damages the connection to it.
import { spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { stopAtEnd } from "./left_open.js";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const TARGET = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target");
/** The reference server, built by `cargo build -p ragwire-server`. */
export const BINARY = process.env.TEST_SERVER ?? join(TARGET, "debug/ragwire-server");

/**
 * Starts a server on a free port, with the sample library; `stop()` ends it and removes its data. Without `faults`,
 * questions such as `fault:text` reach its orchestrator.
 */
export async function startServer({ args = [], faults = true } = {}) {
  const data = mkdtempSync(join(tmpdir(), "ragwire-"));
  const all = ["serve", "--listen", "127.0.0.1:0", "--data", data, "--graph", ...(faults ? ["--test-faults"] : []), ...args];
  const child = spawn(BINARY, all, {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const url = await new Promise((resolve, reject) => {
    const look = (bytes) => {
      output += bytes;
      // It listens before its library is filled.
      const found = /answers at (http:\/\/127\.0\.0\.1:\d+)/.exec(output);
      if (found) resolve(found[1]);
    };
    child.stdout.on("data", look);
    child.stderr.on("data", look);
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`server ended with ${code}:\n${output}`)));
  });
  const ended = new Promise((resolve) => child.on("exit", (code) => resolve(code)));
  const stop = async () => {
    child.kill("SIGTERM");
    const code = await ended;
    rmSync(data, { recursive: true, force: true });
    return code;
  };
  stopAtEnd(stop);
  return { url, stream: `${url}/v1/rag/sessions/test/messages/stream`, child, ended, stop };
}

/** A question as the frontend of ADR 0007 sends it. */
export function ask(prompt) {
  return {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt }),
  };
}

/**
 * An address of this machine for one proxy alone. The thousands of proxies of a run leave closed connections behind that
 * hold their ports for a minute: on one address the ports run out. On its own address a proxy also gets no connection
 * that was meant for a server which had the port before. Only Linux answers at all of 127.0.0.0/8.
 */
function ownAddress() {
  if (process.platform !== "linux") return "127.0.0.1";
  const part = () => randomInt(1, 255);
  return `127.${part()}.${part()}.${part()}`;
}

/**
 * A TCP proxy to `url`. `byteAtATime` writes each byte of the answer separately; `cutAfter` breaks
 * the connection after that many bytes of the answer, including headers; `cut()` breaks all
 * connections at once. With `http10` the proxy uses HTTP/1.0 to the server, as nginx does by
 * default: a body has no length there, so a cut looks like its end. `hurts(head)` decides from a
 * request's first bytes whether its connection is damaged at all. `answers` has for each connection
 * the request's `head`, the bytes that `came` from the server and those that `passed`.
 */
export async function startProxy(
  url,
  { byteAtATime = false, cutAfter = Infinity, http10 = false, hurts = () => true } = {},
) {
  const { hostname, port } = new URL(url);
  const open = new Set();
  const answers = [];
  const server = net.createServer((client) => {
    const upstream = net.connect(Number(port), hostname);
    const answer = { head: "", came: [], passed: [] };
    let passed = 0;
    let [limit, bytewise] = [Infinity, false];
    // The end of the server's connection is passed on at once, even while earlier bytes are written
    // one by one.
    let [writing, ended] = [false, false];
    const finish = () => ended && !writing && client.end();
    open.add(client);
    answers.push(answer);
    client.setNoDelay(true);
    client.once("data", (bytes) => {
      answer.head = bytes.toString("latin1");
      if (hurts(answer.head)) [limit, bytewise] = [cutAfter, byteAtATime];
      // All clients here send a request's head in one piece, or at least its first line.
      upstream.write(http10 ? Buffer.from(answer.head.replace(" HTTP/1.1\r\n", " HTTP/1.0\r\n"), "latin1") : bytes);
      client.pipe(upstream);
    });
    upstream.on("data", async (bytes) => {
      upstream.pause();
      writing = true;
      answer.came.push(bytes);
      const allowed = bytes.subarray(0, Math.max(0, limit - passed));
      passed += allowed.length;
      const size = bytewise ? 1 : allowed.length;
      for (let at = 0; at < allowed.length; at += size) {
        client.write(allowed.subarray(at, at + size));
        // One turn of the event loop between two writes, so that they are not joined again.
        if (bytewise) await new Promise(setImmediate);
      }
      answer.passed.push(allowed);
      writing = false;
      if (passed >= limit) {
        upstream.destroy();
        client.end();
      } else {
        upstream.resume();
        finish();
      }
    });
    upstream.on("end", () => {
      ended = true;
      finish();
    });
    for (const socket of [client, upstream]) socket.on("error", () => (client.destroy(), upstream.destroy()));
    client.on("close", () => (open.delete(client), upstream.destroy()));
  });
  const address = ownAddress();
  await new Promise((resolve, reject) => server.once("error", reject).listen(0, address, resolve));
  const proxied = new URL(url);
  proxied.hostname = address;
  proxied.port = server.address().port;
  const cut = () => open.forEach((client) => client.destroy());
  const stop = () => (cut(), new Promise((resolve) => server.close(resolve)));
  stopAtEnd(stop);
  return { url: proxied.href.replace(/\/$/, ""), answers, cut, stop };
}
