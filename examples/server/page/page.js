// The page: one question at a time, each step as it happens. Everything that comes from the server is inserted as text,
// never as markup: documents are written by strangers.

import { decodeFramed } from "/client/stream.js";

const element = (id) => document.getElementById(id);
const [prompt, ask, stop, retry, review] = ["prompt", "ask", "stop", "retry", "review"].map(element);
const [status, steps, answer, citations] = ["status", "steps", "answer", "citations"].map(element);
const [documents, upload, uploadStatus, drop] = ["documents", "upload", "upload-status", "drop"].map(element);

/** One session for each tab. `randomUUID` is missing where the page is not on loopback and has no TLS. */
const session = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The running turn, to be stopped. @type {AbortController | null} */
let running = null;
let lastPrompt = "";

function make(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function show(state, text) {
  status.dataset.state = state;
  status.textContent = text;
  const busy = state === "running";
  answer.setAttribute("aria-busy", String(busy));
  ask.disabled = busy;
  stop.hidden = !busy;
  retry.hidden = !["failed", "truncated", "stopped"].includes(state);
  if (!busy) endStep(state === "completed" ? "done" : "failed");
}

/* ---- steps ---- */

function endStep(state) {
  const last = steps.lastElementChild;
  if (last?.dataset.state === "running") last.dataset.state = state;
}

function addStep(text) {
  endStep("done");
  const step = make("li", text);
  step.dataset.state = "running";
  steps.append(step);
}

/** One line for each event; one that only repeats its neighbour gets none. */
function describe(event) {
  switch (event.event) {
    case "search":
      return `Searching for “${event.query ?? ""}”`;
    case "retrieval_start":
      return null;
    case "retrieval_result":
      return `Found ${event.chunks_found} passages in ${event.duration_ms} ms`;
    case "query_analysis":
      return event.decomposed ? "Split the question into parts" : "Read the question";
    case "rerank_result":
      return `Kept the best ${event.output_count} of ${event.input_count}`;
    case "review":
      return `Review ${event.iteration}: ${event.verdict}${event.feedback ? ` – ${event.feedback}` : ""}`;
    case "sources":
      return `Reading ${event.sources?.length ?? 0} passages`;
    case "generation_start":
      return "Writing the answer";
    case "reasoning":
    case "thinking":
      return event.content;
    default:
      return event.event.replaceAll("_", " ");
  }
}

/* ---- one turn ---- */

async function run(question) {
  lastPrompt = question;
  running = new AbortController();
  const { signal } = running;
  for (const list of [steps, citations, answer]) list.replaceChildren();
  element("citations-heading").hidden = true;
  const sources = new Map();
  show("running", "Searching…");
  try {
    const response = await fetch(`/v1/rag/sessions/${session}/messages/stream`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ prompt: question, review_enabled: review.checked }),
      signal,
    });
    if (!response.ok) return show("failed", await errorOf(response));
    await read(response.body, sources);
  } catch (error) {
    if (signal.aborted) return show("stopped", "Stopped. The answer is not complete.");
    // Nothing was read yet: the server was not reached. Else the connection broke, or the stream broke its own rules.
    const reached = steps.childElementCount > 0 || answer.textContent !== "";
    if (reached) brokeOff();
    else show("failed", "The server cannot be reached.");
    console.error(error);
  } finally {
    running = null;
  }
}

async function read(body, sources) {
  for await (const item of decodeFramed(body)) {
    switch (item.type) {
      case "event": {
        for (const source of item.event.sources ?? []) sources.set(source.chunk_id, source);
        const text = describe(item.event);
        if (text) addStep(text);
        break;
      }
      case "text":
        if (answer.textContent === "") {
          endStep("done");
          status.textContent = "Answering…";
        }
        answer.append(item.text);
        break;
      case "end":
        finish(item, sources);
        return;
      default:
        brokeOff();
        return;
    }
  }
  brokeOff();
}

function brokeOff() {
  show("truncated", "The connection broke off. The answer is not complete.");
}

function finish(end, sources) {
  if (end.status === "failed") return show("failed", end.error.message);
  if (end.status === "stopped") return show("stopped", "The turn was stopped.");
  const found = end.metadata.citations;
  linkNumbers(found.length);
  citations.replaceChildren(...found.map((citation, index) => citationItem(citation, index, sources.get(citation.chunk_id))));
  element("citations-heading").hidden = found.length === 0;
  show("completed", "Done.");
}

async function errorOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `The server answered ${response.status}.`;
  }
}

/* ---- citations ---- */

