// The settings of this browser: how questions are asked. The theme is in `theme.js`, which runs before the page is painted.

import { element } from "./dom.js";

const KEY = "ragwire.settings";
const [dialog, mode, effort, review, model, storage, feedback] = ["settings", "mode", "effort", "review", "model", "storage", "export-feedback"].map(element);

function read() {
  try {
    return JSON.parse(localStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

function write() {
  try {
    localStorage.setItem(KEY, JSON.stringify({ mode: mode.value, effort: effort.value, review: review.checked }));
  } catch {
    // The settings then last until the next reload.
  }
}

/** Returns what the settings add to the body of a question. The server's defaults are left out. */
export function asked() {
  return {
    ...(mode.value === "" ? {} : { mode: mode.value }),
    ...(effort.value === "medium" ? {} : { reasoning_effort: effort.value }),
    ...(review.checked ? { review_enabled: true } : {}),
  };
}

/** Says where chats are stored. */
export function showStorage(onServer) {
  feedback.hidden = !onServer;
  storage.textContent = onServer ? "Chats are stored on the server, and listed in every browser that you use." : "Chats are listed in this browser only, because the server does not know who you are.";
}

async function showModel() {
  try {
    const { model: name, documents } = await (await fetch("/healthz")).json();
    model.textContent = name ?? (documents === 0 ? "None on this server." : "None. Answers quote the documents.");
  } catch {
    model.textContent = "The server cannot be reached.";
  }
}

/** Starts the settings. */
export function start() {
  const stored = read();
  for (const select of [mode, effort]) if ([...select.options].some(({ value }) => value === stored[select.id])) select.value = stored[select.id];
  review.checked = stored.review === true;
  for (const each of [mode, effort, review]) each.addEventListener("change", write);
  element("open-settings").addEventListener("click", () => {
    dialog.showModal();
    showModel();
  });
}
