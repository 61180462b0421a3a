// The vectors of the AI SDK's wire, read by the three published major versions of `ai`.
import assert from "node:assert/strict";
import { test } from "node:test";
import * as ai6 from "ai";
import * as ai5 from "ai5";
import * as ai7 from "ai7";
import { chatOf } from "./chat.js";
import { parks, serve, vectors } from "./vectors.js";

const CLIENTS = { "ai 5.0.277": ai5, "ai 6.0.322": ai6, "ai 7.0.173": ai7 };
// asks.test.js reads the vectors with questions.
const VECTORS = new Map([...vectors("ai_sdk")].filter(([, vector]) => !parks(vector)));
const HEADERS = { "content-type": "text/event-stream", "x-vercel-ai-ui-message-stream": "v1" };
const MESSAGES = [{ id: "1", role: "user", parts: [{ type: "text", text: "Why?" }] }];
const FALLBACK = "I hit an internal error while gathering evidence. Please retry.";

/** What the client shows at the end, and the errors it reported. */
async function read(ai, chunks, options) {
  const server = await serve(chunks, { headers: HEADERS, ...options });
  const errors = [];
  let message;
  let thrown;
  try {
    const chat = new ai.DefaultChatTransport({ api: server.url });
    const stream = await chat.sendMessages({ chatId: "chat", messages: MESSAGES, trigger: "submit-message" });
    const onError = (error) => errors.push(error.message);
    for await (const state of ai.readUIMessageStream({ stream, onError })) message = state;
  } catch (error) {
    thrown = error.message;
  } finally {
    await server.stop();
  }
  return { message: message && JSON.parse(JSON.stringify(message)), errors, thrown };
}

// Short forms of the parts that are shown.
const text = (text, state = "done") => ({ type: "text", text, state });
const data = (name, data, id) => ({ type: `data-${name}`, ...(id && { id }), data });
const event = (event, members, id) => data(event, { event, ...members }, id);
const document = (sourceId, mediaType, title, ragwire, filename = title) => ({
  type: "source-document",
  sourceId,
  mediaType,
  title,
  filename,
  providerMetadata: { ragwire },
});
const thought = (number, text, ragwire) => ({
  type: "reasoning",
  id: `reasoning-${number}`,
  text,
  providerMetadata: { ragwire },
  state: "done",
});
const aside = (name, ragwire) => ragwire && { [name]: { ragwire } };
const tool = (toolName, toolCallId, input, outcome, asides = {}) => ({
  type: "dynamic-tool",
  toolName,
  toolCallId,
  state: "errorText" in outcome ? "output-error" : "output-available",
  input,
  ...outcome,
  providerExecuted: true,
  ...aside("callProviderMetadata", asides.call),
  ...aside("resultProviderMetadata", asides.result),
});
/** A step of retrieval. One without an output by an event of its own was closed. */
const step = (number, name, input, output, call, result = "search") =>
  tool(name, `retrieval-${number}`, input, output, { call: { event: call }, result: { event: result } });
const CALL = { event: "tool_call" };
const RESULT = { event: "tool_result" };
const BOTH = { call: CALL, result: RESULT };
const T = "2026-01-02T03:04:05Z";

const DONE = { citations: [], tools_used: [] };
const STOPPED = { ...DONE, status: "stopped" };
const failed = (code, message, recoverable, more) => ({
  citations: [],
  tools_used: ["chat_failed"],
  ...more,
  status: "failed",
  error: { code, message, recoverable },
});
const FAILED = failed("chat_failed", FALLBACK, true);
const SEARCH = event("search", { tool: "bm25" });
/** The tool of that search, which never returned. */
const searched = (outcome) => step(1, "search_documents", { query: "", tool: "bm25" }, outcome, "search");
const VERIFIED = {
  claims_checked: 1,
  claims_supported: 1,
  claims_partially_supported: 0,
  claims_unsupported: 0,
  details: [],
};
const passage = (chunk_id, document_id, text, more) => ({ chunk_id, document_id, text, page_numbers: [], ...more });