/** Makes buttons of the numbers in the answer that have a citation. */
function linkNumbers(count) {
  const parts = answer.textContent.split(/\[(\d{1,4})\]/);
  answer.replaceChildren();
  parts.forEach((part, index) => {
    const number = Number(part);
    if (index % 2 === 0) answer.append(part);
    else if (number < 1 || number > count) answer.append(`[${part}]`);
    else {
      const button = make("button", `[${part}]`, { type: "button", class: "cite", "aria-label": `Open citation ${part}` });
      button.addEventListener("click", () => openCitation(number));
      answer.append(button);
    }
  });
}

function openCitation(number) {
  const details = citations.children[number - 1]?.querySelector("details");
  if (!details) return;
  details.open = true;
  details.querySelector("summary").focus();
  details.scrollIntoView({ block: "nearest" });
}

function citationItem(citation, index, source) {
  const item = make("li", undefined, { id: `citation-${index + 1}` });
  const details = make("details");
  const summary = make("summary");
  summary.append(make("span", source?.title ?? citation.document_id, { class: "name" }));
  if (citation.page_number !== undefined) summary.append(make("span", `page ${citation.page_number}`, { class: "page" }));
  if (source?.heading) summary.append(make("span", source.heading, { class: "heading" }));
  const passage = make("div", undefined, { class: "passage", "aria-live": "polite" });
  details.append(summary, make("blockquote", citation.supporting_quote), passage);
  details.addEventListener("toggle", () => {
    if (details.open && passage.childElementCount === 0) loadPassage(citation, passage);
  });
  item.append(details);
  return item;
}

async function loadPassage(citation, passage) {
  const [document, chunk] = [citation.document_id, citation.chunk_id].map(encodeURIComponent);
  try {
    const response = await fetch(`/v1/documents/${document}/chunks/${chunk}`);
    if (!response.ok) throw new Error(await errorOf(response));
    passage.replaceChildren(make("p", (await response.json()).text, { class: "chunk" }));
  } catch (error) {
    passage.textContent = `The passage cannot be opened: ${error.message}`;
  }
}

/* ---- documents ---- */

async function listDocuments() {
  try {
    const response = await fetch("/v1/documents");
    if (!response.ok) throw new Error(await errorOf(response));
    documents.replaceChildren(...(await response.json()).documents.map(documentItem));
    if (documents.childElementCount === 0) documents.append(make("li", "No documents yet.", { class: "none" }));
  } catch (error) {
    uploadStatus.textContent = `The documents cannot be listed: ${error.message}`;
  }
}

function documentItem(record) {
  const item = make("li", undefined, { "data-id": record.id });
  const pages = record.pages === undefined ? "" : `${record.pages} pages, `;
  const remove = make("button", "Delete", { type: "button", class: "delete", "aria-label": `Delete ${record.name}` });
  remove.addEventListener("click", async () => {
    remove.disabled = true;
    const response = await fetch(`/v1/documents/${encodeURIComponent(record.id)}`, { method: "DELETE" }).catch(() => null);
    const gone = response !== null && (response.ok || response.status === 404);
    uploadStatus.textContent = gone ? `${record.name} was deleted.` : `${record.name} could not be deleted.`;
    await listDocuments();
  });
  item.append(make("span", record.name, { class: "name" }), make("span", `${pages}${record.chunks} passages`, { class: "size" }), remove);
  return item;
}

async function send(files) {
  if (files.length === 0) return;
  const form = new FormData();
  for (const file of files) form.append("file", file);
  uploadStatus.textContent = `Reading ${files.length === 1 ? files[0].name : `${files.length} files`}…`;
  upload.disabled = true;
  try {
    const response = await fetch("/v1/documents", { method: "POST", body: form });
    if (!response.ok) throw new Error(await errorOf(response));
    const { documents: added, failed = [] } = await response.json();
    const refused = failed.map(({ name, message }) => `${name}: ${message}`);
    uploadStatus.textContent = [`${added.length} added.`, ...refused].join(" ");
  } catch (error) {
    uploadStatus.textContent = `Not added: ${error.message}`;
  } finally {
    upload.disabled = false;
    upload.value = "";
    await listDocuments();
  }
}

/* ---- wiring ---- */

element("question").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = prompt.value.trim();
  if (question !== "" && running === null) run(question);
});
prompt.addEventListener("keydown", (event) => {
  // Enter sends, Shift+Enter breaks the line; while an input method composes, Enter belongs to it.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  element("question").requestSubmit();
});
retry.addEventListener("click", () => running === null && run(lastPrompt));
stop.addEventListener("click", () => running?.abort());
upload.addEventListener("change", () => send([...upload.files]));
for (const kind of ["dragover", "drop"]) {
  drop.addEventListener(kind, (event) => {
    event.preventDefault();
    if (kind === "drop") send([...event.dataTransfer.files]);
  });
}
listDocuments();
