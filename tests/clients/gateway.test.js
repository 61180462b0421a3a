// The server in front of the services of examples/gateway, asked by published clients: they show the retrieval, the
// text and the citations of a service that has no line of our code.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { HttpAgent } from "@ag-ui/client";
import * as ai from "ai";
import OpenAI from "openai";
import { startServer } from "./harness.js";
import { chatOf } from "./wires/chat.js";

const EXAMPLES = fileURLToPath(new URL("../../examples/gateway", import.meta.url));
const PYTHON = process.env.TEST_PYTHON ?? "python3";
const PROMPT = "What is the commit rule?";
const ANSWER = "The status of a response is decided by its first frame.";

/** Starts a service and returns its address once it prints one. */
async function startService(program, args, env = {}) {
  const child = spawn(program, args, { cwd: EXAMPLES, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
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
    child.on("exit", (code) => reject(new Error(`the service ended with ${code}:\n${output}`)));
  });
  return {
    url: `${url}/ask`,
    async stop() {
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    },
  };
}

const SERVICES = {
  "a Node service": () => startService(process.execPath, ["service.js"], { PORT: "0" }),
  "FastAPI and LangGraph": () =>
    startService(PYTHON, ["-m", "uvicorn", "langgraph_service:app", "--port", "0", "--host", "127.0.0.1"]),
};

for (const [name, start] of Object.entries(SERVICES)) {
  describe(name, () => {
    let service, server;
    before(async () => {
      service = await start();
      server = await startServer({ args: ["--orchestrator", service.url] });
    });
    after(async () => {
      if (server) assert.equal(await server.stop(), 0);
      await service?.stop();
    });

    test("JSON lines", async () => {
      const response = await fetch(`${server.url}/v1/turns`, {
        method: "POST",
        headers: { "content-type": "application/json", accept: "application/x-ndjson" },
        body: JSON.stringify({ prompt: PROMPT }),
      });
      assert.equal(response.status, 200);
      const frames = (await response.text()).trim().split("\n").map((line) => JSON.parse(line));
      const names = frames.flatMap(({ event }) => event ?? []);
      assert.deepEqual(names.slice(0, 2), ["retrieval_start", "retrieval_result"]);
      assert.equal(frames.map(({ text }) => text ?? "").join("").trim(), ANSWER);
      assert.equal(frames.at(-1).end, "completed");
      assert.equal(frames.at(-1).metadata.citations[0].document_id, "commit");
    });

    test("npm openai", async () => {
      const client = new OpenAI({ apiKey: "x", baseURL: `${server.url}/v1`, maxRetries: 0 });
      const messages = [{ role: "user", content: PROMPT }];
      let text = "";
      for await (const chunk of await client.chat.completions.create({ model: "ragwire", messages, stream: true })) {
        text += chunk.choices[0]?.delta.content ?? "";
      }
      assert.equal(text.trim(), ANSWER);
    });

    test("useChat of npm ai", async () => {
      const Chat = chatOf(ai);
      const chat = new Chat({
        id: crypto.randomUUID(),
        transport: new ai.DefaultChatTransport({ api: `${server.url}/api/chat` }),
      });
      await chat.sendMessage({ text: PROMPT });
      assert.equal(chat.error, undefined);
      const { parts } = chat.lastMessage;
      const text = parts.filter(({ type }) => type === "text").map(({ text }) => text);
      assert.equal(text.join("").trim(), ANSWER);
      assert.ok(parts.some(({ type }) => type.startsWith("source-")), "the citation is a source");
    });

    test("AG-UI", async () => {
      const agent = new HttpAgent({ url: `${server.url}/ag-ui` });
      agent.addMessage({ id: "1", role: "user", content: PROMPT });
      await agent.runAgent({});
      const said = agent.messages.filter(({ role, content }) => role === "assistant" && content);
      assert.equal(said.map(({ content }) => content).join("").trim(), ANSWER);
    });

    test("a session is the server's", async () => {
      for (const prompt of [PROMPT, "And the journal?"]) {
        const response = await fetch(server.stream, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ prompt }),
        });
        assert.equal(response.status, 200);
        await response.text();
      }
    });

    test("there are no documents", async () => {
      const response = await fetch(`${server.url}/v1/documents`);
      assert.equal(response.status, 404);
      assert.equal((await response.json()).error.code, "no_library");
    });
  });
}

test("a child process", async () => {
  const server = await startServer({ args: ["--orchestrator", `exec:${PYTHON} '${EXAMPLES}/worker.py'`] });
  const response = await fetch(`${server.url}/v1/turns`, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/x-ndjson" },
    body: JSON.stringify({ prompt: PROMPT }),
  });
  const frames = (await response.text()).trim().split("\n").map((line) => JSON.parse(line));
  assert.equal(frames.map(({ text }) => text ?? "").join("").trim(), `You asked: ${PROMPT}`);
  assert.equal(await server.stop(), 0);
});
