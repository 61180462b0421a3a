// The page: a chat about the documents of the server. This module connects the parts: the chat of this tab, its
// turns, the question field and the keyboard. Everything that the server sends is shown as text or as the nodes of
// its Markdown, never as markup, because documents are untrusted.

import * as chats from "./page/chats.js";
import { hideCard } from "./page/cite.js";
import { element } from "./page/dom.js";
import { load as loadLibrary, start as startLibrary } from "./page/library.js";
import { showProgress } from "./page/ready.js";
import * as remote from "./page/remote.js";
import { atEnd, follow, jump, jumpToQuestion } from "./page/scroll.js";
import * as settings from "./page/settings.js";
import { showChats, startSide, toggle } from "./page/side.js";
import { Turn } from "./page/turn.js";
import { TurnView, newRecord } from "./page/view.js";
import { showWelcome } from "./page/welcome.js";

const [prompt, ask, stop, status] = ["prompt", "ask", "stop", "status"].map(element);
const [thread, welcome, dialog] = ["thread", "welcome", "library"].map(element);
/**
 * Chats that are open or have a running turn: the chat, its views, and the running turn with its view. A turn continues
 * while another chat is shown.
 */
const live = new Map();
let shown = null;

/* ---- chats ---- */

function openChat(id) {
  if (shown !== null && shown.running === null) live.delete(shown.chat.id);
  const chat = live.get(id)?.chat ?? chats.open(id);
  const known = live.has(chat.id);
  shown = live.get(chat.id) ?? { chat, views: [], running: null };
  live.set(chat.id, shown);
  chats.current.set(chat.id);
  if (shown.views.length === 0) {
    shown.views = chat.turns.map((record) => new TurnView(record, actionsFor(shown)));
    const last = shown.views.at(-1);
    // A turn whose end was not read may have ended or may still run on the server.
    if (last && ["running", "truncated"].includes(last.record.state)) restore(shown, last);
    else if (!known) refresh(shown);
  }
  thread.replaceChildren(...shown.views.map((view) => view.element));
  prompt.value = "";
  fit();
  update();
  showChats(chat.id);
  toggle(false);
  jump();
}

/** Shows the turns that another browser has added to a chat or removed from it. */
async function refresh(open) {
  const listed = chats.list().some(({ id, stored }) => id === open.chat.id && stored);
  const turns = listed ? await remote.turns(open.chat.id) : null;
  await library;
  if (turns === null || open !== shown || open.running !== null || open.removed) return;
  const known = new Map(open.chat.turns.map((record) => [record.id, record]));
  const ids = ({ id }) => id;
  const merged = turns.map((turn) => (known.has(turn.id) ? Object.assign(known.get(turn.id), { feedback: turn.feedback }) : turn));
  // A turn that was refused is only known here.
  const own = open.chat.turns.filter(({ id }) => id === null);
  const last = open.chat.turns.at(-1);
  if (last !== undefined && own.includes(last)) merged.push(last);
  if (JSON.stringify(merged.map(ids)) === JSON.stringify(open.chat.turns.map(ids))) return;
  open.chat.turns = merged;
  open.views = merged.map((record) => new TurnView(record, actionsFor(open)));
  thread.replaceChildren(...open.views.map((view) => view.element));
  chats.save(open.chat, { touch: false });
  update();
  jump();
}

/** Takes over the list of chats from the server. */
async function refreshChats() {
  const listed = await remote.chats();
  settings.showStorage(listed !== null);
  if (listed === null) return;
  chats.merge(listed, (id) => live.get(id)?.running != null);
  showChats(shown.chat.id);
  await refresh(shown);
}

function actionsFor(open) {
  return {
    changed: () => {
      // The end of a turn must not store a deleted chat again.
      if (open.removed) return;
      chats.save(open.chat);
      showChats(shown.chat.id);
      if (open === shown) update();
    },
    line: (view) => open === shown && view === shown.views.at(-1) && announce(view),
    grown: (view) => open === shown && follow(view.element),
    retry: (view) => again(open, view, view.record.question),
    edit: (view, question) => again(open, view, question),
    reply: (id, response) => open.running.turn.reply(id, response),
    rate: (record, feedback) => remote.rate(record.id, feedback),
    link: (record) => `${location.origin}/#turn=${record.id}`,
  };
}

/** Continues the turn from before a reload. */
async function restore(open, view) {
  const { record } = view;
  if (record.id === null) return view.end({ status: "stopped" });
  const fresh = new TurnView({ ...newRecord(record.question), id: record.id }, actionsFor(open));
  const turn = new Turn({
    started: () => {},
    connection: (text) => fresh.connection(text),
    event: (event) => fresh.event(event),
    text: (text) => fresh.text(text),
    snapshot: (item) => fresh.snapshot(item),
    end: async (end) => {
      // The journal of the server is shorter than its record of turns.
      const found = end.status === "unknown" ? await remote.turn(record.id) : null;
      if (found !== null) fresh.revert(found);
      else if (end.status === "unknown" && record.answer !== "") fresh.revert(record);
      else fresh.end(end);
    },
  });
  open.chat.turns[open.chat.turns.indexOf(record)] = fresh.record;
  open.views[open.views.indexOf(view)] = fresh;
  await run(open, fresh, turn, () => turn.resume(record.id));
}

/* ---- turns ---- */

