// Renders the blocks of an answer as elements, and updates them while the answer is written.
//
// An update changes only what differs, so that a selection, the focus and the scroll position of a table survive.

import { copy, make } from "./dom.js";
import { parse } from "./markdown.js";

const ALIGNS = { center: "center", end: "end" };

/**
 * Shows `text` in `container`. `number` returns the number under which a citation is shown, or `null` if the
 * number in the text is not a citation.
 */
export function render(container, text, { open = false, number = () => null } = {}) {
  const blocks = parse(text, { open }).map((block) => build(block, number));
  morphChildren(container, blocks);
}

/** Keeps a citation on the line of the word before it, and of the punctuation after it. */
function joined(nodes) {
  return nodes.map((node, index) => {
    if (node.nodeName !== "BUTTON") return node;
    const [before, after] = [nodes[index - 1], nodes[index + 1]].map((near) => (near?.nodeType === Node.TEXT_NODE ? near : null));
    if (before !== null) before.data = before.data.replace(/ $/, "\u00a0");
    const mark = after === null ? "" : /^[.,;:!?)\]]*/.exec(after.data)[0];
    if (mark === "") return node;
    after.data = after.data.slice(mark.length);
    return make("span", undefined, { class: "cited" }, node, mark);
  });
}

function build(node, number) {
  if (typeof node === "string") return document.createTextNode(node);
  const children = () => joined((node.children ?? []).map((child) => build(child, number)));
  switch (node.tag) {
    case "heading":
      return make(`h${node.rank ?? 6}`, undefined, {}, ...children());
    case "pre":
      return codeBlock(node);
    case "table":
      return make("div", undefined, { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table" }, make("table", undefined, {}, ...children()));
    case "th":
    case "td":
      return make(node.tag, undefined, ALIGNS[node.align] ? { class: ALIGNS[node.align] } : {}, ...children());
    case "a":
      return make("a", undefined, { href: node.href, target: "_blank", rel: "noopener noreferrer nofollow" }, ...children());
    case "ol":
      return make("ol", undefined, node.start === 1 ? {} : { start: node.start }, ...children());
    case "cite":
      return citation(node.number, number(node.number));
    default:
      return make(node.tag, undefined, {}, ...children());
  }
}

function citation(written, shown) {
  if (shown === null) return document.createTextNode(`[${written}]`);
  return make("button", `[${shown}]`, { type: "button", class: "cite", "data-cite": written, "aria-label": `Citation ${shown}` });
}

function codeBlock({ language, text }) {
  const bar = make("div", undefined, { class: "code-bar" }, make("span", language), make("button", "Copy", { type: "button", class: "plain copy-code", "aria-label": "Copy the code" }));
  const body = make("pre", undefined, { tabindex: "0", role: "region", "aria-label": "Code" }, make("code", text));
  return make("div", undefined, { class: "code" }, bar, body);
}

/** Copies the code block of a click, if the click is on its button. */
export function copyCode(event) {
  const from = event.target.closest?.(".copy-code");
  if (from) copy(from.closest(".code").querySelector("code").textContent, from);
}

function morphChildren(parent, wanted) {
  wanted.forEach((node, index) => {
    const present = parent.childNodes[index];
    if (present === undefined) parent.append(node);
    else morph(present, node);
  });
  while (parent.childNodes.length > wanted.length) parent.lastChild.remove();
}

function morph(present, wanted) {
  if (present.nodeName !== wanted.nodeName) return present.replaceWith(wanted);
  if (present.nodeType === Node.TEXT_NODE) {
    // Appending keeps a selection within the text.
    if (wanted.data.startsWith(present.data)) present.appendData(wanted.data.slice(present.data.length));
    else present.data = wanted.data;
    return;
  }
  for (const { name } of [...present.attributes]) if (!wanted.hasAttribute(name)) present.removeAttribute(name);
  for (const { name, value } of wanted.attributes) if (present.getAttribute(name) !== value) present.setAttribute(name, value);
  morphChildren(present, [...wanted.childNodes]);
}
