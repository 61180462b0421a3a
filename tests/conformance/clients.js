// The clients: how each is called, which wire it reads, and where its record differs from the wire.
//
// | member | |
// |---|---|
// | `ask(url, prompt, server)` | returns the record of `record.js`; `server` is the server without the proxy |
// | `ours` | the parser is this project's: a cut turn must be `truncated` |
// | `spawns` | the client is a program that is started for each turn, so it is cut at fewer offsets |
// | `socket` | the client uses a WebSocket |
// | `resumes` | the client resumes by itself if its connection breaks |
// | `shows` | changes the expected record of every turn |
// | `differs` | the differences of its record by case, and the reason |
// | `cut` | the outcomes of cut turns if these are not always `truncated`; `cutWhy`, the reason |
//
// These are facts about the published clients. A client without `differs` shows everything.
import { readFileSync } from "node:fs";
import { ai5, ai6, ai7, eve011, eve018 } from "../clients/published.js";
import { FALLBACK } from "./cases.js";
import { agent } from "./drivers/ag_ui.js";
import * as aiSdk from "./drivers/ai_sdk.js";
import * as program from "./drivers/ask.js";
import * as eve from "./drivers/eve.js";
import * as openai from "./drivers/openai.js";
import * as ours from "./drivers/ours.js";
import { python, sessionChat } from "./drivers/python.js";
import * as documented from "./drivers/documented.js";

const beside = (name) => readFileSync(new URL(`../clients/${name}`, import.meta.url), "utf8");
const { dependencies } = JSON.parse(beside("package.json"));
/** The name and the installed version of a package, also of an aliased one. */
const npm = (name) => {
  const pinned = dependencies[name].replace(/^npm:/, "");
  return pinned.includes("@") ? pinned.replace("@", " ") : `${name} ${pinned}`;
};
const pypi = (name) => new RegExp(`^(${name})==(.*)$`, "m").exec(beside("requirements.txt")).slice(1).join(" ");

const CLEAN_END = "cut behind HTTP/1.0";
const unreported = { [CLEAN_END]: "unreported" };
/** A cut within a line leaves JSON that does not parse; a cut between two lines is not noticed. */
const byLine = { [CLEAN_END]: "truncated or unreported" };

/** The client reads any response as a stream, and finds nothing in a JSON body. */
const takesAnyStatus = { outcome: "unreported", error: null, status: null, why: "it does not check the status" };
/** The response has begun, so the failure is in the stream. */
const hasBegun = {
  outcome: "failed",
  status: null,
  error: { code: "LLM_ERROR", message: FALLBACK },
  why: "its route begins the response at once, because the page does not check the status",
};
const throwsBody = { status: null, why: "it throws the body without the status" };

export const CLIENTS = [
  { name: "clients/js framed", wire: "framed", ask: ours.framed, ours: true },
  { name: "clients/js sse", wire: "sse", ask: ours.sse, ours: true },
  { name: "clients/js ndjson", wire: "ndjson", ask: ours.ndjson, ours: true },
  ...["framed", "sse", "ndjson"].map((wire) => ({
    name: `ragwire-server ask --wire ${wire}`,
    wire,
    ask: program.ask(wire),
    shows: program.shows(wire),
    ours: true,
    spawns: true,
  })),
  { name: `${pypi("httpx")} bytes, framed`, wire: "framed", ask: python("framed"), cut: unreported },
  { name: `${pypi("httpx")} aiter_lines, sse`, wire: "sse", ask: python("sse"), cut: byLine },
  { name: `${pypi("httpx")} aiter_lines, ndjson`, wire: "ndjson", ask: python("ndjson"), cut: byLine },
  {
    name: "Forge's JavaScript reader",
    wire: "forge",
    ask: documented.forge,
    cut: unreported,
    differs: {
      "before commit": hasBegun,
      "one byte per write": {
        text: "",
        events: [],
        outcome: "unreported",
        citations: null,
        why: "it loses an event whose two lines arrive in different reads",
      },
    },
  },
  {
    name: "Forge's Python reader",
    wire: "forge",
    ask: python("forge"),
    cut: byLine,
    differs: { "before commit": hasBegun },
  },
  {
    name: "session chat's JavaScript reader",
    wire: "session_chat",
    ask: documented.sessionChat,
    cut: unreported,
    differs: { "before commit": { error: null, why: "it throws the status without the body" } },
  },
  {
    name: "session chat's Python reader",
    wire: "session_chat",
    ask: sessionChat,
    cut: byLine,
    differs: { "before commit": takesAnyStatus },
  },
  ...[["ai5", ai5], ["ai", ai6], ["ai7", ai7]].map(([name, ai]) => ({
    name: `${npm(name)} DefaultChatTransport`,
    wire: "ai_sdk",
    ask: aiSdk.uiMessages(ai),
    cut: unreported,
    differs: { "before commit": throwsBody },
  })),
  {
    name: `${npm("ai")} TextStreamChatTransport`,
    wire: "framed",
    ask: aiSdk.text(ai6),
    // Our decoder reads its text.
    ours: true,
    differs: { "before commit": throwsBody },
  },
  { name: `${npm("@ag-ui/client")} HttpAgent`, wire: "ag_ui", ask: agent, cut: byLine },
  { name: `npm ${npm("openai")} stream`, wire: "openai", ask: openai.stream, cut: byLine },
  { name: `npm ${npm("openai")}`, wire: "openai_whole", ask: openai.whole },
  { name: `PyPI ${pypi("openai")} stream`, wire: "openai", ask: python("openai_stream"), cut: unreported },
  { name: `PyPI ${pypi("openai")}`, wire: "openai_whole", ask: python("openai_whole") },
  ...[["eve", eve011], ["eve018", eve018]].map(([name, client]) => ({
    name: npm(name),
    wire: "eve",
    ask: eve.session(client),
    resumes: true,
    cut: { cut: "completed", [CLEAN_END]: "completed or truncated or unreported" },
    cutWhy:
      "it fetches the rest if the connection broke or if the error of its JSON parser contains the word " +
      "`terminated` (`Unterminated string`); it reports nothing if the body ended between two lines",
    differs: { "before commit": { error: { message: FALLBACK }, why: "its errors have no code" } },
  })),
  {
    name: `${pypi("trustgraph-base")} graph_rag`,
    wire: "trustgraph",
    ask: python("trustgraph"),
    socket: true,
    cut: { cut: "hangs or truncated" },
    cutWhy: "it raises an error only until the socket is open; afterwards a caller that waits for a message is not notified",
    differs: { stop: { outcome: "completed", why: "it does not show the metadata, which report the stop" } },
  },
];
