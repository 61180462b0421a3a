// Parses the Markdown of an answer into blocks `{tag, children, …}`: headings, paragraphs, lists, quotes, tables,
// code and rules. HTML is text. The first blocks of a text do not change when text follows it, so that a stream
// only changes its last block.

import { inline } from "./inline.js";

/** Deepest nesting of lists and quotes; deeper ones are paragraphs. */
const MAX_DEPTH = 12;
/** Most columns of a table; further cells are left out. */
const MAX_COLUMNS = 64;
const FENCE = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`\s]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})(?=[ \t]|$)/;
const RULE = /^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:[ \t]+|$)/;
const DELIMITER = /^[ \t]*\|?[ \t:|-]*-[ \t:|-]*$/;
/** A line that is only the beginning of a marker: a list, a rule, a heading or a fence may follow. */
const HALF_MARKER = /^ {0,3}(?:[-*+_=>~`]{1,3}|#{1,6}|\d{1,3}[.)]?)$/;

/** Parses a text. With `open` it may continue. */
export function parse(text, { open = false } = {}) {
  const lines = text.replace(/\r\n?/g, "\n").replaceAll("\t", "    ").split("\n");
  if (open && lines.length > 0 && HALF_MARKER.test(lines.at(-1))) lines.pop();
  const found = blocks(lines, open, 0);
  nest(found);
  return found;
}

function blocks(lines, open, depth) {
  const found = [];
  for (let at = 0; at < lines.length; ) {
    if (lines[at].trim() === "") {
      at += 1;
      continue;
    }
    const rules = depth < MAX_DEPTH ? [fence, heading, rule, quote, list, table] : [];
    let taken = null;
    for (const read of rules) {
      taken = read(lines, at, open, depth);
      if (taken !== null) break;
    }
    taken ??= paragraph(lines, at, open);
    found.push(taken.node);
    at = taken.end;
  }
  return found;
}

function fence(lines, at) {
  const begin = FENCE.exec(lines[at]);
  if (begin === null || (begin[1][0] === "`" && lines[at].indexOf("`", lines[at].indexOf(begin[1]) + begin[1].length) !== -1)) return null;
  const body = [];
  let end = at + 1;
  for (; end < lines.length; end += 1) {
    const line = lines[end].trim();
    if (line.length >= begin[1].length && line[0] === begin[1][0] && line === line[0].repeat(line.length)) return code(begin[2], body, end + 1);
    body.push(lines[end]);
  }
  return code(begin[2], body, end);
}

const code = (language, body, end) => ({ node: { tag: "pre", language, text: body.join("\n") }, end });

function heading(lines, at, open) {
  const begin = HEADING.exec(lines[at]);
  if (begin === null) return null;
  const text = lines[at].slice(begin[0].length).trim();
  let length = text.length;
  while (length > 0 && text[length - 1] === "#") length -= 1;
  const bare = length === 0 || text[length - 1] === " " ? text.slice(0, length).trim() : text;
  return { node: { tag: "heading", level: begin[1].length, children: inline(bare, isLast(lines, at + 1, open)) }, end: at + 1 };
}

const isLast = (lines, end, open) => open && end >= lines.length;

const rule = (lines, at) => (RULE.test(lines[at]) ? { node: { tag: "hr", children: [] }, end: at + 1 } : null);

function quote(lines, at, open, depth) {
  let end = at;
  while (end < lines.length && QUOTE.test(lines[end])) end += 1;
  if (end === at) return null;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ""));
  return { node: { tag: "blockquote", children: blocks(inner, isLast(lines, end, open), depth + 1) }, end };
}

const indentOf = (line) => line.length - line.trimStart().length;

