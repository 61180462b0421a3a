// What unmodified clients show of an ordinary question to the reference server: all parts and
// messages, in order, as a page would draw them.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import * as ai6 from "ai";
import * as ai5 from "ai5";
import * as ai7 from "ai7";
import { startServer } from "../harness.js";
import { read } from "./read_ag_ui.js";

// Its answer has two citations: the order of several is compared.
const QUESTION = "How do I stop a turn from the browser?";
const SHORTER = "stop browser";
const MEDIA_TYPES = { html: "text/html", md: "text/markdown", pdf: "application/pdf" };

let server;
before(async () => (server = await startServer()));
after(async () => assert.equal(await server.stop(), 0));

const plain = (value) => JSON.parse(JSON.stringify(value));

/** The steps that both clients draw as tools: tool, input, and what the output must contain. */
const SEARCHES = [QUESTION, SHORTER].map((query) => [
  "search_documents",
  { query, tool: "bm25_search", page: 1 },
  { tool: "bm25_search", chunks_found: 10 },
]);
const GRADE = ["grade_documents", { passages: 10 }, { action: "proceed", expanded: 0 }];
// How many passages and sentences remain depends on the sample documents: these steps take their
// counts from what went in, and must agree with it.
const rerank = ({ passages }) => [
  "rerank_documents",
  { method: "rrf", passages },
  { method: "rrf", input_count: passages, output_count: Math.min(passages, 8) },
];
const verify = ({ claims }) => [
  "verify_answer",
  { claims },
  { claims_checked: claims, claims_supported: claims, claims_unsupported: 0 },
];

/** The steps of a turn whose tools took `inputs` and whose answer has `citations`. */
function steps(inputs, citations) {
  const [{ passages }, { claims }] = inputs.slice(-2);
  assert.ok(passages > 0 && passages <= 10, `${passages} passages of the 10 graded`);
  assert.ok(claims >= citations.length, `${claims} claims, ${citations.length} citations`);
  return [...SEARCHES, GRADE, rerank({ passages }), verify({ claims })];
}

/** Checks a tool and its output; members that are not listed, such as times and scores, may be any. */
function checkTool([tool, input, output], seen) {
  assert.deepEqual([seen.tool, seen.input], [tool, input]);
  for (const [name, value] of Object.entries(output)) assert.deepEqual(seen.output[name], value, `${tool}: ${name}`);
}

for (const [name, ai] of Object.entries({ "ai 5.0.277": ai5, "ai 6.0.322": ai6, "ai 7.0.173": ai7 })) {
  test(`${name} draws each step as a tool, then the answer, then its citations`, async () => {
    const transport = new ai.DefaultChatTransport({ api: `${server.url}/api/chat` });
    const messages = [{ id: "1", role: "user", parts: [{ type: "text", text: QUESTION }] }];
    const stream = await transport.sendMessages({ chatId: crypto.randomUUID(), messages, trigger: "submit-message" });
    const errors = [];
    const running = [];
    let message;
    for await (const state of ai.readUIMessageStream({ stream, onError: (error) => errors.push(error) })) {
      message = plain(state);
      const last = message.parts.findLast(({ type }) => type === "dynamic-tool");
      if (last?.state === "input-available") running.push(last.toolCallId);
    }
    assert.deepEqual(errors, []);
    // Each step is shown before its result.
    assert.deepEqual([...new Set(running)], [1, 2, 3, 4, 5].map((number) => `retrieval-${number}`));

    const tools = message.parts.filter(({ type }) => type === "dynamic-tool");
    const citations = message.metadata.citations;
    const inputs = tools.map(({ input }) => input);
    for (const [at, step] of steps(inputs, citations).entries()) {
      checkTool(step, { tool: tools[at].toolName, input: tools[at].input, output: tools[at].output });
    }
    const shown = message.parts.map((part) => {
      if (part.type === "dynamic-tool") return `${part.toolName} ${part.state}`;
      return part.type === "text" ? `text ${part.state}` : part.type;
    });
    const search = ["search_documents output-available", "data-search", "data-retrieval_start", "data-retrieval_result"];
    assert.ok(citations.length >= 2);
    assert.deepEqual(shown, [
      "data-query_analysis",
      ...search,
      ...search,
      "grade_documents output-available",
      "data-crag_evaluation",
      "rerank_documents output-available",
      "data-rerank_result",
      "data-sources",
      "data-generation_start",
      "text done",
      "verify_answer output-available",
      "data-verification",
      ...citations.map(() => "source-document"),
    ]);

    // The n-th source is the one that the answer calls [n]; its quote is in the answer.
    const { text } = message.parts.find(({ type }) => type === "text");
    const sources = message.parts.filter(({ type }) => type === "source-document");
    const titles = message.parts.find(({ type }) => type === "data-sources").data.sources;
    for (const [at, source] of sources.entries()) {
      const citation = citations[at];
      const { title } = titles.find(({ document_id }) => document_id === citation.document_id);
      assert.deepEqual(source, {
        type: "source-document",
        sourceId: `citation-${at + 1}`,
        mediaType: MEDIA_TYPES[title.split(".").pop()],
        title: citation.page_number ? `${title}, page ${citation.page_number}` : `${title}: ${citation.heading}`,
        filename: title,
        providerMetadata: { ragwire: citation },
      });
      assert.ok(text.includes(`${citation.supporting_quote} [${at + 1}]`), text);
    }
  });
}

test("HttpAgent draws each step as a tool with its result, and the answer below them", async () => {
  const { messages, failed, error, outcome, result, events } = await read(`${server.url}/ag-ui`, QUESTION);
  assert.deepEqual([failed, error, outcome], [null, null, "success"]);
  const calls = messages.flatMap(({ toolCalls }) => toolCalls ?? []);
  const prefix = calls[0].id.slice(0, -"-retrieval-1".length);
  const step = (number) => [
    ["call", `${prefix}-retrieval-${number}`],
    ["result", `${prefix}-retrieval-${number}`],
  ];
  const shown = messages.map(({ role, id, toolCalls, toolCallId }) => {
    if (role === "tool") return ["result", toolCallId];
    return toolCalls ? ["call", ...toolCalls.map((call) => call.id)] : [role, id];
  });
  assert.deepEqual(shown, [
    ...[1, 2, 3, 4].flatMap(step),
    ["assistant", `${prefix}-message`],
    ...step(5),
  ]);
  const results = messages.filter(({ role }) => role === "tool");
  const inputs = calls.map((call) => JSON.parse(call.function.arguments));
  for (const [at, wanted] of steps(inputs, result.citations).entries()) {
    const tool = calls[at].function.name;
    checkTool(wanted, { tool, input: inputs[at], output: JSON.parse(results[at].content) });
  }
  const answer = messages.find(({ id }) => id === `${prefix}-message`);
  for (const [at, { supporting_quote }] of result.citations.entries()) {
    assert.ok(answer.content.includes(`${supporting_quote} [${at + 1}]`), answer.content);
  }
  // The step ends where the answer begins.
  const types = events.map(({ type }) => type);
  assert.equal(types.indexOf("STEP_FINISHED") + 1, types.indexOf("TEXT_MESSAGE_START"));
});
