// What each client saw, as the tables of README.md.

/** One cell: the outcome, and how what was seen differs from what was true. */
export function cell(seen, kase) {
  const { outcome, status, error, text, events, citations } = seen;
  const words = [outcome === "http-error" ? `HTTP ${status ?? "error"}` : outcome];
  if (kase.error && !error) words.push("no error");
  else if (kase.error && !error.code) words.push("no code");
  if (text !== kase.text) words.push(textIs(text, kase));
  // A route need not tell what comes after the text.
  const missing = kase.events.length - events.length;
  const more = -missing - (kase.late?.length ?? 0);
  if (missing > 0) words.push(`${events.length} of ${kase.events.length} events`);
  if (more > 0) words.push(`${events.slice(-more).map((name) => `\`${name}\``).join(", ")} too`);
  if (kase.citations && citations !== kase.citations) words.push(citations === null ? "no citations" : `${citations} sources`);
  return words.join(", ");
}

function textIs(shown, { text: said, error }) {
  if (shown === "") return "no text";
  if (error && (shown === said + error.message || shown === `${said}\n\n${error.message}`)) return "its message as text";
  const replaced = said.replaceAll("\u001d", "\u241d").replaceAll("\u001e", "\u241e");
  if (shown === replaced) return "separators replaced";
  // Of what `ragwire-server ask` shows: every control character of it as a picture or U+FFFD.
  const isPicture = (letter) => letter === "\ufffd" || (letter >= "\u2400" && letter <= "\u2421");
  return Array.from(shown).some(isPicture) ? "control characters as pictures" : "other text";
}

/** The table of `rows`: by client, a map from the column's name to its cell. */
export function table(columns, rows) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  return [
    line(["client", ...columns]),
    line(["---", ...columns.map(() => "---")]),
    ...[...rows].map(([client, cells]) => line([client, ...columns.map((column) => cells.get(column) ?? "")])),
  ].join("\n");
}

/** Why a client sees something else, as a list. */
export function reasons(clients) {
  const said = clients.flatMap(({ name, differs = {}, cutWhy }) => [
    ...Object.entries(differs).map(([kase, { why }]) => `- ${name}, ${kase}: ${why}.`),
    ...(cutWhy ? [`- ${name}, cut: ${cutWhy}.`] : []),
  ]);
  return said.join("\n");
}