/** Reads a list. Two spaces are enough to continue an item, because models do not count further. */
function list(lines, at, open, depth) {
  const first = ITEM.exec(lines[at]);
  if (first === null || first[1].length > 3) return null;
  const kind = first[2].at(-1);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const line = lines[end];
    const begin = ITEM.exec(line);
    const indent = indentOf(line);
    if (begin !== null && indent < first[1].length + 2 && begin[2].at(-1) === kind && !RULE.test(line)) {
      items.push({ lines: [line.slice(begin[0].length)], width: begin[0].length });
    } else if (line.trim() === "") {
      // A blank line continues the list only if the next line belongs to it.
      let next = end;
      while (next < lines.length && lines[next].trim() === "") next += 1;
      const after = next < lines.length ? ITEM.exec(lines[next]) : null;
      const continues = next < lines.length && (indentOf(lines[next]) >= first[1].length + 2 || (after !== null && after[2].at(-1) === kind && !RULE.test(lines[next])));
      if (!continues) break;
      items.at(-1).lines.push("");
    } else if (indent >= first[1].length + 2) {
      items.at(-1).lines.push(line.slice(Math.min(indent, items.at(-1).width)));
    } else if (items.at(-1).lines.at(-1).trim() !== "" && !begins(line)) {
      items.at(-1).lines.push(line.trimStart());
    } else break;
    end += 1;
  }
  const children = items.map(({ lines: inner }, index) => {
    const content = blocks(inner, isLast(lines, end, open) && index === items.length - 1, depth + 1);
    return { tag: "li", children: content.flatMap((block) => (block.tag === "p" && content.filter(({ tag }) => tag === "p").length === 1 ? block.children : [block])) };
  });
  const ordered = /\d/.test(first[2]);
  return { node: { tag: ordered ? "ol" : "ul", ...(ordered ? { start: Number.parseInt(first[2], 10) } : {}), children }, end };
}

const begins = (line) => [FENCE, HEADING, RULE, QUOTE, ITEM].some((pattern) => pattern.test(line));

function cells(line) {
  const bare = line.trim().replace(/^\|/, "").replace(/(^|[^\\])\|$/, "$1");
  return bare.split(/(?<!\\)\|/).slice(0, MAX_COLUMNS).map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function table(lines, at, open) {
  if (!lines[at].includes("|")) return null;
  const next = lines[at + 1];
  // While the table is written, its delimiter may still be on its way.
  const begun = open && lines[at].trimStart().startsWith("|") && (next === undefined || (at + 2 === lines.length && /^[ \t:|-]*$/.test(next)));
  if (!begun && !(next !== undefined && next.includes("-") && next.includes("|") && DELIMITER.test(next))) return null;
  const aligns = begun ? [] : cells(next).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "end") : ""));
  const head = cells(lines[at]);
  const rows = [];
  let end = Math.min(at + 2, lines.length);
  for (; end < lines.length && lines[end].includes("|") && lines[end].trim() !== ""; end += 1) rows.push(cells(lines[end]));
  const last = isLast(lines, end, open);
  const row = (texts, tag, isOpen) => ({
    tag: "tr",
    children: head.map((_, column) => ({ tag, align: aligns[column] ?? "", children: inline(texts[column] ?? "", isOpen && column >= texts.length - 1) })),
  });
  const body = rows.map((texts, index) => row(texts, "td", last && index === rows.length - 1));
  return { node: { tag: "table", children: [{ tag: "thead", children: [row(head, "th", last && rows.length === 0)] }, { tag: "tbody", children: body }] }, end };
}

function paragraph(lines, at, open) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() !== "" && !begins(lines[end])) {
    if (lines[end].includes("|") && DELIMITER.test(lines[end + 1] ?? "") && (lines[end + 1] ?? "").includes("|")) break;
    end += 1;
  }
  const text = lines.slice(at, end).map((line) => line.trim()).join("\n");
  return { node: { tag: "p", children: inline(text, isLast(lines, end, open)) }, end };
}

/** Gives headings the ranks 3 to 6 without gaps, each by the headings before it. */
function nest(found) {
  const levels = [];
  for (const block of found) {
    if (block.tag !== "heading") continue;
    while (levels.length > 0 && levels.at(-1) >= block.level) levels.pop();
    levels.push(block.level);
    block.rank = Math.min(6, 2 + levels.length);
  }
}
