// The empty state: what is in the library, and questions that it can answer.

import { button, element, make, plural } from "./dom.js";

const [holdings, suggestions] = ["holdings", "suggestions"].map(element);
const QUESTIONS = 3;
/** A longer title makes an unnatural question. */
const MAX_WORDS = 7;
const ARTICLE = /^the\s/i;

/** Returns questions made from the titles of documents, the newest first. */
export function suggest(documents) {
  const titles = [...documents]
    .sort((one, other) => other.added_ms - one.added_ms)
    .map(({ title, name }) => (title && title !== name ? title.trim() : ""))
    .filter((title) => title !== "" && title.split(/\s+/).length <= MAX_WORDS);
  const natural = (title) => title.endsWith("?") || ARTICLE.test(title);
  const ordered = [...titles.filter(natural), ...titles.filter((title) => !natural(title))];
  return [...new Set(ordered.map(questionAbout))].slice(0, QUESTIONS);
}

function questionAbout(title) {
  if (title.endsWith("?")) return title;
  if (ARTICLE.test(title)) return `What is ${title[0].toLowerCase()}${title.slice(1)}?`;
  return `What do the documents say about ${title}?`;
}

/** Shows the state of the library; `documents` is `null` if the server has none to manage. */
export function showWelcome(documents, ask, openLibrary) {
  suggestions.replaceChildren();
  if (documents === null) return (holdings.textContent = "");
  if (documents.length === 0) {
    holdings.replaceChildren("The library is empty. ", button("Add documents", openLibrary, { class: "strong" }));
    return;
  }
  const passages = documents.reduce((sum, { chunks }) => sum + chunks, 0);
  const names = [...documents].sort((one, other) => other.added_ms - one.added_ms).slice(0, 3).map(({ title, name }) => `“${title || name}”`);
  const more = documents.length > names.length ? " and others" : "";
  holdings.textContent = `The library has ${plural(documents.length, "document")} with ${plural(passages, "passage")}: ${names.join(", ")}${more}.`;
  suggestions.append(...suggest(documents).map((question) => make("li", undefined, {}, button(question, () => ask(question), { class: "suggestion" }))));
}
