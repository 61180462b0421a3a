// Parses the Markdown within a block into a tree of strings and nodes `{tag, children}`.
//
// Each rule looks for its end at most once without finding it, so that the time is linear in the text, whatever a
// model writes. With `open` the text may continue: what is begun but not closed is shown as it will be once it is
// closed, and half a marker is not shown, so that nothing jumps.

/** Deepest nesting of emphasis; deeper markers are text. */
const MAX_DEPTH = 8;
const PLAIN = /[^\\`*_~[!<h]+/y;
const CITATION = /\[(\d{1,4})\]/y;
const LINK = /!?\[([^[\]\n]{1,500})\]\(<?([^()\s<>]{1,2000}(?:\([^()\s]{0,200}\)[^()\s<>]{0,2000})?)>?(?:[ \t]{1,9}"[^"\n]{0,500}")?\)/y;
const HALF_LINK = /!?\[([^[\]\n]{0,500})(\]\([^()\s]{0,2000}|\])?$/y;
const ADDRESS = /https?:\/\/[^\s<>"'`|]{1,2000}/y;
const BRACKETED = /<(https?:\/\/[^\s<>]{1,2000})>/y;
const WORD = /[\p{L}\p{N}_]/u;
const MARKERS = { "**": "strong", __: "strong", "~~": "del", "*": "em", _: "em" };

/** Returns the address if a link to it is safe, otherwise `null`. */
export function safeAddress(address) {
  try {
    const url = new URL(address);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

function match(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/** Parses one text. */
export function inline(text, open = false, depth = 0) {
  const nodes = [];
  const unclosed = new Set();
  let plain = "";
  const add = (node) => {
    if (plain !== "") nodes.push(plain);
    plain = "";
    nodes.push(node);
  };
  for (let at = 0; at < text.length; ) {
    const rule = RULES[text[at]];
    const run = rule === undefined ? match(PLAIN, text, at)[0] : null;
    const found = run === null ? rule({ text, at, open, depth, unclosed }) : { text: run, end: at + run.length };
    if (found === null) plain += text[at];
    else if (found.node !== undefined) add(found.node);
    else plain += found.text;
    at = found?.end ?? at + 1;
  }
  if (plain !== "") nodes.push(plain);
  return nodes;
}

const RULES = { "\\": escape, "`": code, "[": bracket, "!": bracket, "<": address, h: address, "*": emphasis, _: emphasis, "~": emphasis };

const nothing = (end) => ({ text: "", end });

function escape({ text, at, open }) {
  if (at + 1 === text.length) return open ? nothing(at + 1) : null;
  return /[!-/:-@[-`{-~]/.test(text[at + 1]) ? { text: text[at + 1], end: at + 2 } : null;
}

function code({ text, at, open, unclosed }) {
  const ticks = match(/`+/y, text, at)[0];
  const begin = at + ticks.length;
  if (begin === text.length && open) return nothing(begin);
  if (!unclosed.has(ticks)) {
    for (let close = text.indexOf(ticks, begin); close !== -1; ) {
      const run = match(/`+/y, text, close)[0].length;
      if (run === ticks.length) return { node: codeNode(text.slice(begin, close)), end: close + run };
      close = text.indexOf(ticks, close + run);
    }
    unclosed.add(ticks);
    if (open) return { node: codeNode(text.slice(begin).replace(/`+$/, "")), end: text.length };
  }
  return { text: ticks, end: begin };
}

const codeNode = (text) => ({ tag: "code", children: [/^ .*[^ ].* $/s.test(text) ? text.slice(1, -1) : text] });

function bracket({ text, at, open, depth }) {
  const citation = match(CITATION, text, at);
  if (citation !== null && text[at + citation[0].length] !== "(") {
    return { node: { tag: "cite", number: Number(citation[1]) }, end: at + citation[0].length };
  }
  const link = match(LINK, text, at);
  if (link !== null) {
    const href = safeAddress(link[2]);
    if (href === null) return { text: link[0], end: at + link[0].length };
    return { node: { tag: "a", href, children: inline(link[1], false, depth + 1) }, end: at + link[0].length };
  }
  if (!open) return null;
  const half = match(HALF_LINK, text, at);
  if (half === null || half[2] === "]") return null;
  return { text: half[2] === undefined && /^\d*$/.test(half[1]) ? "" : half[1], end: text.length };
}

function address({ text, at }) {
  const bracketed = match(BRACKETED, text, at);
  const found = bracketed?.[1] ?? (at > 0 && WORD.test(text[at - 1]) ? undefined : match(ADDRESS, text, at)?.[0]);
  if (found === undefined) return null;
  // Punctuation at the end belongs to the sentence.
  const bare = bracketed === null ? found.slice(0, lengthWithout(found, ".,;:!?)]*_~")) : found;
  const href = safeAddress(bare);
  if (href === null) return null;
  return { node: { tag: "a", href, children: [bare] }, end: at + (bracketed?.[0] ?? bare).length };
}

function lengthWithout(text, ends) {
  let length = text.length;
  while (length > 0 && ends.includes(text[length - 1])) length -= 1;
  return length;
}

function emphasis({ text, at, open, depth, unclosed }) {
  const twice = text[at] + text[at];
  const marker = text.startsWith(twice, at) ? twice : text[at];
  const begin = at + marker.length;
  if (MARKERS[marker] === undefined) return begin === text.length && open ? nothing(begin) : null;
  const literal = { text: marker, end: begin };
  if (begin === text.length) return open ? nothing(begin) : literal;
  const inWord = marker[0] === "_" && at > 0 && WORD.test(text[at - 1]);
  if (depth >= MAX_DEPTH || inWord || /\s/.test(text[begin])) return literal;
  if (unclosed.has(marker)) return literal;
  const close = closing(text, marker, begin);
  if (close !== -1) {
    return { node: { tag: MARKERS[marker], children: inline(text.slice(begin, close), false, depth + 1) }, end: close + marker.length };
  }
  unclosed.add(marker);
  // One star or underline that is not closed is more often a sign than an emphasis.
  if (!open || marker.length === 1) return literal;
  return { node: { tag: MARKERS[marker], children: inline(text.slice(begin).replace(/[*_~]$/, ""), true, depth + 1) }, end: text.length };
}

/** Returns where the marker closes, or -1. */
function closing(text, marker, begin) {
  for (let at = text.indexOf(marker, begin + 1); at !== -1; at = text.indexOf(marker, at + 1)) {
    const after = text[at + marker.length] ?? " ";
    if (/\s/.test(text[at - 1])) continue;
    if (marker[0] === "_" && WORD.test(after)) continue;
    if (marker.length === 1 && after === marker) {
      at += 1;
      continue;
    }
    // In `***` the outer marker closes last.
    return marker.length === 2 && after === marker[0] ? at + 1 : at;
  }
  return -1;
}
