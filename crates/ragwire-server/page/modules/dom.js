// Makes elements. Everything that the server or a model sends becomes text, never markup.

import { icon } from "./icons.js";

export const element = (id) => document.getElementById(id);

/** Returns an element with this text, these attributes and these children. */
export function make(tag, text, attributes = {}, ...children) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Returns a button that calls `action`. */
export function button(text, action, attributes = {}) {
  const made = make("button", text, { type: "button", ...attributes });
  made.addEventListener("click", () => action(made));
  return made;
}

/** Returns a button with a drawing instead of its text. */
export function iconButton(name, text, action, attributes = {}) {
  const made = button(undefined, action, { "aria-label": text, title: text, ...attributes, class: `plain ${attributes.class ?? ""}`.trim() });
  made.append(icon(name));
  return made;
}

/** Returns the error `{message, request_id?}` of a refused response. */
export async function refusalOf(response) {
  try {
    const { message, request_id } = (await response.json()).error;
    return { message, request_id };
  } catch {
    return { message: `The server answered ${response.status}.` };
  }
}

/** Returns the reason in a refused response. */
export const errorOf = async (response) => (await refusalOf(response)).message;

/** Copies text, and shows the outcome on the button for a moment. */
export async function copy(text, from) {
  const [before, name] = [[...from.childNodes], from.getAttribute("aria-label")];
  let outcome = "Copied";
  try {
    // The clipboard does not exist on a page without TLS outside of loopback.
    await navigator.clipboard.writeText(text);
  } catch {
    outcome = copyOld(text) ? "Copied" : "Not copied";
  }
  if (from.dataset.copied !== undefined) return;
  from.dataset.copied = "";
  from.replaceChildren(outcome);
  from.setAttribute("aria-label", outcome);
  setTimeout(() => {
    from.replaceChildren(...before);
    from.setAttribute("aria-label", name);
    delete from.dataset.copied;
  }, 1500);
}

function copyOld(text) {
  const area = make("textarea", undefined, { "aria-hidden": "true", class: "hidden-visually" });
  const focused = document.activeElement;
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return done;
}

export const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
