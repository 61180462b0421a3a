// Citations: numbers in the text, a card with the quote, the list of sources, and the passage with the quote
// marked.

import { element, errorOf, make } from "./dom.js";
import { nameOf, originalOf } from "./originals.js";

const [card, dialog] = ["card", "passage"].map(element);
const [heading, place, original, body] = ["passage-heading", "passage-place", "passage-original", "passage-text"].map(element);
/** Space between a number and its card, in pixels. */
const GAP = 6;
/** Fewest words that are taken for a quote while the answer is written. */
const MIN_QUOTED = 4;
/** Time in which the pointer can move from a number to its card, in milliseconds. */
const LINGER = 250;

/**
 * Merges citations of the same passage. Returns the passages `{title, heading, page, document, chunk, quotes}`, and
 * for each number in the text the number of its passage.
 */
export function mergeCitations(citations, sources) {
  const [passages, numbers, places] = [[], [], new Map()];
  for (const { document_id, chunk_id, page_number, supporting_quote, heading: found } of citations) {
    const key = JSON.stringify([document_id, chunk_id]);
    if (!places.has(key)) {
      const source = sources.get(chunk_id);
      places.set(key, passages.length);
      passages.push({ title: source?.title ?? nameOf(document_id), heading: found ?? source?.heading ?? "", page: page_number ?? null, document: document_id, chunk: chunk_id, quotes: [] });
    }
    const { quotes } = passages[places.get(key)];
    if (!quotes.includes(supporting_quote)) quotes.push(supporting_quote);
    numbers.push({ passage: places.get(key), quote: supporting_quote });
  }
  return { passages, numbers };
}

/**
 * Returns the passage and the quote of a number in an answer that is being written. Which source a number cites is in
 * the end of the turn; before it, words that stand in a source as they are show the same.
 */
export function quotedBefore(answer, written, sources) {
  const at = answer.indexOf(`[${written}]`);
  if (at === -1) return null;
  const before = answer.slice(0, at).split(/\[\d{1,4}\]|\n/).at(-1);
  const quote = before.trim().replace(/^(?:[>*-]\s+)+/, "").replace(/^["“”]+|["“”]+$/g, "").trim();
  const squeezed = quote.replace(/\s+/g, " ");
  if (squeezed.split(" ").length < MIN_QUOTED) return null;
  const source = sources.find(({ text = "" }) => text.replace(/\s+/g, " ").includes(squeezed));
  if (source === undefined) return null;
  const { document_id: document, chunk_id: chunk, title, heading: found, page_numbers: [page = null] = [] } = source;
  return { quote, passage: { title: title ?? nameOf(document), heading: found ?? "", page, document, chunk, quotes: [quote] } };
}

/** Returns "heading · page 3", without what is unknown. */
export const placeOf = ({ heading: text, page }) => [text.replaceAll(" > ", " › "), page === null ? "" : `page ${page}`].filter((part) => part !== "").join(" · ");

/** Returns the list of passages below an answer. */
export function sourceItems({ passages }) {
  return passages.map((passage, index) => {
    const open = make("button", undefined, { type: "button", class: "source" }, make("span", `${index + 1}`, { class: "number" }), make("span", passage.title, { class: "name" }));
    const where = placeOf(passage);
    if (where !== "") open.append(make("span", where, { class: "where" }));
    open.addEventListener("click", () => openPassage(passage, passage.quotes));
    return make("li", undefined, {}, open, ...passage.quotes.map((quote) => make("blockquote", quote)));
  });
}

/* ---- the card ---- */

let shownFor = null;
let timer = 0;

function showCard(button, found) {
  const parts = [];
  if (found === null) parts.push(make("p", "The quote follows with the end of the answer."));
  else {
    parts.push(make("p", found.passage.title, { class: "name" }));
    const where = placeOf(found.passage);
    if (where !== "") parts.push(make("p", where, { class: "where" }));
    parts.push(make("blockquote", found.quote));
  }
  hideCard();
  shownFor = button;
  button.setAttribute("aria-describedby", "card");
  card.replaceChildren(...parts);
  card.hidden = false;
  if (found !== null) addOriginal(card, found.passage, () => shownFor === button && put(button));
  put(button);
}

