// One question and its answer on the page. A `TurnView` shows a record, and is the reader of its turn while that
// runs. The record is plain data, which the chat stores.

import { mergeCitations, quotedBefore, sourceItems, watchNumbers } from "./cite.js";
import { button, copy, iconButton, make } from "./dom.js";
import { feedbackBar } from "./feedback.js";
import { questionForm } from "./human.js";
import { copyCode, render } from "./render.js";
import { Counts, describe, summary } from "./steps.js";

/** Most steps that are shown and stored. */
const MAX_STEPS = 200;

/** What a turn did without a part of the server that failed. Of a language model, the answer says it itself. */
const WITHOUT = {
  embedder: "The embedding model failed, so the documents were searched by words only.",
  reranker: "The reranker failed, so the passages are in the order of the search.",
};

const CUT_SHORT = "The answer was cut short: the model reached its limit, or repeated itself.";

/** Returns the record of a question that is about to be asked. */
export function newRecord(question) {
  return { id: null, question, state: "running", answer: "", message: "", steps: [], thoughts: [], counts: { ...new Counts() }, cited: { passages: [], numbers: [] }, feedback: null };
}

export class TurnView {
  #live;
  #notice;
  #sources = new Map();
  #counts = new Counts();
  #connection = null;
  #queue = "";
  #frame = 0;
  #actions;

