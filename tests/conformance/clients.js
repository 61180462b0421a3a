// The clients: how each is asked, which wire it reads, and where it sees something else than the wire tells.
//
// `cut` is what it makes of turns that are cut, where that is not always `truncated`, and `cutWhy` why that is not what one may expect;
// `resumes` says that it goes on by itself, `socket` that it speaks WebSocket. `differs` is a table of cases: what the client sees otherwise there, and why. It is as much a fact about the published
// client as the rest of the suite; an empty one says that the client shows everything.
import { ai5, ai6, ai7, eve011, eve018 } from "../clients/published.js";
import { FALLBACK } from "./cases.js";
import { agent } from "./drivers/ag_ui.js";
import * as aiSdk from "./drivers/ai_sdk.js";
import * as eve from "./drivers/eve.js";
import * as openai from "./drivers/openai.js";
import * as ours from "./drivers/ours.js";
import { python, sessionChat } from "./drivers/python.js";
import * as seeds from "./drivers/seeds.js";

/** It takes any response for a stream, and finds nothing in a JSON body. */
const takesAnyStatus = { outcome: "unreported", error: null, status: null };
const throwsBody = { status: null, why: "it throws the body, and not the status" };

export const CLIENTS = [
  { name: "clients/js framed", wire: "framed", ask: ours.framed, ours: true },
  { name: "clients/js sse", wire: "sse", ask: ours.sse, ours: true },
  { name: "clients/js ndjson", wire: "ndjson", ask: ours.ndjson, ours: true },
  { name: "httpx 0.28.1, bytes, framed", wire: "framed", ask: python("framed"), cut: { "cut behind HTTP/1.0": "unreported" } },
  { name: "httpx 0.28.1 aiter_lines, sse", wire: "sse", ask: python("sse"), cut: { "cut behind HTTP/1.0": "truncated or unreported" } },
  { name: "httpx 0.28.1 aiter_lines, ndjson", wire: "ndjson", ask: python("ndjson"), cut: { "cut behind HTTP/1.0": "truncated or unreported" } },
  {
    name: "Forge's JavaScript reader",
    wire: "forge",
    ask: seeds.forge,
    cut: { "cut behind HTTP/1.0": "unreported" },
    differs: {
      "before commit": { ...takesAnyStatus, why: "it does not look at the status" },
      "one byte per write": {
        text: "",
        events: [],
        outcome: "unreported",
        citations: null,
        why: "it loses an event whose two lines come in different reads",
      },
    },
  },
  {
    name: "Forge's Python reader",
    wire: "forge",
    ask: python("forge"),
    cut: { "cut behind HTTP/1.0": "truncated or unreported" },
    differs: { "before commit": { ...takesAnyStatus, why: "it does not look at the status" } },
  },
  {
    name: "session chat's JavaScript reader",
    wire: "session_chat",
    ask: seeds.sessionChat,
    cut: { "cut behind HTTP/1.0": "unreported" },
    differs: { "before commit": { error: null, why: "it throws the status, and leaves the body" } },
  },
  {
    name: "session chat's Python reader",
    wire: "session_chat",
    ask: sessionChat,
    cut: { "cut behind HTTP/1.0": "truncated or unreported" },
    differs: { "before commit": { ...takesAnyStatus, why: "it does not look at the status" } },
  },
  ...Object.entries({ "ai 5.0.277": ai5, "ai 6.0.322": ai6, "ai 7.0.173": ai7 }).map(([name, ai]) => ({
    name: `${name} DefaultChatTransport`,
    wire: "ai_sdk",
    ask: aiSdk.uiMessages(ai),
    differs: { "before commit": throwsBody },
    cut: { "cut behind HTTP/1.0": "unreported" },
  })),
  { name: "ai 6.0.322 TextStreamChatTransport", wire: "framed", ask: aiSdk.text(ai6), differs: { "before commit": throwsBody } },
  {
    name: "@ag-ui/client 1.0.0 HttpAgent",
    wire: "ag_ui",
    ask: agent,
    cut: { "cut behind HTTP/1.0": "truncated or unreported" },
  },
  {
    name: "npm openai 7.55.0, stream",
    wire: "openai",
    ask: openai.stream,
    cut: { "cut behind HTTP/1.0": "truncated or unreported" },
  },
  { name: "npm openai 7.55.0", wire: "openai_whole", ask: openai.whole },
  {
    name: "PyPI openai 3.52.0, stream",
    wire: "openai",
    ask: python("openai_stream"),
    cut: { "cut behind HTTP/1.0": "unreported" },
  },
  { name: "PyPI openai 3.52.0", wire: "openai_whole", ask: python("openai_whole") },
  ...Object.entries({ "eve 0.11.10": eve011, "eve 0.18.2": eve018 }).map(([name, client]) => ({
    name,
    wire: "eve",
    ask: eve.session(client),
    resumes: true,
    cut: { cut: "completed", "cut behind HTTP/1.0": "completed or truncated or unreported" },
    cutWhy:
      "it asks for the rest, and gets it, where the connection broke or where the error of its JSON parser holds the word " +
      "`terminated` (`Unterminated string`); it reports nothing where the body ended between two lines",
    differs: { "before commit": { error: { message: FALLBACK }, why: "an error of Eve's has no code" } },
  })),
  {
    name: "trustgraph-base 2.11.1 graph_rag",
    wire: "trustgraph",
    ask: python("trustgraph"),
    socket: true,
    cut: { cut: "hangs or truncated" },
    cutWhy: "it raises only until the socket is open; afterwards nobody tells the one who waits for a message that there will be none",
    differs: { stop: { outcome: "completed", why: "it shows nothing of the metadata, where the stop is told" } },
  },
];
