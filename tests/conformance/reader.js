// `HttpAgent` of @ag-ui/client: reads jobs `{id, url, prompt}`, one on each line, and answers each
// with `{id, seen}`.
import { createInterface } from "node:readline";
import { read } from "../clients/wires/read_ag_ui.js";
import { broke, nothing, refused } from "./record.js";

// The client logs and rejects in addition to the failure that it reports.
process.on("unhandledRejection", () => {});
console.error = () => {};

/** The names of our events that an AG-UI event represents. */
const eventOf = (event) => {
  if (event.type === "CUSTOM") return [event.name];
  return event.type === "REASONING_START" ? ["reasoning"] : [];
};

async function ask({ url, prompt }) {
  const seen = nothing();
  const { events, failed, error, outcome, messages } = await read(`${url}/ag-ui`, prompt);
  seen.events = events.flatMap(eventOf);
  // A tool or a thought within the answer divides it into several messages.
  const answers = messages.filter(({ role, id }) => role === "assistant" && /-message(-\d+)?$/.test(id));
  seen.text = answers.map(({ content }) => content).join("");
  if (outcome) {
    seen.outcome = outcome === "cancelled" ? "stopped" : "completed";
    seen.citations = events.at(-1).result.citations.length;
  } else if (error) {
    Object.assign(seen, { outcome: "failed", error, citations: events.at(-1).metadata.citations.length });
  } else if (failed) {
    const http = /^HTTP (\d+): (.*)$/s.exec(failed);
    if (http) refused(seen, Number(http[1]), http[2]);
    else broke(seen, { message: failed });
  }
  return seen;
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, ...job } = JSON.parse(line);
  ask(job).then(
    (seen) => console.log(JSON.stringify({ id, seen })),
    (error) => {
      process.stderr.write(`${error.stack}\n`);
      process.exit(1);
    },
  );
}
