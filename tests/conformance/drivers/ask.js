// `ragwire-server ask`: the decoders of the crate as a program. It shows steps in words and control
// characters as pictures.
import { execFile } from "node:child_process";
import { BINARY } from "../../clients/harness.js";
import { nothing } from "../record.js";

/** The meaning of its exit status, as in its help. */
const OUTCOMES = { 0: "completed", 1: "failed", 2: "truncated", 3: "stopped", 4: "truncated" };

/** Events that the program does not print: another step says the same. */
const QUIET = new Set([
  "query_analysis",
  "cache_miss",
  "retrieval_start",
  "generating",
  "thinking",
  "structured_result",
]);

const run = (args) =>
  new Promise((resolve) => {
    execFile(BINARY, args, (error, out, err) => resolve({ code: error?.code ?? 0, out, err }));
  });

export const ask = (wire) => async (url, prompt) => {
  const seen = nothing();
  const args = ["ask", "--server", url, "--session", crypto.randomUUID(), "--wire", wire, prompt];
  const { code, out, err } = await run(args);
  seen.outcome = OUTCOMES[code] ?? `status ${code}`;
  const lines = err.split("\n");
  seen.events = lines.filter((line) => line.startsWith("· ")).map(() => "step");
  const isWhole = ["completed", "failed", "stopped"].includes(seen.outcome);
  if (isWhole) seen.citations = lines.filter((line) => /^\[\d+\] /.test(line)).length;
  // It ends the text with a line end for the terminal.
  seen.text = isWhole ? out.replace(/\n$/, "") : out;
  const failed = /^the turn failed: (.*) \((\w+)\)$/m.exec(err);
  const refused = /^error: (.*) \((\d{3}) [\w ]+, (\w+)\)$/m.exec(err);
  if (failed) seen.error = { code: failed[2], message: failed[1] };
  else if (refused) {
    const [, message, status, code] = refused;
    Object.assign(seen, { outcome: "http-error", status: Number(status), error: { code, message }, citations: null });
  } else if (seen.outcome === "truncated") seen.error = { message: err.trim() };
  return seen;
};

/** Changes the expected record to what the program shows on any wire, including events of a framed trailer. */
export const shows = (wire) => (seen, { late = [] }) => {
  if (wire === "framed") seen.events.push(...late);
  const picture = (letter) => String.fromCodePoint(letter === "\x7f" ? 0x2421 : 0x2400 + letter.codePointAt(0));
  if (seen.outcome === "failed" && !seen.text.endsWith(seen.error.message)) {
    seen.text += (seen.text && "\n\n") + seen.error.message;
  }
  seen.text = seen.text.replace(/[\0-\x08\x0b-\x1f\x7f]/g, picture).replace(/[\x80-\x9f]/g, "\ufffd");
  seen.events = seen.events.filter((event) => !QUIET.has(event)).map(() => "step");
};
