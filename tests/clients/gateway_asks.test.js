// Questions to a human behind the gateway, with published clients on both sides: `streamText` of npm `ai` answers, with
// a tool that needs an approval, and AG-UI's own encoder writes an interrupt; `Chat` of npm `ai` and `HttpAgent` of
// `@ag-ui/client` show the question and answer it. No line on either side is ours.
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { buildResumeArray, EventType, HttpAgent } from "@ag-ui/client";
import { EventEncoder } from "@ag-ui/encoder";
import * as ai from "ai";
import { MockLanguageModelV3, simulateReadableStream } from "ai/test";
import { z } from "zod";
import { startServer } from "./harness.js";
import { chatOf } from "./wires/chat.js";

const BEFORE = "Three files are old.";
const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** What the model writes: first a call, and once it sees the call's outcome, a sentence about it. */
const model = new MockLanguageModelV3({
  doStream: async ({ prompt }) => {
    const outcome = prompt.at(-1).role === "tool" ? JSON.stringify(prompt.at(-1).content) : undefined;
    const reply = outcome?.includes('"deleted":3') ? "They are deleted." : "They are left alone.";
    const said = (text) => [
      { type: "text-start", id: "1" },
      { type: "text-delta", id: "1", delta: text },
      { type: "text-end", id: "1" },
    ];
    const call = { type: "tool-call", toolCallId: "c", toolName: "delete_files", input: '{"files":3}' };
    const finish = (unified) => ({ type: "finish", finishReason: { unified, raw: unified }, usage });
    const chunks = outcome ? [...said(reply), finish("stop")] : [...said(BEFORE), call, finish("tool-calls")];
    return { stream: simulateReadableStream({ chunks: [{ type: "stream-start", warnings: [] }, ...chunks] }) };
  },
});
const tools = {
  delete_files: ai.tool({
    inputSchema: z.object({ files: z.number() }),
    needsApproval: true,
    execute: async ({ files }) => ({ deleted: files }),
  }),
};

/** The route of npm `ai`'s own documentation. */
async function aiSdk({ messages }, response) {
  const result = ai.streamText({ model, tools, messages: await ai.convertToModelMessages(messages) });
  result.pipeUIMessageStreamToResponse(response, { originalMessages: messages });
}

/** An AG-UI agent that ends its run at an interrupt. */
async function agUi(body, response) {
  const { threadId, runId, resume } = body;
  const encoder = new EventEncoder();
  const [answer] = resume ?? [];
  const text = answer ? (answer.payload?.approved ? "They are deleted." : "They are left alone.") : BEFORE;
  const interrupt = {
    id: "delete",
    reason: "confirmation",
    message: "Delete them?",
    responseSchema: { type: "object", properties: { approved: { type: "boolean" } } },
  };
  const outcome = answer ? { type: "success" } : { type: "interrupt", interrupts: [interrupt] };
  response.writeHead(200, { "content-type": encoder.getContentType() });
  for (const event of [
    { type: EventType.RUN_STARTED, threadId, runId },
    { type: EventType.TEXT_MESSAGE_START, messageId: runId, role: "assistant" },
    { type: EventType.TEXT_MESSAGE_CONTENT, messageId: runId, delta: text },
    { type: EventType.TEXT_MESSAGE_END, messageId: runId },
    { type: EventType.RUN_FINISHED, threadId, runId, outcome },
  ]) {
    response.write(encoder.encode(event));
  }
  response.end();
}

async function startUpstream(answer) {
  const requests = [];
  const service = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    requests.push(JSON.parse(body));
    try {
      await answer(requests.at(-1), response);
    } catch (error) {
      response.writeHead(500).end(String(error));
    }
  }).listen(0, "127.0.0.1");
  await once(service, "listening");
  const stop = () => {
    service.closeAllConnections();
    service.close();
  };
  return { url: `http://127.0.0.1:${service.address().port}/ask`, requests, stop };
}

async function until(is, what) {
  for (let wait = 0; !is(); wait += 1) {
    assert.ok(wait < 500, what());
    await sleep(20);
  }
}

for (const [wire, answer] of Object.entries({ ai_sdk: aiSdk, ag_ui: agUi })) {
  describe(`an orchestrator of ${wire}`, () => {
    let upstream, server;
    before(async () => {
      upstream = await startUpstream(answer);
      server = await startServer({ args: ["--orchestrator", upstream.url, "--orchestrator-wire", wire], faults: false });
    });
    after(async () => {
      if (server) assert.equal(await server.stop(), 0);
      upstream?.stop();
    });

    for (const [approved, reply] of [
      [true, "They are deleted."],
      [false, "They are left alone."],
    ]) {
      const given = approved ? "approval" : "refusal";

      test(`useChat: ${given}`, async () => {
        const asked = upstream.requests.length;
        const Chat = chatOf(ai);
        const chat = new Chat({
          id: crypto.randomUUID(),
          transport: new ai.DefaultChatTransport({
            api: `${server.url}/api/chat`,
            headers: { "x-ragwire-approvals": "true" },
          }),
          sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses,
        });
        await chat.sendMessage({ text: "Tidy up." });
        const question = () => chat.lastMessage.parts.find(({ toolName }) => toolName === "ask_question");
        assert.deepEqual([chat.status, question()?.state], ["ready", "approval-requested"], JSON.stringify(chat.lastMessage));
        assert.equal(upstream.requests.length, asked + 1);
        await chat.addToolApprovalResponse({ id: question().approval.id, approved });
        const text = () =>
          chat.lastMessage.parts
            .flatMap((part) => (part.type === "text" ? part.text : []))
            .join(" ")
            .replace(/\s+/g, " ")
            .trim();
        await until(() => chat.status === "ready" && text() === `${BEFORE} ${reply}`, () => `${chat.error ?? chat.status}: ${JSON.stringify(chat.lastMessage.parts)}`);
        assert.deepEqual([chat.error, chat.messages.length], [undefined, 2]);
        assert.equal(upstream.requests.length, asked + 2);
      });

      test(`HttpAgent: ${given}`, async () => {
        const asked = upstream.requests.length;
        const agent = new HttpAgent({ url: `${server.url}/ag-ui`, threadId: crypto.randomUUID() });
        agent.addMessage({ id: "u", role: "user", content: "Tidy up." });
        await agent.runAgent({});
        const [{ id, responseSchema }, ...others] = agent.pendingInterrupts;
        assert.deepEqual(others, []);
        const payload = responseSchema.enum[approved ? 0 : 1];
        await agent.runAgent({ resume: buildResumeArray(agent.pendingInterrupts, { [id]: { status: "resolved", payload } }) });
        assert.deepEqual(agent.pendingInterrupts, []);
        const said = agent.messages.flatMap(({ role, content }) => (role === "assistant" && content ? content : []));
        assert.equal(said.join(" ").replace(/\s+/g, " ").trim(), `${BEFORE} ${reply}`);
        assert.equal(upstream.requests.length, asked + 2);
      });
    }
  });
}
