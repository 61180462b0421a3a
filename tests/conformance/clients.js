// The clients: how each is asked, which wire it reads, and where it sees something else than the wire tells.
//
// `differs` is a table of cases: what the client sees otherwise there, and why. It is as much a fact about the published
// client as the rest of the suite; an empty one says that the client shows everything.
import * as ours from "./drivers/ours.js";
import { python } from "./drivers/python.js";
import * as seeds from "./drivers/seeds.js";

/** The client does not tell the status of a response. */
const noStatus = { status: null };
/** It takes any response for a stream, and finds nothing in a JSON body. */
const takesAnyStatus = { outcome: "unreported", error: null, status: null };

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
    tells: noStatus,
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
    tells: noStatus,
    cut: { "cut behind HTTP/1.0": "truncated or unreported" },
    differs: { "before commit": { ...takesAnyStatus, why: "it does not look at the status" } },
  },
];
