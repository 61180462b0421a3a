// `fetch` and the parsers of clients/js.
import { FramedDecoder, FramedError } from "../../../clients/js/src/framed.js";
import { NdjsonDecoder } from "../../../clients/js/src/ndjson.js";
import { SseDecoder } from "../../../clients/js/src/sse.js";
import { decodeStream } from "../../../clients/js/src/stream.js";
import { broke, nothing, refused } from "../record.js";

/** Records the items of a decoder. */
export async function collect(seen, readable, decoder) {
  for await (const item of decodeStream(readable, decoder)) {
    if (item.type === "event") seen.events.push(item.event.event);
    else if (item.type === "text") seen.text += item.text;
    else if (item.type === "snapshot") Object.assign(seen, { text: item.text, events: item.events.map(({ event }) => event) });
    else if (item.type === "truncated") Object.assign(seen, { outcome: "truncated", error: { message: item.phase } });
    else {
      seen.outcome = item.status;
      seen.citations = item.metadata.citations.length;
      if (item.error) seen.error = { code: item.error.code, message: item.error.message };
    }
  }
}

async function read(url, accept, body, decoder) {
  const seen = nothing();
  try {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", accept },
      body: JSON.stringify(body),
    });
    if (!response.ok) return refused(seen, response.status, await response.text());
    await collect(seen, response.body, decoder);
  } catch (error) {
    broke(seen, error, error instanceof FramedError ? "refused" : "truncated");
  }
  return seen;
}

export const framed = (url, prompt) =>
  read(`${url}/v1/rag/sessions/${crypto.randomUUID()}/messages/stream`, "text/plain", { prompt }, new FramedDecoder());
export const sse = (url, prompt) => read(`${url}/v1/turns`, "text/event-stream", { prompt }, new SseDecoder());
export const ndjson = (url, prompt) => read(`${url}/v1/turns`, "application/x-ndjson", { prompt }, new NdjsonDecoder());
