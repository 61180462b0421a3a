// A plain Node service without a dependency, for `ragwire-server --orchestrator`.
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const PASSAGES = [
  { id: "commit", text: "The status of a response is decided by its first frame." },
  { id: "journal", text: "The journal keeps the frames of a turn, so that a client can resume it." },
];

/** The answer to a question: events, pieces of text, and the end. */
async function* answer({ prompt }) {
  yield { event: "retrieval_start", tool: "words", query: prompt, top_k: 2 };
  const found = PASSAGES.filter(({ id }) => prompt.toLowerCase().includes(id));
  yield { event: "retrieval_result", tool: "words", chunks_found: found.length, duration_ms: 0 };
  const words = found.map(({ text }) => text).join(" ") || "I found nothing about that.";
  for (const word of words.split(/(?<= )/)) {
    await sleep(5);
    yield { text: word };
  }
  const citations = found.map(({ id, text }) => ({
    document_id: id,
    chunk_id: `${id}-1`,
    supporting_quote: text,
    source_tool: "words",
  }));
  yield { end: "completed", metadata: { citations, tools_used: ["words"] } };
}

const server = createServer(async (request, response) => {
  let body = "";
  for await (const piece of request) body += piece;
  response.writeHead(200, { "content-type": "application/x-ndjson" });
  for await (const frame of answer(JSON.parse(body))) {
    // The server closes the connection when the turn was stopped or has no reader left.
    if (response.destroyed) return;
    response.write(`${JSON.stringify(frame)}\n`);
  }
  response.end();
});

server.listen(Number(process.env.PORT ?? 9000), "127.0.0.1", () => {
  console.log(`http://127.0.0.1:${server.address().port}/ask`);
});
