// The clients: how each is asked, which wire it reads, and where it sees something else than the wire tells.
//
// | member | |
// |---|---|
// | `ask(url, prompt, server)` | gives the record of `record.js`; `server` is the same one without the proxy |
// | `ours` | its parser is this project's: a cut turn has to be `truncated` |
// | `spawns` | it is a program, started for each turn, and so it is cut less often |
// | `socket` | it speaks WebSocket |
// | `resumes` | where its connection breaks it goes on by itself |
// | `shows` | what it makes of every turn |
// | `differs` | by case, what it sees otherwise there, and why |
// | `cut` | what it makes of cut turns where that is not always `truncated`; `cutWhy`, why not what one may expect |
//
// All of it is as much a fact about the published client as the rest is about the server; a client without `differs` shows everything.
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
import * as seeds from "./drivers/seeds.js";

const beside = (name) => readFileSync(new URL(`../clients/${name}`, import.meta.url), "utf8");
const { dependencies } = JSON.parse(beside("package.json"));
/** A package with the version that is installed, whatever it is called here. */
const npm = (name) => {
  const pinned = dependencies[name].replace(/^npm:/, "");
  return pinned.includes("@") ? pinned.replace("@", " ") : `${name} ${pinned}`;
};
const pypi = (name) => new RegExp(`^(${name})==(.*)$`, "m").exec(beside("requirements.txt")).slice(1).join(" ");

const CLEAN_END = "cut behind HTTP/1.0";
const unreported = { [CLEAN_END]: "unreported" };
/** Within a line its JSON does not parse; between two lines nothing is missing. */
const byLine = { [CLEAN_END]: "truncated or unreported" };

/** It takes any response for a stream, and finds nothing in a JSON body. */
const takesAnyStatus = { outcome: "unreported", error: null, status: null, why: "it does not look at the status" };
const throwsBody = { status: null, why: "it throws the body, and not the status" };

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
    ask: seeds.forge,
    cut: unreported,
    differs: {
      "before commit": takesAnyStatus,
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
    cut: byLine,
    differs: { "before commit": takesAnyStatus },
  },
  {
    name: "session chat's JavaScript reader",
    wire: "session_chat",
    ask: seeds.sessionChat,
    cut: unreported,
    differs: { "before commit": { error: null, why: "it throws the status, and leaves the body" } },
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
    // Its text goes through our decoder.
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
      "it asks for the rest, and gets it, where the connection broke or where the error of its JSON parser holds the word " +
      "`terminated` (`Unterminated string`); it reports nothing where the body ended between two lines",
    differs: { "before commit": { error: { message: FALLBACK }, why: "an error of Eve's has no code" } },
  })),
  {
    name: `${pypi("trustgraph-base")} graph_rag`,
    wire: "trustgraph",
    ask: python("trustgraph"),
    socket: true,
    cut: { cut: "hangs or truncated" },
    cutWhy: "it raises only until the socket is open; afterwards nobody tells the one who waits for a message that there will be none",
    differs: { stop: { outcome: "completed", why: "it shows nothing of the metadata, where the stop is told" } },
  },
];
