// Starts the reference server, and a proxy that hurts the bytes in between.
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const TARGET = process.env.CARGO_TARGET_DIR ?? join(ROOT, "target");
const BINARY = process.env.TEST_SERVER ?? join(TARGET, "debug/ragwire-server");

/** Starts a server of its own on a free port, with the sample library; `stop()` ends it and removes its data. */
export async function startServer({ args = [] } = {}) {
  const data = mkdtempSync(join(tmpdir(), "ragwire-"));
  const child = spawn(BINARY, ["serve", "--listen", "127.0.0.1:0", "--data", data, "--test-faults", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const url = await new Promise((resolve, reject) => {
    const look = (bytes) => {
      output += bytes;
      const found = /http:\/\/127\.0\.0\.1:\d+/.exec(output);
      if (found) resolve(found[0]);
    };
    child.stdout.on("data", look);
    child.stderr.on("data", look);
    child.on("error", reject);
    child.on("exit", (code) => reject(new Error(`server ended with ${code}:\n${output}`)));
  });
  const ended = new Promise((resolve) => child.on("exit", (code) => resolve(code)));
  return {
    url,
    stream: `${url}/v1/rag/sessions/test/messages/stream`,
    child,
    ended,
    async stop() {
      child.kill("SIGTERM");
      const code = await ended;
      rmSync(data, { recursive: true, force: true });
      return code;
    },
  };
}

/** A question as the ADR's frontend asks it. */
export function ask(prompt) {
  return {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt }),
  };
}

/**
 * A TCP proxy to `url`. `byteAtATime` writes each byte of the answer on its own; `cutAfter` breaks the connection after so many
 * bytes of the answer, headers included; `cut()` breaks all connections at once.
 */
export async function startProxy(url, { byteAtATime = false, cutAfter = Infinity } = {}) {
  const { hostname, port } = new URL(url);
  const open = new Set();
  const server = net.createServer((client) => {
    const upstream = net.connect(Number(port), hostname);
    let passed = 0;
    open.add(client);
    client.setNoDelay(true);
    client.pipe(upstream);
    upstream.on("data", async (bytes) => {
      upstream.pause();
      const allowed = bytes.subarray(0, Math.max(0, cutAfter - passed));
      passed += allowed.length;
      const size = byteAtATime ? 1 : allowed.length;
      for (let at = 0; at < allowed.length; at += size) {
        client.write(allowed.subarray(at, at + size));
        // A turn of the event loop between two writes, so that they are not put together again.
        if (byteAtATime) await new Promise(setImmediate);
      }
      if (passed >= cutAfter) {
        upstream.destroy();
        client.end();
      } else {
        upstream.resume();
      }
    });
    upstream.on("end", () => client.end());
    for (const socket of [client, upstream]) socket.on("error", () => (client.destroy(), upstream.destroy()));
    client.on("close", () => (open.delete(client), upstream.destroy()));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const proxied = new URL(url);
  proxied.port = server.address().port;
  const cut = () => open.forEach((client) => client.destroy());
  const stop = () => (cut(), new Promise((resolve) => server.close(resolve)));
  return { url: proxied.href.replace(/\/$/, ""), cut, stop };
}
