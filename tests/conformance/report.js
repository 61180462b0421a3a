// The tables of README.md.

/** One cell: the outcome, and how the record differs from the content of the turn. */
export function cell(seen, kase) {
  const { outcome, status, error, text, events, citations } = seen;
  const words = [outcome === "http-error" ? `HTTP ${status ?? "error"}` : outcome];
  if (kase.error && !error) words.push("no error");
  else if (kase.error && !error.code) words.push("no code");
  if (text !== kase.text) words.push(difference(text, kase));
  // A route need not send the events after the text.
  const missing = kase.events.length - events.length;
  const more = -missing - (kase.late?.length ?? 0);
  if (missing > 0) words.push(`${events.length} of ${kase.events.length} events`);
  if (more > 0) words.push(`${events.slice(-more).map((name) => `\`${name}\``).join(", ")} too`);
  if (kase.citations && citations !== kase.citations) words.push(citations === null ? "no citations" : `${citations} sources`);
  return words.join(", ");
}

function difference(shown, { text: sent, error }) {
  if (shown === "") return "no text";
  if (error && (shown === sent + error.message || shown === `${sent}\n\n${error.message}`)) return "its message as text";
  const replaced = sent.replaceAll("\u001d", "\u241d").replaceAll("\u001e", "\u241e");
  if (shown === replaced) return "separators replaced";
  // `ragwire-server ask` shows every control character as a picture or U+FFFD.
  const isPicture = (letter) => letter === "\ufffd" || (letter >= "\u2400" && letter <= "\u2421");
  return Array.from(shown).some(isPicture) ? "control characters as pictures" : "other text";
}

/** The table of `rows`, which map each client to a map from column names to cells. */
export function table(columns, rows) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [
    line(["client", ...columns]),
    line(["---", ...columns.map(() => "---")]),
    ...[...rows].map(([client, cells]) => line([client, ...columns.map((column) => cells.get(column) ?? "")])),
  ].join("\n");
}

/** The reasons for the differences of each client, as a list. */
export function reasons(clients) {
  const lines = clients.flatMap(({ name, differs = {}, cutWhy }) => [
    ...Object.entries(differs).map(([kase, { why }]) => `- ${name}, ${kase}: ${why}.`),
    ...(cutWhy ? [`- ${name}, cut: ${cutWhy}.`] : []),
  ]);
  return lines.join("\n");
}