const CITATION = {
  document_id: "doc-1",
  chunk_id: "c-7",
  supporting_quote: "Headers wait for the first event.",
  source_tool: "bm25",
  page_number: 3,
  score: 0.87,
};
const CITED = [
  { document_id: "d1", chunk_id: "d1-2", supporting_quote: "It waits.", source_tool: "bm25", heading: "The rule" },
  { document_id: "https://x.test/a.html", chunk_id: "w-1", supporting_quote: "So it is.", source_tool: "web" },
  {
    document_id: "d1",
    chunk_id: "d1-2",
    supporting_quote: "And ends.",
    source_tool: "bm25",
    page_number: 4,
    heading: "The rule",
  },
];

/** For each vector: the parts, the metadata, the errors passed to `onError`, and the message's ID. */
const SHOWN = {
  full_turn: [
    [
      event("queued", { position: 1, ahead: 1, waited_ms: 20, timestamp: T }, "queued"),
      step(1, "search_documents", { query: "commit rule", tool: "bm25", page: 2 }, { output: {} }, "search"),
      event("search", { tool: "bm25", query: "commit rule", page: 2, timestamp: "2026-01-02T03:04:05.678Z" }),
      step(2, "review_answer", { iteration: 1 }, { output: { iteration: 1, verdict: "approved" } }, "review", "review"),
      event("review", { iteration: 1, verdict: "approved", timestamp: T }),
      event("sources", {
        sources: [passage("c-7", "doc-1", "Headers wait.", { page_numbers: [3], title: "ADR.pdf" })],
        timestamp: T,
      }),
      text("Headers wait for the first event [1]."),
      document("citation-1", "application/pdf", "ADR.pdf, page 3", CITATION, "ADR.pdf"),
    ],
    {
      citations: [CITATION],
      mode: "hybrid",
      tools_used: ["bm25"],
      usage: { input_tokens: 812, output_tokens: 9, model: "m" },
    },
    [],
    "m-1",
  ],
  empty: [[], DONE],
  zero_events: [[text("Yes.")], DONE],
  zero_text: [[event("cache_miss")], DONE],
  failure_first: [[], FAILED, [FALLBACK]],
  failure_before_text: [[searched({ errorText: FALLBACK }), SEARCH], FAILED, [FALLBACK]],
  failure_between_tokens: [[text("Half an ")], FAILED, [FALLBACK]],
  failure_of_its_own: [[text("a")], failed("timeout", 'Too "slow".', false, { trace: "t-1" }), ['Too "slow".']],
  failure_with_open_call: [
    [tool("sql", "c1", { q: "select" }, { errorText: FALLBACK }, { call: CALL })],
    FAILED,
    [FALLBACK],
  ],
  stop_first: [[], STOPPED],
  stop_before_text: [[searched({ errorText: "The turn was stopped." }), SEARCH], STOPPED],
  stop_between_tokens: [[text("Half an ")], STOPPED],
  stop_with_open_calls: [
    [
      tool("a", "c1", {}, { errorText: "The turn was stopped." }, { call: CALL }),
      tool("b", "c2", {}, { errorText: "The turn was stopped." }, { call: CALL }),
    ],
    STOPPED,
  ],
  // The oldest of the 65 calls was closed for the last; its late result opened it again, without
  // its input.
  open_calls_over_limit: [
    [
      tool("t", "c0", {}, { output: "late" }, BOTH),
      ...Array.from({ length: 64 }, (_, at) => tool("t", `c${at + 1}`, at + 1, { output: {} }, { call: CALL })),
    ],
    DONE,
  ],
  open_call_completed: [[tool("sql", "ragwire-call-1", "all", { output: {} }, { call: CALL })], DONE],
  late_events: [
    [
      text("One "),
      step(1, "verify_answer", { claims: 1 }, { output: VERIFIED }, "verification", "verification"),
      event("verification", VERIFIED),
      text("two."),
    ],
    DONE,
  ],
  retrieval: [
    [
      step(
        1,
        "search_documents",
        { query: "commit", tool: "bm25", page: 1 },
        { output: { tool: "bm25", chunks_found: 3, duration_ms: 7 } },
        "search",
        "retrieval_result",
      ),
      event("search", { tool: "bm25", query: "commit", page: 1 }),
      event("retrieval_start", { tool: "bm25", query: "commit", iteration: 1 }),
      event("retrieval_result", { tool: "bm25", chunks_found: 3, duration_ms: 7 }),
      ...[
        [2, "grade_documents", { passages: 3 }, "crag_evaluation", { correct: 2, ambiguous: 0, incorrect: 1, action: "proceed", expanded: 0, details: [] }],
        [3, "rerank_documents", { method: "rrf", passages: 2 }, "rerank_result", { method: "rrf", input_count: 2, output_count: 1, duration_ms: 0 }],
      ].flatMap(([number, name, input, kind, output]) => [step(number, name, input, { output }, kind, kind), event(kind, output)]),
      event("generation_start", { context_chunks: 1, total_context_tokens: 20, model: "m" }),
      text("Yes."),
      step(4, "verify_answer", { claims: 1 }, { output: VERIFIED }, "verification", "verification"),
      event("verification", VERIFIED),
    ],
    DONE,
  ],
  thought_in_pieces: [
    [
      thought(1, "First the index.", { event: "thinking", id: "a", round: 1 }),
      thought(2, "Then", { event: "thinking", id: "b" }),
      event("cache_miss"),
      thought(3, " more", { event: "thinking", id: "b" }),
      thought(4, "Whole.", { event: "thinking" }),
      thought(5, "Last", { event: "thinking", id: "b" }),
      text("Here."),
    ],
    DONE,
  ],
  retract: [[text("Half a wrong"), event("retract", { kept: 7 }), text("right one.")], DONE],
  citations: [
    [
      event("sources", {
        sources: [passage("d1-2", "d1", "It waits. And ends.", { title: "rule.md" }), passage("d2-0", "d2", "Not cited.")],
      }),
      text("Yes [1][2][3]."),
      document("citation-1", "text/markdown", "rule.md: The rule", CITED[0], "rule.md"),
      {
        type: "source-url",
        sourceId: "citation-2",
        url: "https://x.test/a.html",
        title: "https://x.test/a.html",
        providerMetadata: { ragwire: CITED[1] },
      },
      document("citation-3", "text/markdown", "rule.md, page 4", CITED[2], "rule.md"),
    ],
    { citations: CITED, tools_used: ["bm25"] },
  ],
  tools_with_ids: [
    [
      tool("sql", "c1", { q: 1 }, { output: [1] }, {
        call: {
          ...CALL,
          iteration: 1,
          description: "asks",
          parameters: { type: "object" },
          round: 1,
          max_rounds: 3,
          timestamp: T,
        },
        result: RESULT,
      }),
      tool("sql", "c2", { q: 2 }, { output: [2] }, {
        call: CALL,
        result: { ...RESULT, duration_ms: 7, round: 1, max_rounds: 3, timestamp: T },
      }),
      text("Done."),
    ],
    DONE,
  ],
  tools_without_ids: [
    [
      tool("sql", "ragwire-call-1", { q: 1 }, { output: "one" }, BOTH),
      tool("web", "ragwire-call-2", {}, { output: "three" }, BOTH),
      tool("sql", "ragwire-call-3", { q: 2 }, { output: "two" }, BOTH),
    ],
    DONE,
  ],
  tools_half_named: [[tool("sql", "ragwire-call-1", {}, { output: 0 }, BOTH)], DONE],
  tool_result_alone: [
    [
      tool("sql", "c1", {}, { output: { rows: [] } }, { result: RESULT }),
      tool("sql", "ragwire-call-1", {}, { output: {} }, { result: RESULT }),
    ],
    DONE,
  ],
  tool_errors: [
    [
      tool("a", "1", {}, { errorText: "no such table" }, BOTH),
      tool("a", "2", {}, { errorText: '{"code":7}' }, { result: RESULT }),
      tool("a", "3", {}, { errorText: "The tool failed." }, { result: RESULT }),
      tool("a", "4", {}, { output: "fine" }, { result: RESULT }),
    ],
    DONE,
  ],
  tool_amid_text: [[text("Let me look. "), tool("web", "w", {}, { output: 1 }, BOTH), text("Wait. Found.")], DONE],
  reasoning: [
    [
      thought(1, "First the index.", { event: "reasoning", timestamp: T }),
      thought(2, "Then\nthe pages.", { event: "thinking", round: 1, max_rounds: 2 }),
      text("Here."),
    ],
    DONE,
  ],
  reasoning_amid_text: [[text("A"), thought(1, "", { event: "thinking" }), text("B")], DONE],
  sources: [
    [
      event("sources", { sources: [passage("1", "a", "x"), passage("2", "a", "y"), passage("3", "b.MD", "z")] }),
      text("A B"),
      event("sources", {
        sources: [passage("4", "a", "w"), passage("5", "c", "v", { page_numbers: [1, 2], title: "Page.html" })],
      }),
      document("document-1", "text/plain", "a", { document_id: "a" }),
      document("document-2", "text/markdown", "b.MD", { document_id: "b.MD" }),
      document("document-3", "text/html", "Page.html", { document_id: "c" }),
    ],
    DONE,
  ],
  custom: [
    [
      data("acme.progress", { n: 1, timestamp: T }),
      data("acme.progress", [1, null]),
      data("acme.progress", { timestamp: 5 }),
      data("acme.ping", {}),
      data("acme.zero", 0),
    ],
    DONE,
  ],
  custom_names: [
    [
      data("finish", { finishReason: "x" }),
      data("__proto__", { a: 1 }),
      data("constructor", "c"),
      data('two words \u00e9\u20ac "quoted"', 1),
      text("ok"),
    ],
    DONE,
  ],
  replaced: [
    [
      event("queued", { position: 1, ahead: 1, waited_ms: 900 }, "queued"),
      event("input_requested", { request_id: "r1", kind: "approval", prompt: "May I?" }, "r1"),
      event("input_resolved", { request_id: "r1", response: "yes" }),
      event("authorization_required", { connection: "mail", auth_url: "https://x.test/", request_id: "r2" }, "mail"),
    ],
    DONE,
  ],
  line_separators: [
    [
      text("a\u2028b\u2029c\u0085d\r\ne\n\nf"),
      step(1, "search_documents", { query: "", tool: "x\u2028y\n\ndata: [DONE]" }, { output: {} }, "search"),
      event("search", { tool: "x\u2028y\n\ndata: [DONE]" }),
    ],
    DONE,
  ],
  emoji: [[text("\u{1f469}\u200d\u{1f52c} \u00e9\u{1f600}")], DONE],
  control_bytes: [[text('\x1d\x1e\0\x7f\ufeff\t\b"')], DONE],
  forged_parts: [[text('\n\ndata: [DONE]\n\ndata: {"type":"error","errorText":"x"}\n\n')], DONE],
  metadata: [
    [text("a")],
    {
      ...DONE,
      mode: "agentic",
      tools_used: ["bm25", "rerank"],
      queue_stats: { was_queued: true, queue_position: 2, queue_wait_ms: 12.5 },
      trace: { id: "t-1" },
      events_dropped: 2,
    },
  ],
};