function put(button) {
  const at = button.getBoundingClientRect();
  const size = card.getBoundingClientRect();
  const left = Math.max(GAP, Math.min(at.left, document.documentElement.clientWidth - size.width - GAP));
  const above = at.top - size.height - GAP;
  card.style.left = `${left}px`;
  card.style.top = `${above > GAP ? above : at.bottom + GAP}px`;
}

/** Hides the card, and returns whether it was shown. */
export function hideCard() {
  clearTimeout(timer);
  if (shownFor === null) return false;
  shownFor.removeAttribute("aria-describedby");
  shownFor = null;
  card.hidden = true;
  return true;
}

/** Shows cards and passages for the numbers in `container`. `find(button)` returns `{passage, quote}` or `null`. */
export function watchNumbers(container, find) {
  const numberOf = (event) => event.target.closest?.("button.cite") ?? null;
  const enter = (event) => {
    const button = numberOf(event);
    if (button === null) return;
    clearTimeout(timer);
    if (button !== shownFor) showCard(button, find(button));
  };
  const leave = () => {
    clearTimeout(timer);
    timer = setTimeout(hideCard, LINGER);
  };
  // Not `pointerover`, which is also sent when the page moves below a pointer that rests.
  container.addEventListener("pointermove", (event) => event.pointerType === "mouse" && enter(event));
  container.addEventListener("pointerout", (event) => numberOf(event) !== null && leave());
  container.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && enter(event));
  container.addEventListener("focusout", hideCard);
  container.addEventListener("click", (event) => {
    const button = numberOf(event);
    const found = button === null ? null : find(button);
    if (found === null) return;
    hideCard();
    openPassage(found.passage, [found.quote]);
  });
}
card.addEventListener("pointerenter", () => clearTimeout(timer));
card.addEventListener("pointerleave", hideCard);
addEventListener("scroll", hideCard, { passive: true });

/** Appends a link to the original file, if the server has it. */
async function addOriginal(parent, passage, added = () => {}) {
  const before = parent.firstChild;
  const href = await originalOf(passage);
  // Another passage may be shown by now.
  if (href === null || parent.firstChild !== before) return;
  parent.append(make("a", passage.page === null ? "Open the document" : `Open the document at page ${passage.page}`, { href, target: "_blank", rel: "noopener" }));
  added();
}

/* ---- the passage ---- */

async function openPassage(passage, quotes) {
  heading.textContent = passage.title;
  place.textContent = placeOf(passage);
  body.replaceChildren(...quotes.map((quote) => make("blockquote", quote)));
  original.replaceChildren(make("span"));
  addOriginal(original, passage);
  dialog.showModal();
  try {
    const [id, chunk] = [passage.document, passage.chunk].map(encodeURIComponent);
    const response = await fetch(`/v1/documents/${id}/chunks/${chunk}`);
    if (!response.ok) throw new Error(await errorOf(response));
    const { text } = await response.json();
    body.replaceChildren(...marked(text, quotes));
    body.querySelector("mark")?.scrollIntoView({ block: "nearest" });
  } catch (error) {
    body.append(make("p", `The passage cannot be opened: ${error.message}`, { class: "problem" }));
  }
}

/** Returns the passage with its quotes marked. A quote that is not found verbatim is shown above. */
function marked(text, quotes) {
  const [ranges, missing] = [[], []];
  for (const quote of quotes) {
    // Lines may be broken differently in the passage and in the quote.
    const words = quote.trim().split(/\s+/).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    const found = quote.trim() === "" ? null : new RegExp(words.join("\\s+")).exec(text);
    if (found === null) missing.push(make("blockquote", quote));
    else ranges.push([found.index, found.index + found[0].length]);
  }
  const chunk = make("p", undefined, { class: "chunk" });
  let at = 0;
  for (const [begin, end] of ranges.sort(([one], [other]) => one - other)) {
    if (begin < at) continue;
    chunk.append(text.slice(at, begin), make("mark", text.slice(begin, end)));
    at = end;
  }
  chunk.append(text.slice(at));
  return [...missing, chunk];
}
