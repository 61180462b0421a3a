// The page: one question at a time, with each step as it happens. Everything that the server sends is inserted
// as text, never as markup, because documents are untrusted.
//
// A lost connection does not stop the turn: the server keeps it, and the page resumes it. After a lost
// connection it continues with the first frame that it has not received; after a reload it reads the turn from
// its beginning.

import { NdjsonDecoder } from "/client/ndjson.js";
import { decodeStream } from "/client/stream.js";

const element = (id) => document.getElementById(id);
const [prompt, ask, stop, retry, review] = ["prompt", "ask", "stop", "retry", "review"].map(element);
const [asked, status, steps, questions, answer, citations] = ["asked", "status", "steps", "questions", "answer", "citations"].map(element);
const [documents, upload, uploadStatus, drop] = ["documents", "upload", "upload-status", "drop"].map(element);

const NDJSON = "application/x-ndjson";
/**
 * Delays before each reconnect, in milliseconds. Their sum is half of the time for which the server continues a
 * turn without readers.
 */
const DELAYS = [250, 500, 1000, 2000, 4000, 8000];

/** Values that survive a reload, in this tab only. Without access to storage, none do. */
const saved = {
  get(name) {
    try {
      return JSON.parse(sessionStorage.getItem(name));
    } catch {
      return null;
    }
  },
  set(name, value) {
    try {
      sessionStorage.setItem(name, JSON.stringify(value));
    } catch {
      // The page also works without storage.
    }
  },
};

/** The session of this tab. `randomUUID` does not exist on a page without TLS outside of loopback. */
const session =
  saved.get("session") ??
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
saved.set("session", session);

/**
 * The running turn: its ID, `null` until the server has sent it; the index of the next frame; the passages that
 * it has sent.
 *
 * @type {{ turn: string | null, next: number, sources: Map<string, any>, abort: AbortController } | null}
 */
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
  stop.disabled = false;
  retry.hidden = !["failed", "truncated", "stopped"].includes(state);
  if (busy) return;
  endStep(state === "completed" ? "done" : "failed");
  questions.replaceChildren();
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