/** `ai` 5 does not keep the provider metadata of a tool's result. */
function seenBy(name, parts) {
  if (name !== "ai 5.0.277") return parts;
  return parts.map(({ resultProviderMetadata, ...part }) => part);
}

test("every vector is shown", () => assert.deepEqual(Object.keys(SHOWN).sort(), [...VECTORS.keys()].sort()));

for (const [name, ai] of Object.entries(CLIENTS)) {
  for (const byteAtATime of [false, true]) {
    test(`${name} shows every vector, ${byteAtATime ? "one byte per write" : "whole chunks"}`, async () => {
      for (const [id, [parts, metadata, errors = [], messageId = ""]] of Object.entries(SHOWN)) {
        const seen = await read(ai, VECTORS.get(id).chunks, { byteAtATime });
        const message = { id: messageId, metadata, role: "assistant", parts: seenBy(name, parts) };
        assert.deepEqual(seen, { message, errors, thrown: undefined }, id);
      }
    });
  }

  test(`${name} skips keep-alives`, async () => {
    const { chunks } = VECTORS.get("full_turn");
    const filled = chunks.flatMap((chunk) => [": keep-alive\n\n", chunk]);
    assert.deepEqual(await read(ai, filled), await read(ai, chunks));
  });

  test(`${name} never shows a cut stream as finished: it has no metadata`, async () => {
    const { chunks } = VECTORS.get("full_turn");
    for (let cutAfter = 1; cutAfter < chunks.length; cutAfter += 1) {
      for (const clean of [false, true]) {
        // A connection that breaks is reported. A body that ends cleanly but early is not: only the
        // missing metadata shows it.
        const seen = clean ? await read(ai, chunks.slice(0, cutAfter)) : await read(ai, chunks, { cutAfter });
        assert.deepEqual(seen.errors, clean ? [] : ["terminated"], `${cutAfter}`);
        assert.equal(seen.message.metadata, undefined);
        assert.equal(seen.message.parts.find((part) => part.type === "text")?.state, cutAfter > 4 ? "streaming" : undefined);
      }
    }
  });

  test(`${name} throws the JSON of a failure before the stream, and has nothing to resume at 204`, async () => {
    const body = '{"error":{"code":"chat_failed","message":"m","recoverable":true,"request_id":"r"}}';
    const seen = await read(ai, [body], { status: 500, headers: { "content-type": "application/json" } });
    assert.deepEqual(seen, { message: undefined, errors: [], thrown: body });

    const server = await serve([], { status: 204 });
    const chat = new ai.DefaultChatTransport({ api: server.url });
    assert.equal(await chat.reconnectToStream({ chatId: "chat" }), null);
    assert.deepEqual(server.requests.map(({ method, url }) => `${method} ${url}`), ["GET /chat/stream"]);
    await server.stop();
  });

  test(`${name}'s chat, which useChat wraps, has the end of each turn and runs no tool`, async () => {
    for (const [id, status, finishReason] of [
      ["full_turn", "ready", "stop"],
      ["tools_with_ids", "ready", "stop"],
      ["open_call_completed", "ready", "stop"],
      ["stop_between_tokens", "ready", "other"],
      ["stop_with_open_calls", "ready", "other"],
      ["failure_first", "error", undefined],
      ["failure_between_tokens", "error", undefined],
      ["failure_with_open_call", "error", undefined],
    ]) {
      const server = await serve(VECTORS.get(id).chunks, { headers: HEADERS });
      const calls = [];
      const finished = [];
      const chat = new (chatOf(ai))({
        transport: new ai.DefaultChatTransport({ api: server.url }),
        onToolCall: ({ toolCall }) => void calls.push(toolCall),
        onFinish: (finish) => finished.push([finish.finishReason, finish.isError, finish.isAbort, finish.isDisconnect]),
        onError: () => {},
        sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithToolCalls,
      });
      await chat.sendMessage({ text: "Why?" });
      await server.stop();
      const [parts, metadata, errors = []] = SHOWN[id];
      assert.deepEqual([chat.status, chat.error?.message], [status, errors[0]], id);
      assert.deepEqual(finished, [[finishReason, status === "error", false, false]], id);
      const { id: _, ...message } = JSON.parse(JSON.stringify(chat.lastMessage));
      assert.deepEqual(message, { metadata, role: "assistant", parts: seenBy(name, parts) }, id);
      assert.deepEqual([calls, server.requests.length], [[], 1], id);
    }
  });
}

