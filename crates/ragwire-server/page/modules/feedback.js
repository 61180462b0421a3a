// Feedback on an answer: two buttons, and a note that may follow.

import { button, iconButton, make } from "./dom.js";

const RATINGS = { up: "Helpful", down: "Not helpful" };

/**
 * Returns the buttons for a record. `send(feedback)` stores `{rating, note?}` or `null`, and returns whether the server
 * took it; `changed()` is called when the record has it.
 */
export function feedbackBar(record, send, changed) {
  const status = make("span", "", { role: "status", class: "hint" });
  const group = make("span", undefined, { class: "feedback", role: "group", "aria-label": "Feedback" });
  const store = async (feedback, said) => {
    const taken = await send(feedback);
    if (taken) record.feedback = feedback;
    if (taken) changed();
    show(taken ? said : "It was not stored. Please retry.");
  };
  const show = (text = "") => {
    const rated = record.feedback?.rating;
    const buttons = Object.entries(RATINGS).map(([rating, label]) =>
      iconButton(rating, label, () => store(rated === rating ? null : { rating }, rated === rating ? "Removed." : "Thank you."), {
        "aria-pressed": String(rated === rating), "data-rating": rating }));
    const had = group.contains(document.activeElement) ? document.activeElement.dataset.rating : undefined;
    group.replaceChildren(...buttons, ...(rated === undefined ? [] : [note()]), status);
    status.textContent = text;
    buttons.find(({ dataset }) => dataset.rating === had)?.focus();
  };
  const note = () => {
    const open = button(record.feedback.note === undefined ? "Add a note" : "Change the note", () => {
      const field = make("input", undefined, { type: "text", maxlength: "1000", "aria-label": "Note", placeholder: "What was right or wrong?" });
      field.value = record.feedback.note ?? "";
      const form = make("form", undefined, { class: "row" }, field, make("button", "Send", { type: "submit" }));
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        const text = field.value.trim();
        store({ rating: record.feedback.rating, ...(text === "" ? {} : { note: text }) }, "The note is stored.");
      });
      open.replaceWith(form);
      field.focus();
    }, { class: "plain" });
    return open;
  };
  show();
  return group;
}
