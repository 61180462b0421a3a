// The library: what is in it, search, sort, pages of rows, and deletion after a confirmation.

import { button, element, errorOf, make, plural } from "./dom.js";
import { filesOf, send } from "./upload.js";

const [dialog, opener, upload, drop, status] = ["library", "open-library", "upload", "drop", "upload-status"].map(element);
const [list, filter, sort, count] = ["documents", "filter", "sort", "count"].map(element);
const [pages, previous, next, range] = ["pages", "previous", "next", "range"].map(element);
/** Rows per page. */
const ROWS = 50;

const ORDERS = {
  name: (one, other) => one.name.localeCompare(other.name, undefined, { numeric: true }),
  added: (one, other) => other.added_ms - one.added_ms,
  size: (one, other) => other.text_bytes - one.text_bytes,
};

let documents = [];
let first = 0;
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
      // An orchestrator outside of the server answers, and there are no documents to manage.
      opener.hidden = true;
      return changed(null);
    }
    if (!response.ok) throw new Error(await errorOf(response));
    ({ documents } = await response.json());
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
  pages.hidden = found.length <= ROWS;
  range.textContent = `${first + 1}–${first + rows.length} of ${found.length.toLocaleString("en")}`;
  previous.disabled = first === 0;
  next.disabled = first + ROWS >= found.length;
}

function row(record) {
  const facts = [record.pages === undefined ? "" : plural(record.pages, "page"), plural(record.chunks, "passage"), record.text_bytes === undefined ? "" : size(record.text_bytes)];
  const name = make("span", record.name, { class: "name" });
  const title = record.title && record.title !== record.name ? [make("span", record.title, { class: "title" })] : [];
  const item = make("li", undefined, { "data-id": record.id },
    make("div", undefined, { class: "what" }, name, ...title, make("span", facts.filter((fact) => fact !== "").join(" · "), { class: "size" })));
  const ask = button("Delete", () => confirm(item, ask, record), { class: "plain delete", "aria-label": `Delete ${record.name}` });
  item.append(ask);
  return item;
}

/** Asks in the row itself: the originals are not kept, so that a deletion cannot be undone. */
function confirm(item, ask, record) {
  const keep = button("Keep", () => {
    group.replaceWith(ask);
    ask.focus();
  });
  const group = make("div", undefined, { class: "confirm", role: "group", "aria-label": `Delete ${record.name}?` },
    make("span", "Delete it for good?"), button("Delete", () => remove(record, group), { class: "danger" }), keep);
  ask.replaceWith(group);
  keep.focus();
}

async function remove(record, group) {
  for (const each of group.querySelectorAll("button")) each.disabled = true;
  const response = await fetch(`/v1/documents/${encodeURIComponent(record.id)}`, { method: "DELETE" }).catch(() => null);
  const gone = response !== null && (response.ok || response.status === 404);
  status.textContent = gone ? `${record.name} was deleted.` : `${record.name} could not be deleted.`;
  filter.focus();
  await load();
}

function add(files) {
  if (files.length > 0) send(files, load);
  else status.textContent = "No Markdown, text, HTML or PDF files were found.";
}

/** Starts the library. `onChange` gets the documents, or `null` if the server has none to manage. */
export function start(onChange) {
  changed = onChange;
  opener.addEventListener("click", () => dialog.showModal());
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