/** Returns the line of an event, or `null` for an event that repeats the one before or after it. */
function describe(event) {
  switch (event.event) {
    case "search":
      return `Searching for “${event.query ?? ""}”`;
    case "retrieval_start":
    case "cache_miss":
    case "tool_call":
    case "queued":
    case "input_requested":
      return null;
    case "input_resolved":
      return event.response === undefined ? "Not answered" : `Answered: ${asText(event.response)}`;
    case "retrieval_result":
      return `Found ${event.chunks_found} passages in ${event.duration_ms} ms`;
    case "query_analysis":
      return event.decomposed ? "Split the question into parts" : "Analyzed the question";
    case "cache_hit":
      return `Used an earlier answer: “${event.original_query}”`;
    case "tool_result":
      return `Used ${event.tool.replaceAll("_", " ")}`;
    case "graph_explanation":
      return `Followed ${event.triples.length} statements`;
    case "crag_evaluation":
      return `${event.correct} of ${event.correct + event.ambiguous + event.incorrect} passages answer the question, ${event.ambiguous} may`;
    case "verification":
      return `${event.claims_supported} of ${event.claims_checked} claims are supported`;
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

const asText = (response) => (typeof response === "string" ? response : JSON.stringify(response));

/* ---- one turn ---- */

function begin(question) {
  lastPrompt = question;
  running = { turn: null, next: 0, sources: new Map(), abort: new AbortController() };
  for (const list of [steps, questions, citations, answer]) list.replaceChildren();
  element("citations-heading").hidden = true;
  asked.textContent = question;
  asked.hidden = false;
  show("running", "Searching…");
}

/** Sends a question, and shows the turn until it ends. */
async function run(question) {
  begin(question);
  try {
    const response = await fetch("/v1/turns", {
      method: "POST",
      headers: { "content-type": "application/json", accept: NDJSON },
      body: JSON.stringify({ prompt: question, session_id: session, review_enabled: review.checked }),
      signal: running.abort.signal,
    });
    if (!response.ok) return show("failed", await errorOf(response));
    running.turn = response.headers.get("x-ragwire-turn");
    saved.set("turn", { id: running.turn, question });
    await follow(response.body);
  } catch (error) {
    if (running.abort.signal.aborted) return showStopped();
    show("failed", "The server cannot be reached.");
    console.error(error);
  } finally {
    running = null;
  }
}

/** Shows the turn from before a reload, and continues it. A turn that the server no longer has is ignored. */
async function restore({ id, question }) {
  begin(question);
  running.turn = id;
  prompt.value = question;
  try {
    await follow(null);
  } finally {
    running = null;
  }
}

/** Reads the turn to its end, reconnecting as needed; `body` is that of the first response. */
async function follow(body) {
  const { signal } = running.abort;
  for (let failed = 0; ; failed += 1) {
    const before = running.next;
    try {
      body ??= await reopen();
      if (body === null || (await read(body))) return;
    } catch (error) {
      // The stream is malformed: reading it again would not help.
      if (error.name === "FramedError") return lostConnection();
    }
    if (signal.aborted) return showStopped();
    body = null;
    if (running.next > before) failed = 0;
    if (failed === DELAYS.length) return lostConnection();
    status.textContent = "The connection was lost. Reconnecting…";
    await new Promise((resolve) => {
      const timer = setTimeout(resolve, DELAYS[failed]);
      signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
    });
    if (signal.aborted) return showStopped();
  }
}

/** Returns the rest of the turn, or `null` after showing the reason. */
async function reopen() {
  const { turn, next, abort } = running;
  const response = await fetch(`/v1/turns/${turn}/stream?from=${next}`, { headers: { accept: NDJSON }, signal: abort.signal });
  if (response.status === 200) {
    if (answer.textContent === "") status.textContent = "Searching…";
    else status.textContent = "Answering…";
    return response.body;
  }
  if (response.status >= 500) throw new Error(`status ${response.status}`);
  if (next > 0) show("truncated", `${await errorOf(response)} The answer is incomplete.`);
  else forget();
  return null;
}

/** Forgets the turn from before the reload, which the server no longer has. */
function forget() {
  saved.set("turn", null);
  asked.hidden = true;
  show("idle", "Ready.");
}

/** Shows the frames of a response, and returns whether the turn has ended. */
async function read(body) {
  for await (const item of decodeStream(body, new NdjsonDecoder())) {
    if (item.type === "truncated") return false;
    running.next = item.index + 1;
    if (item.type === "event") showEvent(item.event);
    else if (item.type === "text") showText(item.text);
    else {
      finish(item, running.sources);
      return true;
    }
  }
  return false;
}

function showEvent(event) {
  for (const source of event.sources ?? []) running.sources.set(source.chunk_id, source);
  if (event.event === "queued") {
    const ahead = event.ahead === 1 ? "One question is" : `${event.ahead} questions are`;
    status.textContent = event.ahead > 0 ? `Waiting. ${ahead} ahead of this one.` : "Waiting. This one is next.";
    return;
  }
  if (event.event === "input_requested") {
    questions.append(questionForm(event));
    status.textContent = "Waiting for your reply.";
    return;
  }
  if (event.event === "input_resolved") questionOf(event.request_id)?.remove();
  if (questions.childElementCount === 0) status.textContent = answer.textContent === "" ? "Searching…" : "Answering…";
  if (event.event === "retract") answer.textContent = [...answer.textContent].slice(0, event.kept).join("");
  const text = describe(event);
  if (text) addStep(text);
}

function showText(text) {
  if (answer.textContent === "") {
    endStep("done");
    status.textContent = "Answering…";
  }
  answer.append(text);
}

function lostConnection() {
  show("truncated", "The connection was lost. The answer is incomplete.");
}

function showStopped() {
  show("stopped", "Stopped. The answer is incomplete.");
}

/** Stops the turn on the server, which then sends its end. A disconnect alone would not stop it. */
async function halt() {
  if (running === null) return;
  const { turn, abort } = running;
  stop.disabled = true;
  // The turn has no ID yet, and ends with the connection.
  if (turn === null) return abort.abort();
  try {
    const response = await fetch(`/v1/turns/${turn}/stop`, { method: "POST" });
    if (!response.ok) throw new Error(`status ${response.status}`);
  } catch (error) {
    console.error(error);
    abort.abort();
  }
}

/* ---- questions of the turn ---- */

const questionOf = (id) => [...questions.children].find((form) => form.dataset.id === id);

/** Returns a form with a button for each option, and with a text field if other replies are allowed. */
function questionForm({ request_id, kind, prompt: text, options = [] }) {
  const form = make("form");
  form.dataset.id = request_id;
  const group = make("fieldset", undefined, { class: "ask" });
  const row = make("div", undefined, { class: "row" });
  const problem = make("p", "", { class: "problem", role: "alert" });
  for (const option of options) {
    const button = make("button", option, { type: "button" });
    button.addEventListener("click", () => reply(form, option));
    row.append(button);
  }
  // For a question of kind `text`, the options are suggestions.
  if (options.length === 0 || kind === "text") {
    const field = make("input", undefined, { type: "text", required: "", autocomplete: "off", "aria-label": text });
    row.append(field, make("button", "Send", { type: "submit" }));
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const field = form.querySelector("input");
    if (field !== null && field.value.trim() !== "") reply(form, field.value);
  });
  group.append(make("legend", text), row, problem);
  form.append(group);
  return form;
}

async function reply(form, response) {
  const group = form.querySelector("fieldset");
  group.disabled = true;
  const problem = form.querySelector(".problem");
  problem.textContent = "";
  try {
    const result = await fetch(`/v1/turns/${running.turn}/answer`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ request_id: form.dataset.id, response }),
    });
    // The stream reports that the reply was accepted.
    if (!result.ok) throw new Error(await errorOf(result));
  } catch (error) {
    problem.textContent = `The reply was not sent: ${error.message}`;
    group.disabled = false;
  }
}

function finish(end, sources) {
  if (end.status === "failed") return show("failed", end.error.message);
  if (end.status === "stopped") return showStopped();
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

/** Replaces each number in the answer that has a citation by a button. */
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
    if (response.status === 404) {
      // An orchestrator outside of the server answers, and there are no documents to manage.
      documents.closest("section").hidden = true;
      return;
    }
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
  // Enter sends and Shift+Enter inserts a line break. An input method that is composing receives Enter.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  element("question").requestSubmit();
});
retry.addEventListener("click", () => running === null && run(lastPrompt));
stop.addEventListener("click", halt);
upload.addEventListener("change", () => send([...upload.files]));
for (const kind of ["dragover", "drop"]) {
  drop.addEventListener(kind, (event) => {
    event.preventDefault();
    if (kind === "drop") send([...event.dataTransfer.files]);
  });
}
listDocuments();
const before = saved.get("turn");
if (before !== null) restore(before);
