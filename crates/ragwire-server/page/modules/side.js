// The list of chats: open, rename, delete, and a new one.

import * as chats from "./chats.js";
import { button, element, iconButton, make } from "./dom.js";

const [side, menu, items, none] = ["side", "menu", "chats", "no-chats"].map(element);

let actions;

/** Starts the list. `given` has `open(id)`, `renamed(id, title)` and `removed(id)`. */
export function startSide(given) {
  actions = given;
  menu.addEventListener("click", () => toggle(menu.getAttribute("aria-expanded") !== "true"));
  // Another tab may have changed the list.
  addEventListener("storage", () => showChats());
  side.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !toggle(false)) return;
    event.stopPropagation();
    menu.focus();
  });
}

/** Opens or closes the list on a narrow page, and returns whether that changed anything. */
export function toggle(isOpen) {
  const before = menu.getAttribute("aria-expanded") === "true";
  menu.setAttribute("aria-expanded", String(isOpen));
  side.classList.toggle("open", isOpen);
  if (isOpen) side.querySelector("button").focus();
  return before !== isOpen;
}

let shown;

/** Shows the list, with the open chat marked. */
export function showChats(currentId = shown) {
  shown = currentId;
  const list = chats.list();
  items.replaceChildren(...list.map(item));
  items.hidden = list.length === 0;
  none.hidden = list.length > 0;
}

function item({ id, title }) {
  const open = button(title, () => actions.open(id), { class: "plain chat", ...(id === shown ? { "aria-current": "true" } : {}) });
  const made = make("li", undefined, {}, open);
  const rename = iconButton("edit", "Rename", () => edit(made, id, title), { "aria-label": `Rename ${title}` });
  const remove = iconButton("remove", "Delete", () => confirm(made, id, title), { "aria-label": `Delete ${title}` });
  made.append(make("div", undefined, { class: "tools" }, rename, remove));
  return made;
}

function edit(made, id, title) {
  const field = make("input", undefined, { type: "text", "aria-label": "Title", maxlength: "80" });
  field.value = title;
  const form = make("form", undefined, { class: "tools" }, field, make("button", "Save", { type: "submit" }));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const renamed = field.value.trim();
    if (renamed !== "") {
      chats.rename(id, renamed);
      actions.renamed(id, renamed);
    }
    showChats();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.stopPropagation();
    showChats();
  });
  made.replaceChildren(form);
  field.select();
}

function confirm(made, id, title) {
  const remove = () => {
    chats.remove(id);
    showChats();
    actions.removed(id);
  };
  const keep = button("Keep", () => showChats());
  made.replaceChildren(make("div", undefined, { class: "tools confirm", role: "group", "aria-label": `Delete ${title}?` }, make("span", "Delete this chat?"), button("Delete", remove, { class: "danger" }), keep));
  keep.focus();
}