test("without providerExecuted the chat would send the tools' results as a new turn", async () => {
  for (const [name, ai] of Object.entries(CLIENTS)) {
    const { chunks } = VECTORS.get("tools_with_ids");
    for (const [sent, again] of [[chunks, false], [chunks.map((c) => c.replaceAll(',"providerExecuted":true', "")), true]]) {
      const { message } = await read(ai, sent);
      assert.equal(ai.lastAssistantMessageIsCompleteWithToolCalls({ messages: [message] }), again, name);
    }
  }
});

test("an output needs its input first, and an unknown part or a null ends the stream", async () => {
  const start = 'data: {"type":"start"}\n\n';
  const end = 'data: {"type":"data-x","data":1}\n\ndata: [DONE]\n\n';
  for (const [name, ai] of Object.entries(CLIENTS)) {
    for (const part of [
      '{"type":"tool-output-available","toolCallId":"c1","output":1,"dynamic":true}',
      '{"type":"search","tool":"bm25"}',
      '{"type":"finish","finishReason":null}',
    ]) {
      const seen = await read(ai, [start, `data: ${part}\n\n`, end]);
      assert.equal(seen.errors.length + (seen.thrown ? 1 : 0) > 0, true, `${name}: ${part}`);
      assert.deepEqual(seen.message?.parts ?? [], [], `${name}: ${part}`);
    }
  }
});
