// The empty state: what is in the library, and questions that it can answer.

import { button, element, make, plural } from "./dom.js";

const [holdings, suggestions] = ["holdings", "suggestions"].map(element);
const QUESTIONS = 3;
/** A longer title makes an unnatural question. */
const MAX_WORDS = 7;
const ARTICLE = /^the\s/i;
/** Kinds of documents that have the title of a work rather than of a subject. */
const WORKS = ["pdf", "docx", "pptx", "odt", "odp", "epub"];
/** Passages of a document whose headings are read, spread over it. */
const PASSAGES = 6;
/** Headings of parts that every paper has. */
const PLAIN = /^(abstract|introduction|background|conclusions?|results|discussion|references|acknowledge?ments|appendix.*|contents)$/i;

/** Returns the documents of the user, or the samples if there are no others. */
function ownOf(documents) {
  const own = documents.filter(({ sample }) => !sample);
  return own.length > 0 ? own : documents;
}

/** Returns questions made from the titles of documents, the newest first. */
export function suggest(documents) {
  const titles = [...ownOf(documents)]
    .sort((one, other) => other.added_ms - one.added_ms)
    .map(({ title, name, kind }) => ({ title: title && title !== name ? title.trim() : "", kind }))
    .filter(({ title }) => title !== "" && title.split(/\s+/).length <= MAX_WORDS);
  const natural = ({ title }) => title.endsWith("?") || ARTICLE.test(title);
  const ordered = [...titles.filter(natural), ...titles.filter((each) => !natural(each))];
  return [...new Set(ordered.map(questionAbout))].slice(0, QUESTIONS);
}

function questionAbout({ title, kind }) {
  if (title.endsWith("?")) return title;
  if (WORKS.includes(kind) && title.split(/\s+/).length > 2) return `What is ${title} about?`;
  if (ARTICLE.test(title)) return `What is ${title[0].toLowerCase()}${title.slice(1)}?`;
  return `What do the documents say about ${title}?`;
}

/** Returns questions about the headings of a document. */
async function fromHeadings({ id, chunks }) {
  const places = Array.from({ length: Math.min(PASSAGES, chunks) }, (_, index) => Math.floor((chunks * (index + 0.5)) / Math.min(PASSAGES, chunks)));
  const found = await Promise.all(places.map((at) => headingOf(id, `${id}-${at}`).catch(() => "")));
  const headings = found.map((heading) => heading.split(" > ").at(-1).replace(/^[A-Z]?[\d.]+\s+/, "").trim());
  const telling = headings.filter((heading) => heading !== "" && heading.split(/\s+/).length <= MAX_WORDS && !PLAIN.test(heading));
  return [...new Set(telling)].map((title) => questionAbout({ title, kind: "" }));
}

async function headingOf(document, chunk) {
  const response = await fetch(`/v1/documents/${encodeURIComponent(document)}/chunks/${encodeURIComponent(chunk)}`);
  return response.ok ? ((await response.json()).heading ?? "") : "";
}

/** The last list of documents that was shown. */
let current = null;

/** Shows the state of the library; `documents` is `null` if the server does not manage any. */
export async function showWelcome(documents, ask, openLibrary) {
  current = documents;
  suggestions.replaceChildren();
  if (documents === null) return (holdings.textContent = "");
  if (documents.length === 0) {
    holdings.replaceChildren("The library is empty. ", button("Add documents", openLibrary, { class: "strong" }));
    return;
  }
  const passages = documents.reduce((sum, { chunks }) => sum + chunks, 0);
  const names = [...ownOf(documents)].sort((one, other) => other.added_ms - one.added_ms).slice(0, 3).map(({ title, name }) => `“${title || name}”`);
  const others = documents.length > names.length ? " and others" : "";
  const only = documents.every(({ sample }) => sample) ? " They are samples, about this program." : "";
  holdings.replaceChildren(`The library has ${plural(documents.length, "document")} with ${plural(passages, "passage")}: ${names.join(", ")}${others}.${only} `,
    button("Add documents", openLibrary, { class: only === "" ? "plain" : "" }));
  const add = (questions) => suggestions.append(...questions.map((question) => make("li", undefined, {}, button(question, () => ask(question), { class: "suggestion" }))));
  const questions = suggest(documents);
  add(questions);
  if (questions.length === QUESTIONS) return;
  const newest = ownOf(documents).reduce((one, other) => (other.added_ms > one.added_ms ? other : one));
  const more = await fromHeadings(newest);
  if (current === documents) add(more.filter((question) => !questions.includes(question)).slice(0, QUESTIONS - questions.length));
}