  /**
   * `actions` has `changed(view)`, `retry(view)`, `edit(view, question)`, `reply(requestId, response)`, `link(record)` and
   * `rate(record, feedback)`; or only `readOnly`.
   */
  constructor(record, actions) {
    this.record = record;
    this.#actions = actions;
    this.heading = make("h2", record.question, { class: "asked" });
    this.#live = make("span", "", { class: "live" });
    this.steps = make("ol", undefined, { class: "steps", "aria-label": "Steps" });
    this.work = make("details", undefined, { class: "work" }, make("summary", undefined, {}, this.#live), this.steps);
    this.thoughtText = make("div", "", { class: "thought" });
    this.thoughts = make("details", undefined, { class: "thoughts" }, make("summary", "Reasoning"), this.thoughtText);
    this.questions = make("div", undefined, { class: "questions", "aria-live": "polite" });
    this.answer = make("div", undefined, { class: "answer" });
    this.#notice = make("p", undefined, { class: "notice" });
    this.citations = make("ol", undefined, { class: "citations" });
    this.sourcesHeading = make("summary", "");
    this.sourceList = make("details", undefined, { class: "sources" }, this.sourcesHeading, this.citations);
    this.bar = make("div", undefined, { class: "actions" });
    this.element = make("article", undefined, { class: "turn", "aria-label": record.question },
      this.heading, this.work, this.thoughts, this.questions, this.answer, this.#notice, this.sourceList, this.bar);
    watchNumbers(this.answer, (from) => this.#found(Number(from.dataset.cite)));
    this.answer.addEventListener("click", copyCode);
    this.show();
  }

  get running() {
    return this.record.state === "running";
  }

  /** Shows the whole record. */
  show() {
    const { record } = this;
    this.element.dataset.state = record.state;
    this.answer.setAttribute("aria-busy", String(this.running));
    this.steps.replaceChildren(...record.steps.map((text) => make("li", text)));
    if (this.running && this.steps.lastElementChild) this.steps.lastElementChild.dataset.state = "running";
    if (["failed", "truncated", "stopped"].includes(record.state) && this.steps.lastElementChild) this.steps.lastElementChild.dataset.state = "failed";
    this.#showThoughts();
    this.#showAnswer();
    this.#showLine();
    const notice = { stopped: "Stopped. The answer is incomplete.", failed: record.message, truncated: record.message, unknown: record.message }[record.state] ?? record.without ?? "";
    this.#notice.textContent = notice;
    this.#notice.hidden = notice === "";
    this.citations.replaceChildren(...sourceItems(record.cited));
    const { length } = record.cited.passages;
    const titles = [...new Set(record.cited.passages.map(({ title }) => title))];
    this.sourcesHeading.replaceChildren(length === 1 ? "1 source" : `${length} sources`, make("span", ` · ${titles.join(", ")}`, { class: "quiet" }));
    this.sourceList.hidden = length === 0 || this.running;
    this.#showActions();
  }

  /** Returns what the line about the turn says. */
  get line() {
    const { record } = this;
    if (!this.running) return summary(record.counts);
    return this.#connection ?? (this.#queue || (this.questions.childElementCount > 0 ? "Waiting for your reply." : record.answer !== "" ? "Answering…" : record.steps.at(-1) ?? "Searching…"));
  }

  #showLine() {
    const { line } = this;
    this.#live.textContent = line;
    this.work.hidden = !this.running && this.record.steps.length === 0;
    this.#actions.line?.(this);
  }

  #showThoughts() {
    this.thoughts.hidden = this.record.thoughts.length === 0;
    const text = this.record.thoughts.map(({ text: thought }) => thought).join("\n\n");
    if (this.thoughtText.textContent !== text) this.thoughtText.textContent = text;
  }

  #showAnswer() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const { numbers } = this.record.cited;
    const number = (written) => {
      if (this.running) return written > 0 ? written : null;
      const found = numbers[written - 1];
      return found === undefined ? null : found.passage + 1;
    };
    render(this.answer, this.record.answer, { open: this.running, number });
  }

  #showActions() {
    const { record } = this;
    if (this.running) return this.bar.replaceChildren();
    const found = record.answer === "" ? [] : [iconButton("copy", "Copy the answer", (from) => copy(this.text, from))];
    if (this.#actions.readOnly) return this.bar.replaceChildren(...found);
    const failed = ["failed", "truncated", "stopped", "unknown"].includes(record.state);
    const retry = () => this.#actions.retry(this);
    const parts = failed ? [button("Try again", retry, { class: "retry" }), ...found] : [...found, iconButton("retry", "Regenerate", retry, { class: "retry" })];
    parts.push(iconButton("edit", "Edit question", () => this.#edit(), { class: "edit" }));
    if (record.id !== null && ["completed", "refused"].includes(record.state)) {
      parts.push(iconButton("link", "Copy link to this answer", (from) => copy(this.#actions.link(record), from)));
      parts.push(feedbackBar(record, (feedback) => this.#actions.rate(record, feedback), () => this.#actions.changed(this)));
    }
    this.bar.replaceChildren(...parts);
  }

  /** The answer as it is copied: with the numbers that are shown, and its sources. */
  get text() {
    const { passages, numbers } = this.record.cited;
    const text = this.record.answer.replace(/\[(\d{1,4})\]/g, (all, written) => (numbers[written - 1] === undefined ? all : `[${numbers[written - 1].passage + 1}]`));
    const sources = passages.map(({ title, heading, page }, index) => `[${index + 1}] ${[title, heading, page === null ? "" : `page ${page}`].filter((part) => part !== "").join(", ")}`);
    return [text.trim(), ...(sources.length > 0 ? ["", ...sources] : [])].join("\n");
  }

  #edit() {
    const field = make("textarea", undefined, { rows: "2", "aria-label": "Question" });
    field.value = this.record.question;
    const form = make("form", undefined, { class: "editing" }, field);
    const cancel = () => {
      form.replaceWith(this.heading);
      this.bar.querySelector(".edit")?.focus();
    };
    form.append(make("div", undefined, { class: "row" }, button("Cancel", cancel), make("button", "Ask again", { type: "submit", class: "strong" })));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (field.value.trim() !== "") this.#actions.edit(this, field.value.trim());
    });
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape") cancel();
      else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) form.requestSubmit();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.heading.replaceWith(form);
    field.focus();
  }

  #found(written) {
    const { passages, numbers } = this.record.cited;
    const found = numbers[written - 1];
    if (found !== undefined) return { passage: passages[found.passage], quote: found.quote };
    return this.running ? quotedBefore(this.record.answer, written, [...this.#sources.values()]) : null;
  }

  /* ---- the reader of the turn ---- */

  started(id) {
    this.record.id = id;
    this.#actions.changed(this);
  }

  connection(text) {
    this.#connection = text;
    this.#showLine();
  }

  event(event) {
    this.#queue = "";
    this.#counts.take(event);
    for (const source of event.sources ?? []) this.#sources.set(source.chunk_id, source);
    if (event.event === "queued") this.#queue = queued(event);
    if (event.event === "input_requested") this.questions.append(questionForm(event, (id, response) => this.#actions.reply(id, response)));
    if (event.event === "input_resolved") [...this.questions.children].find(({ dataset }) => dataset.id === event.request_id)?.remove();
    if (event.event === "thinking") this.#think(event);
    if (event.event === "retract") this.#replace([...this.record.answer].slice(0, event.kept).join(""));
    const text = describe(event);
    if (text && this.record.steps.length < MAX_STEPS) this.#step(text);
    this.#showLine();
  }

  text(text) {
    this.#connection = null;
    this.#queue = "";
    const first = this.record.answer === "";
    this.record.answer += text;
    if (first && this.steps.lastElementChild) delete this.steps.lastElementChild.dataset.state;
    if (first) this.#showLine();
    this.#replace(this.record.answer);
  }

  snapshot({ events, text }) {
    Object.assign(this.record, { steps: [], thoughts: [], answer: "" });
    this.steps.replaceChildren();
    this.questions.replaceChildren();
    for (const event of events) this.event(event);
    this.#replace(text);
  }

  end({ status, message = "", metadata, timing }) {
    const { record } = this;
    const cited = mergeCitations(metadata?.citations ?? [], this.#sources);
    const state = status === "completed" && metadata?.answered === false ? "refused" : status;
    this.#counts.used = cited.passages.length;
    this.#counts.milliseconds = timing?.elapsed_ms ?? null;
    const remarks = (metadata?.fallback_parts ?? []).map((part) => WITHOUT[part] ?? "");
    if (status === "completed" && metadata?.finish_reason === "length") remarks.push(CUT_SHORT);
    const without = remarks.filter((text) => text !== "").join(" ");
    Object.assign(record, { state, message, cited, without, counts: { ...this.#counts } });
    this.questions.replaceChildren();
    this.show();
    this.#actions.changed(this);
  }

  /** Shows what an earlier visit has stored, because the server no longer has the turn. */
  revert(record) {
    Object.assign(this.record, record);
    this.show();
    this.#actions.changed(this);
  }

  #step(text) {
    this.record.steps.push(text);
    if (this.steps.lastElementChild) delete this.steps.lastElementChild.dataset.state;
    this.steps.append(make("li", text, { "data-state": "running" }));
  }

  #think({ content, id }) {
    const { thoughts } = this.record;
    const last = thoughts.findLast?.((thought) => id !== undefined && thought.id === id);
    if (last) last.text += content;
    else thoughts.push({ id, text: content });
    this.#showThoughts();
  }

  #replace(answer) {
    this.record.answer = answer;
    // Many pieces may arrive between two frames of the screen.
    if (this.#frame === 0) {
      this.#frame = requestAnimationFrame(() => {
        this.#showAnswer();
        this.#actions.grown?.(this);
      });
    }
  }
}

function queued({ ahead }) {
  if (ahead === 0) return "Waiting. This one is next.";
  return `Waiting. ${ahead === 1 ? "One question is" : `${ahead} questions are`} ahead of this one.`;
}
