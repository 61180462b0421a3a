// Combines a client, a case and a fault: the expected record and the actual one.
import { startProxy } from "../clients/harness.js";
import { WIRES } from "./wires.js";

/** The content of a turn, from the route without a stream. */
export async function truth(url, kase, wire) {
  if (kase.text !== undefined) return kase;
  if (wire === "trustgraph") return truthOfTheGraph(url, kase);
  const response = await fetch(`${url}/v1/rag/sessions/${crypto.randomUUID()}/messages`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ prompt: kase.prompt }),
  });
  const { answer, agent_events, citations } = await response.json();
  const sources = agent_events.find(({ type }) => type === "sources");
  return {
    ...kase,
    text: answer,
    events: agent_events.map(({ type }) => type),
    // Without a review in the request this route does not verify the answer; routes that can send
    // events after the text do.
    late: ["verification"],
    citations: citations.length,
    sources: sources.sources.length,
  };
}

/** The same from TrustGraph's route, whose service answers differently. The limit is the one that its clients send. */
async function truthOfTheGraph(url, kase) {
  const response = await fetch(`${url}/api/v1/flow/default/service/graph-rag`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ query: kase.prompt, "max-subgraph-size": 1000 }),
  });
  const { response: text, metadata } = await response.json();
  const sources = metadata.events.find(({ event }) => event === "sources");
  return {
    ...kase,
    text,
    events: metadata.events.map(({ event }) => event),
    citations: metadata.citations.length,
    sources: sources.sources.length,
  };
}

/** The record that `client` must give for a case. `name` is that of the case, or of the fault. */
export function expected(client, kase, name = kase.name) {
  const { text, events, outcome, status = null, error = null, citations = 0 } = kase;
  const seen = { text, events: [...events], outcome, status, error: error && { ...error }, citations };
  if (outcome === "http-error") seen.citations = null;
  if (outcome === "http-error" && client.socket) {
    // A socket has no status, so this is an ordinary failure.
    Object.assign(seen, { outcome: "failed", status: null });
    WIRES[client.wire].shows(seen, kase);
  } else if (outcome !== "http-error") WIRES[client.wire].shows(seen, kase);
  client.shows?.(seen, kase);
  const { why, ...differs } = client.differs?.[name] ?? {};
  return Object.assign(seen, differs);
}

/** The body of a response as far as it arrived, without chunk headers. Null before the end of the headers. */
export function bodyOf(bytes) {
  const raw = Buffer.concat(bytes).toString("latin1");
  const at = raw.indexOf("\r\n\r\n");
  if (at < 0) return null;
  let rest = raw.slice(at + 4);
  if (!/^transfer-encoding: chunked\r$/im.test(raw.slice(0, at + 2))) return rest;
  let body = "";
  for (;;) {
    const size = /^([0-9a-f]+)\r\n/i.exec(rest);
    if (!size) return body;
    const from = size[0].length;
    const length = Number.parseInt(size[1], 16);
    body += rest.slice(from, from + length);
    rest = rest.slice(from + length + 2);
  }
}

/** The number of concurrent cut turns: the client waits for the server, and the server for the client. */
const AT_ONCE = 8;
/**
 * A client that waits forever must fail its suite, not block it. This is no measure of speed: a loaded machine takes minutes
 * for the thousands of cut turns of our own parsers.
 */
export const CLIENT_TIMEOUT_MS = 600_000;
/** The distance from one cut to the next, in the headers and in the body. */
const EVERY_BYTE = { headers: 1, body: 1 };
const EVERY_BYTE_OF_THE_BODY = { headers: 16, body: 1 };
const SOME = { headers: 16, body: 5 };
/** Every byte this close to a line end is cut; numbers before the line end may shift it by a byte or two between turns. */
const NEAR_LINE_END = 3;
/** Every byte this far behind the end of the first answer is cut too: numbers in an answer may grow by some digits between turns. */
const BEYOND = 8;
/** One more cut, which no answer reaches however its numbers grow: at least this one arrives whole. */
const FAR_BEYOND = 64 * 1024;

/**
 * Asks once for each offset at which the answer is cut, and for a few after its end: every byte for
 * our own parsers, the offsets set by the constants above for other clients. Returns for each the
 * record `seen`, and `part`: the position of the cut.
 *
 * | part | what arrived |
 * |---|---|
 * | `headers` | a part of the headers |
 * | `body` | the headers, and not all of the wire's end |
 * | `end` | the content of the end, but not its last byte: the line end or blank line is missing |
 * | `whole` | every byte of the wire |
 */
export async function cutEverywhere(client, server, prompt, { http10 }) {
  const uncut = await startProxy(server.url, { http10 });
  await client.ask(uncut.url, prompt);
  const answer = Buffer.concat(uncut.answers.at(-1).passed);
  await uncut.stop();
  const headers = answer.indexOf("\r\n\r\n") + 4;

  const nearLineEnd = (at) => answer.subarray(Math.max(0, at - NEAR_LINE_END), at + NEAR_LINE_END).includes("\n");
  const stride = client.ours ? (client.spawns ? EVERY_BYTE_OF_THE_BODY : EVERY_BYTE) : SOME;
  const isCut = (at) => {
    if (at < headers) return at % stride.headers === 0;
    return at % stride.body === 0 || nearLineEnd(at) || at > answer.length;
  };
  const offsets = Array.from({ length: answer.length + BEYOND }, (_, at) => at + 1).filter(isCut);
  offsets.push(answer.length + FAR_BEYOND);
  const { hasEnd, isWhole } = WIRES[client.wire];
  const cuts = [];
  const work = async () => {
    for (let at = offsets.shift(); at !== undefined; at = offsets.shift()) {
      // A client that resumes by itself may do so: its record must be right for both parts
      // together.
      let connections = 0;
      const hurts = () => !client.resumes || ++connections === 1;
      const proxy = await startProxy(server.url, { cutAfter: at, http10, hurts });
      const seen = await client.ask(proxy.url, prompt);
      const body = bodyOf(proxy.answers[0].passed);
      await proxy.stop();
      const part = body === null ? "headers" : isWhole(body) ? "whole" : hasEnd(body) ? "end" : "body";
      cuts.push({ at, part, seen });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return cuts;
}

/** The distinct outcomes of the cuts in the body, as text. */
export const outcomes = (cuts) =>
  [...new Set(cuts.filter(({ part }) => part === "body").map(({ seen }) => seen.outcome))].sort().join(" or ");
