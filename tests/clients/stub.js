// Answers that the page gets in place of the server's: those of a model, which the test server does not have, and
// those that have to be the same whatever the reference pipeline chooses.

/** Deletes the chats of earlier tests: a server with one user lists all of them. */
export async function forgetChats({ url }) {
  const { sessions } = await (await fetch(`${url}/v1/sessions`)).json();
  for (const { id } of sessions) await fetch(`${url}/v1/sessions/${id}`, { method: "DELETE" });
}

/** The ID of a stubbed turn. */
export const STUBBED = "1".repeat(32);

/** Lets the page get these frames for each question that it asks. */
export function answerWith(page, frames) {
  const body = frames.map((frame, index) => `${JSON.stringify({ index, ...frame })}\n`).join("");
  return page.route("**/v1/turns", (route) => route.fulfill({ status: 200, headers: { "content-type": "application/x-ndjson", "x-ragwire-turn": STUBBED }, body }));
}

/** A passage of the event `sources`, on page 4 of a PDF. */
export const passage = (chunk_id, heading, text) => ({ chunk_id, document_id: "doc", text, page_numbers: [4], title: "commit-rule.pdf", heading });
/** A citation of such a passage. */
export const cited = (chunk_id, supporting_quote) => ({ document_id: "doc", chunk_id, page_number: 4, supporting_quote, source_tool: "bm25" });
/** The end of a turn with these citations. */
export const completed = (citations) => ({ end: "completed", metadata: { citations, tools_used: ["bm25"], answered: true }, timestamp: "2026-01-02T03:04:05Z", elapsed_ms: 2400 });
