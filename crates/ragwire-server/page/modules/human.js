// Questions that a turn asks its reader.

import { make } from "./dom.js";

/**
 * Returns a form with a button for each option, and with a text field if other replies are allowed.
 * `send(requestId, response)` sends the reply.
 */
export function questionForm({ request_id, kind, prompt, options = [] }, send) {
  const form = make("form", undefined, { "data-id": request_id });
  const row = make("div", undefined, { class: "row" });
  const problem = make("p", "", { class: "problem", role: "alert" });
  const group = make("fieldset", undefined, { class: "card" }, make("legend", prompt), row, problem);
  const reply = async (response) => {
    group.disabled = true;
    problem.textContent = "";
    try {
      await send(request_id, response);
    } catch (error) {
      problem.textContent = `The reply was not sent: ${error.message}`;
      group.disabled = false;
    }
  };
  for (const option of options) {
    const choice = make("button", option, { type: "button" });
    choice.addEventListener("click", () => reply(option));
    row.append(choice);
  }
  // For a question of kind `text`, the options are suggestions.
  if (options.length === 0 || kind === "text") {
    const field = make("input", undefined, { type: "text", required: "", autocomplete: "off", "aria-label": prompt });
    row.append(field, make("button", "Send", { type: "submit" }));
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const field = form.querySelector("input");
    if (field !== null && field.value.trim() !== "") reply(field.value);
  });
  form.append(group);
  return form;
}
