// Puts a client, a case and a fault together: what is expected, and what was seen.
import { startProxy } from "../clients/harness.js";
import { WIRES } from "./wires.js";

/** What is true of a turn, from the route that has no stream. */
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
    // Where nobody asked for a review this route has no answer checked; those that have a place for it after the text do.
    late: ["verification"],
    citations: citations.length,
    sources: sources.sources.length,
  };
}

/** The same from TrustGraph's route: its service has an answer of its own. The limit is the one that its clients send. */
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

/** What `client` has to see of a case, `name` being its own or that of the fault it comes through. */
export function expected(client, kase, name = kase.name) {
  const { text, events, outcome, status = null, error = null, citations = 0 } = kase;
  const seen = { text, events: [...events], outcome, status, error: error && { ...error }, citations };
  if (outcome === "http-error") seen.citations = null;
  if (outcome === "http-error" && client.socket) {
    // A socket has no status: it is told as a failure like any other.
    Object.assign(seen, { outcome: "failed", status: null });
    WIRES[client.wire].shows(seen, kase);
  } else if (outcome !== "http-error") WIRES[client.wire].shows(seen, kase);
  client.shows?.(seen, kase);
  const { why, ...differs } = client.differs?.[name] ?? {};
  return Object.assign(seen, differs);
}

/** The body of a response as far as it arrived: chunks are undone. Null before its first byte could be. */
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

/** How many cut turns are under way at once: the client waits for the server, and the server for the client. */
const AT_ONCE = 8;
/** From one cut to the next, in the headers and in the body. */
const EVERY_BYTE = { headers: 1, body: 1 };
const EVERY_BYTE_OF_THE_BODY = { headers: 16, body: 1 };
const SOME = { headers: 16, body: 5 };
/** How near to the end of a line every byte is tried all the same; numbers before it may shift it by a byte or two from turn to turn. */
const NEAR_LINE_END = 3;
/** How far beyond the end of a first answer the last cut is: numbers in an answer grow by some digits from turn to turn. */
const BEYOND = 8;

/**
 * Asks once for each place at which the answer can be cut, and a few beyond its end: each byte for parsers of ours, others as the
 * constants above say. Gives for each `seen`, and `part`: where the cut was.
 *
 * | part | what arrived |
 * |---|---|
 * | `headers` | not all of the headers |
 * | `body` | not all of the wire's end |
 * | `told` | all that the end says, and not its last byte: the line end or blank line is missing |
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
  const isPlace = (at) => {
    if (at < headers) return at % stride.headers === 0;
    return at % stride.body === 0 || nearLineEnd(at) || at > answer.length;
  };
  const places = Array.from({ length: answer.length + BEYOND }, (_, at) => at + 1).filter(isPlace);
  const { told, whole } = WIRES[client.wire];
  const cuts = [];
  const work = async () => {
    for (let at = places.shift(); at !== undefined; at = places.shift()) {
      // A client that goes on by itself is let: what counts is what it makes of the two halves.
      let connections = 0;
      const hurts = () => !client.resumes || ++connections === 1;
      const proxy = await startProxy(server.url, { cutAfter: at, http10, hurts });
      const seen = await client.ask(proxy.url, prompt);
      const body = bodyOf(proxy.answers[0].passed);
      await proxy.stop();
      const part = body === null ? "headers" : whole(body) ? "whole" : told(body) ? "told" : "body";
      cuts.push({ at, part, seen });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return cuts;
}

/** The outcomes of the cuts in the body, in words. */
export const outcomes = (cuts) =>
  [...new Set(cuts.filter(({ part }) => part === "body").map(({ seen }) => seen.outcome))].sort().join(" or ");
