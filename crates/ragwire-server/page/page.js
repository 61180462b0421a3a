// The page: a chat about the documents of the server. This module connects the parts: the chat of this tab, its
// turns, the question field and the keyboard. Everything that the server sends is shown as text or as the nodes of
// its Markdown, never as markup, because documents are untrusted.

import * as chats from "./page/chats.js";
import { hideCard } from "./page/cite.js";
import { element } from "./page/dom.js";
import { load as loadLibrary, start as startLibrary } from "./page/library.js";
import { showProgress } from "./page/ready.js";
import { atEnd, follow, jump } from "./page/scroll.js";
import { showChats, startSide, toggle } from "./page/side.js";
import { Turn } from "./page/turn.js";
import { TurnView, newRecord } from "./page/view.js";
import { showWelcome } from "./page/welcome.js";

const [prompt, ask, stop, review, status] = ["prompt", "ask", "stop", "review", "status"].map(element);
const [thread, welcome, library] = ["thread", "welcome", "library"].map(element);
/** Most earlier messages that go with a question whose chat is not the server's session. */
const MAX_HISTORY = 20;

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
  shown = live.get(chat.id) ?? { chat, views: [], running: null };
  live.set(chat.id, shown);
  chats.current.set(chat.id);
  if (shown.views.length === 0) {
    shown.views = chat.turns.map((record) => new TurnView(record, actionsFor(shown)));
    const last = shown.views.at(-1);
    // A turn whose end was not read may have ended or may still run on the server.
    if (last && ["running", "truncated"].includes(last.record.state)) restore(shown, last);
  }
  thread.replaceChildren(...shown.views.map((view) => view.element));
  prompt.value = "";
  fit();
  update();
  showChats(chat.id);
  toggle(false);
  jump();
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
    grown: () => open === shown && follow(),
    retry: (view) => again(open, view, view.record.question),
    edit: (view, question) => again(open, view, question),
    reply: (id, response) => open.running.turn.reply(id, response),
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
    end: (end) => (end.status === "unknown" && record.answer !== "" ? fresh.revert(record) : fresh.end(end)),
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
      follow();
    } else live.delete(open.chat.id);
  }
}

function askQuestion(question, open = shown) {
  if (open.running !== null) return;
  const { chat } = open;
  const body = { prompt: question, review_enabled: review.checked, ...contextOf(chat) };
  const view = new TurnView(newRecord(question), actionsFor(open));
  chat.turns.push(view.record);
  open.views.push(view);
  thread.append(view.element);
  chats.save(chat);
  showChats(chat.id);
  const turn = new Turn(view);
  jump();
  run(open, view, turn, () => turn.ask(body));
}

/** The server keeps the conversation of a session. A chat in which a question was replaced sends its own. */
function contextOf(chat) {
  if (!chat.forked) return { session_id: chat.session };
  const answered = chat.turns.filter(({ answer }) => answer !== "");
  const history = answered.flatMap(({ question, answer }) => [{ role: "user", text: question }, { role: "assistant", text: answer }]);
  return { history: history.slice(-MAX_HISTORY) };
}

/** Asks in place of a turn; the turns after it are removed. */
function again(open, view, question) {
  if (open.running !== null) return;
  const at = open.views.indexOf(view);
  for (const each of open.views.splice(at)) each.element.remove();
  open.chat.turns.splice(at);
  open.chat.forked = at > 0;
  if (at === 0) open.chat.session = chats.newId();
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
  if (question === "" || shown.running !== null) return;
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
for (const dialog of document.querySelectorAll("dialog")) {
  // The backdrop is part of the dialog; its content covers the rest of it.
  dialog.addEventListener("click", (event) => event.target === dialog && event.detail > 0 && !inside(dialog, event) && dialog.close());
}

function inside(dialog, { clientX, clientY }) {
  const { left, right, top, bottom } = dialog.getBoundingClientRect();
  return clientX >= left && clientX <= right && clientY >= top && clientY <= bottom;
}

startSide({
  open: (id) => (openChat(id), prompt.focus()),
  removed: (id) => {
    const open = live.get(id);
    if (open !== undefined) {
      open.removed = true;
      open.running?.turn.stop();
      live.delete(id);
    }
    if (id === shown.chat.id) openChat();
  },
});
openChat(chats.current.get());
startLibrary((documents) => showWelcome(documents, askQuestion, () => library.showModal()));
showProgress(loadLibrary);
if (atEnd() && matchMedia("(pointer: fine)").matches) prompt.focus({ preventScroll: true });
