// The library: what is in it, search, sort, pages of rows, and deletion that can be undone for some seconds.

import { button, element, errorOf, iconButton, make, plural } from "./dom.js";
import { setDocuments } from "./originals.js";
import { filesOf, inFolder, send } from "./upload.js";

const [dialog, opener, upload, folder, drop, status] = ["library", "open-library", "upload", "upload-folder", "drop", "upload-status"].map(element);
const [sharing, share] = ["sharing", "share"].map(element);
const [samples, removeSamples] = ["samples", "remove-samples"].map(element);
const [list, filter, sort, count] = ["documents", "filter", "sort", "count"].map(element);
const [pages, previous, next, range] = ["pages", "previous", "next", "range"].map(element);
/** Rows per page. */
const ROWS = 50;
/** How long a deletion can be undone, in milliseconds. */
const UNDO_MS = 8000;

const ORDERS = {
  name: (one, other) => one.name.localeCompare(other.name, undefined, { numeric: true }),
  added: (one, other) => other.added_ms - one.added_ms,
  size: (one, other) => other.text_bytes - one.text_bytes,
};

let documents = [];
let first = 0;
/** The documents `{records, name, timer}` that are about to be deleted. */
let deleting = null;
let changed = () => {};

function size(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  return bytes < 1e6 ? `${(bytes / 1000).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Loads the list of documents. */
export async function load() {
  try {
    const response = await fetch("/v1/documents");
    // The server is starting, and the list is loaded again once it is ready.
    if (response.status === 503) return;
    if (response.status === 404) {
      // An orchestrator outside of the server answers: the server manages no documents.
      opener.hidden = true;
      return changed(null);
    }
    if (!response.ok) throw new Error(await errorOf(response));
    let page = await response.json();
    documents = page.documents;
    sharing.hidden = !page.private_uploads;
    while (page.next !== undefined) {
      const more = await fetch(`/v1/documents?limit=10000&start=${page.next}`);
      if (!more.ok) throw new Error(await errorOf(more));
      page = await more.json();
      documents.push(...page.documents);
    }
    const gone = new Set(deleting?.records.map(({ id }) => id));
    documents = documents.filter(({ id }) => !gone.has(id));
    setDocuments(documents);
    show();
    changed(documents);
  } catch (error) {
    status.textContent = `The documents cannot be listed: ${error.message}`;
  }
}

function show() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = documents.filter(({ name, title }) => words.every((word) => `${name} ${title ?? ""}`.toLowerCase().includes(word)));
  found.sort(ORDERS[sort.value]);
  first = Math.max(0, Math.min(first, Math.floor((found.length - 1) / ROWS) * ROWS));
  const rows = found.slice(first, first + ROWS);
  list.replaceChildren(...rows.map(row));
  if (documents.length === 0) count.textContent = "The library is empty.";
  else count.textContent = found.length === documents.length ? plural(found.length, "document") : `${found.length.toLocaleString("en")} of ${plural(documents.length, "document")}`;
  samples.hidden = documents.every(({ sample }) => sample) || !documents.some(({ sample, removable }) => sample && removable);
  // Documents that all users share cannot be removed here, and neither can those of others.
  if (documents.some(({ removable }) => !removable)) count.textContent += ". You can delete those that you added.";
  pages.hidden = found.length <= ROWS;
  range.textContent = `${first + 1}–${first + rows.length} of ${found.length.toLocaleString("en")}`;
  previous.disabled = first === 0;
  next.disabled = first + ROWS >= found.length;
}

function row(record) {
  const facts = [record.pages === undefined ? "" : plural(record.pages, "page"), plural(record.chunks, "passage"), record.text_bytes === undefined ? "" : size(record.text_bytes), record.shared === false ? "only you find it" : ""];
  const title = record.title && record.title !== record.name ? [make("span", record.title, { class: "title" }), " · "] : [];
  const item = make("li", undefined, { "data-id": record.id },
    make("div", undefined, { class: "what" }, make("span", record.name, { class: "name" }),
      make("span", undefined, { class: "size" }, ...title, facts.filter((fact) => fact !== "").join(" · "))));
  if (record.removable) item.append(iconButton("remove", "Delete", () => remove([record], record.name), { class: "delete", "aria-label": `Delete ${record.name}` }));
  return item;
}

const said = (records, done) => `${records.length === 1 ? "was" : "were"} ${done}`;

/** Deletes documents after a while in which that can be undone. Until then answers may still quote them. */
function remove(records, name) {
  commit();
  deleting = { records, name, timer: setTimeout(commit, UNDO_MS) };
  documents = documents.filter((record) => !records.includes(record));
  show();
  const undo = button("Undo", () => {
    clearTimeout(deleting.timer);
    deleting = null;
    documents.push(...records);
    show();
    status.textContent = `${name} ${said(records, "kept")}.`;
    filter.focus();
  });
  status.replaceChildren(`${name} ${said(records, "deleted")}. `, undo);
  undo.focus();
}

async function commit({ keepalive = false } = {}) {
  if (deleting === null) return;
  const { records, name, timer } = deleting;
  clearTimeout(timer);
  const problems = await Promise.all(records.map(({ id }) => removed(id, keepalive)));
  const problem = problems.find((each) => each !== null);
  if (deleting?.records === records) {
    deleting = null;
    if (status.contains(document.activeElement)) filter.focus();
    status.textContent = problem === undefined ? `${name} ${said(records, "deleted")}.` : `${name} ${said(records, "not deleted")}: ${problem}`;
  }
  await load();
}

/** Removes a document on the server, and returns `null` or why it is still there. */
async function removed(id, keepalive) {
  try {
    const response = await fetch(`/v1/documents/${encodeURIComponent(id)}`, { method: "DELETE", keepalive });
    return response.ok || response.status === 404 ? null : await errorOf(response);
  } catch {
    return "The server cannot be reached.";
  }
}

function add(files) {
  if (files.length > 0) send(files, load, { shared: share.checked });
  else status.textContent = "No files of a type that can be read were found.";
}

/** Starts the library. `onChange` gets the documents, or `null` if the server has none to manage. */
export function start(onChange) {
  changed = onChange;
  opener.addEventListener("click", () => dialog.showModal());
  addEventListener("pagehide", () => commit({ keepalive: true }));
  filter.addEventListener("input", () => ((first = 0), show()));
  sort.addEventListener("change", () => ((first = 0), show()));
  for (const [each, step] of [[previous, -ROWS], [next, ROWS]]) {
    each.addEventListener("click", () => {
      first += step;
      show();
      list.scrollIntoView({ block: "nearest" });
    });
  }
  upload.addEventListener("change", () => {
    const files = [...upload.files].map((file) => ({ file, name: file.name }));
    upload.value = "";
    if (files.length > 0) add(files);
  });
  folder.addEventListener("change", () => {
    const files = inFolder(folder.files);
    folder.value = "";
    add(files);
  });
  removeSamples.addEventListener("click", () => {
    const records = documents.filter(({ sample, removable }) => sample && removable);
    remove(records, records.length === 1 ? records[0].name : "The samples");
  });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    addEventListener(kind, (event) => {
      if (opener.hidden || !event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      drop.classList.toggle("over", kind === "dragover");
      if (!dialog.open && kind !== "dragleave") dialog.showModal();
      if (kind === "drop") filesOf(event.dataTransfer).then(add);
    });
  }
  return load();
}
