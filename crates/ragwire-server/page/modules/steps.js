// Describes what a turn does: one line per step, and one line about all of them.

import { plural } from "./dom.js";

const asText = (response) => (typeof response === "string" ? response : JSON.stringify(response));

/** Returns the line of an event, or `null` for an event that repeats the one before or after it. */
export function describe(event) {
  switch (event.event) {
    case "search":
      return `Searching for “${event.query ?? ""}”`;
    case "retrieval_start":
    case "cache_miss":
    case "tool_call":
    case "queued":
    case "input_requested":
    case "thinking":
    case "retract":
      return null;
    case "input_resolved":
      return event.response === undefined ? "Not answered" : `Answered: ${asText(event.response)}`;
    case "retrieval_result":
      return `Found ${plural(event.chunks_found, "passage")}`;
    case "query_analysis":
      return event.decomposed ? "Split the question into parts" : "Analyzed the question";
    case "cache_hit":
      return `Used an earlier answer: “${event.original_query}”`;
    case "tool_result":
      return `Used ${event.tool.replaceAll("_", " ")}`;
    case "graph_explanation":
      return `Followed ${plural(event.triples.length, "statement")}`;
    case "crag_evaluation":
      return judged(event);
    case "verification":
      return `${event.claims_supported} of ${plural(event.claims_checked, "claim")} supported`;
    case "rerank_result":
      return event.input_count === event.output_count ? null : `Kept the best ${event.output_count} of ${event.input_count}`;
    case "review":
      return `Review ${event.iteration}: ${event.verdict}${event.feedback ? ` – ${event.feedback}` : ""}`;
    case "sources":
      return `Reading ${plural(event.sources?.length ?? 0, "passage")}`;
    case "generation_start":
      return event.model && event.model !== "extractive" ? `Writing the answer with ${event.model}` : "Choosing sentences";
    case "reasoning":
      return event.content;
    default:
      return event.event.replaceAll("_", " ");
  }
}

function judged({ correct, ambiguous, incorrect }) {
  const all = correct + ambiguous + incorrect;
  if (all === 0) return "No passage to judge";
  return ambiguous === 0 ? `${correct} of ${plural(all, "passage")} fit the question` : `${correct} of ${plural(all, "passage")} fit the question, ${ambiguous} in part`;
}

/** Counts what the summary reports. */
export class Counts {
  searches = 0;
  passages = 0;
  used = 0;
  unsupported = 0;
  milliseconds = null;

  take(event) {
    if (event.event === "search") this.searches += 1;
    if (event.event === "sources") this.passages = Math.max(this.passages, event.sources?.length ?? 0);
    if (event.event === "verification") this.unsupported = event.claims_checked - event.claims_supported;
  }
}

/** Returns the line about all steps. */
export function summary({ searches, passages, used, unsupported, milliseconds }) {
  const parts = [];
  if (searches > 0) parts.push(searches === 1 ? "Searched once" : `Searched ${searches} times`);
  if (passages > 0) parts.push(plural(passages, "passage"));
  if (used > 0) parts.push(`${used} used`);
  if (unsupported > 0) parts.push(`${plural(unsupported, "claim")} not supported`);
  if (milliseconds !== null) parts.push(milliseconds < 100 ? "<\u00a00.1\u00a0s" : `${(milliseconds / 1000).toFixed(milliseconds < 9950 ? 1 : 0)}\u00a0s`);
  return parts.join(" · ") || "Steps";
}