async function run(open, view, turn, begin) {
  open.running = { turn, view };
  if (open === shown) update();
  try {
    await begin();
  } finally {
    open.running = null;
    if (open === shown) {
      update();
      follow(view.element);
    } else live.delete(open.chat.id);
  }
}

function askQuestion(question, open = shown) {
  if (open.running !== null || open.rewinding) return;
  const { chat } = open;
  const body = { prompt: question, session_id: chat.id, ...settings.asked() };
  const view = new TurnView(newRecord(question), actionsFor(open));
  chat.turns.push(view.record);
  open.views.push(view);
  thread.append(view.element);
  chats.save(chat);
  showChats(chat.id);
  const turn = new Turn(view);
  jumpToQuestion();
  run(open, view, turn, () => turn.ask(body));
}

/** Asks in place of a turn; the turns after it are removed, also from the session of the server. */
async function again(open, view, question) {
  if (open.running !== null || open.rewinding) return;
  open.rewinding = true;
  const at = open.views.indexOf(view);
  for (const { id } of open.chat.turns.slice(at)) if (id !== null && (await remote.rewind(open.chat.id, id))) break;
  open.rewinding = false;
  if (open.removed) return;
  for (const each of open.views.splice(at)) each.element.remove();
  open.chat.turns.splice(at);
  askQuestion(question, open);
}

async function halt() {
  if (shown.running === null) return;
  stop.disabled = true;
  await shown.running.turn.stop();
}

/* ---- the state of the page ---- */

const DONE = { completed: "Answered.", refused: "No direct answer in the documents.", stopped: "Stopped." };

function announce(view) {
  const { state, message } = view.record;
  status.dataset.state = state;
  const text = state === "running" ? view.line : (DONE[state] ?? message);
  if (status.textContent !== text) status.textContent = text;
}

function update() {
  const busy = shown.running !== null;
  ask.disabled = busy;
  stop.hidden = !busy;
  if (!busy) stop.disabled = false;
  welcome.hidden = shown.views.length > 0;
  const last = shown.views.at(-1);
  if (last !== undefined) announce(last);
  else {
    status.dataset.state = "idle";
    status.textContent = "";
  }
}

/** Lets the field grow with its text, up to the height that the style allows. */
function fit() {
  prompt.style.height = "auto";
  prompt.style.height = `${prompt.scrollHeight + 2}px`;
}

/* ---- wiring ---- */

element("question").addEventListener("submit", (event) => {
  event.preventDefault();
  const question = prompt.value.trim();
  if (question === "" || shown.running !== null || shown.rewinding) return;
  prompt.value = "";
  fit();
  askQuestion(question);
});
prompt.addEventListener("input", fit);
prompt.addEventListener("keydown", (event) => {
  // An input method that is composing receives the keys.
  if (event.isComposing) return;
  if (event.key === "ArrowUp" && prompt.value === "" && shown.views.length > 0) {
    prompt.value = shown.views.at(-1).record.question;
    fit();
  } else if (event.key === "Enter" && !event.shiftKey) {
    element("question").requestSubmit();
  } else return;
  event.preventDefault();
});
stop.addEventListener("click", halt);
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.isComposing || document.querySelector("dialog[open]") !== null) return;
  if (!hideCard()) halt();
});
element("new-chat").addEventListener("click", () => {
  openChat();
  prompt.focus();
});
for (const close of document.querySelectorAll("dialog .close")) close.addEventListener("click", () => close.closest("dialog").close());
for (const each of document.querySelectorAll("dialog")) {
  // The backdrop is part of the dialog; its content covers the rest of it.
  each.addEventListener("click", (event) => event.target === each && event.detail > 0 && !inside(each, event) && each.close());
}

function inside(box, { clientX, clientY }) {
  const { left, right, top, bottom } = box.getBoundingClientRect();
  return clientX >= left && clientX <= right && clientY >= top && clientY <= bottom;
}

startSide({
  open: (id) => (openChat(id), prompt.focus()),
  renamed: remote.rename,
  removed: async (id) => {
    const open = live.get(id);
    if (open !== undefined) {
      open.removed = true;
      live.delete(id);
    }
    if (id === shown.chat.id) openChat();
    // A turn that ends after its session was deleted is not stored.
    await open?.running?.turn.stop();
    await remote.remove(id);
  },
});

/* ---- a shared answer ---- */

/** Shows one finished turn, and nothing that changes it. */
async function showShared(id) {
  document.body.dataset.view = "shared";
  const notice = element("shared");
  notice.hidden = false;
  await library;
  const record = await remote.turn(id);
  if (record === null) notice.firstChild.data = "This answer is no longer stored, or it belongs to another user. ";
  else thread.replaceChildren(new TurnView(record, { readOnly: true }).element);
}

settings.start();
const shared = /^#turn=([0-9a-f]{32})$/.exec(location.hash)?.[1];
addEventListener("hashchange", () => location.reload());
const library = startLibrary((documents) => shared === undefined && showWelcome(documents, askQuestion, () => dialog.showModal()));
if (shared !== undefined) showShared(shared);
else {
  openChat(chats.current.get());
  refreshChats();
}
showProgress(() => {
  loadLibrary();
  if (shared === undefined) refreshChats();
});
if (shared === undefined && atEnd() && matchMedia("(pointer: fine)").matches) prompt.focus({ preventScroll: true });
