// The chats of this browser: a list, and for each chat its turns. All of it is in the browser's storage, within
// limits; without access to storage, a chat lasts until the page is closed.

const LIST = "ragwire.chats";
const CHAT = "ragwire.chat.";
/** Most chats that are kept. Browsers store about 5 MB for a page. */
const MAX_CHATS = 60;
/** Most turns of a chat that are kept. */
const MAX_TURNS = 100;
const MAX_TITLE = 80;

const memory = new Map();

function read(key, fallback) {
  try {
    return JSON.parse(localStorage.getItem(key)) ?? memory.get(key) ?? fallback;
  } catch {
    return memory.get(key) ?? fallback;
  }
}

function write(key, value) {
  memory.set(key, value);
  try {
    localStorage.setItem(key, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

function drop(key) {
  memory.delete(key);
  try {
    localStorage.removeItem(key);
  } catch {
    // It was only in memory.
  }
}

/** Returns a new ID. `randomUUID` does not exist on a page without TLS outside of loopback. */
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Returns the chats `{id, title, at}`, the latest first. */
export const list = () => read(LIST, []);

/** Returns a chat `{id, session, forked, turns}`. It is stored with its first question. */
export function open(id = newId()) {
  return read(CHAT + id, { id, session: id, forked: false, turns: [] });
}

/** Stores a chat, and puts it first in the list. The oldest chats make room. */
export function save(chat) {
  const [first] = chat.turns;
  if (first === undefined) return;
  const known = list();
  const before = known.find(({ id }) => id === chat.id);
  const title = before?.renamed ? before.title : first.question.replace(/\s+/g, " ").slice(0, MAX_TITLE);
  let chats = [{ ...before, id: chat.id, title, at: Date.now() }, ...known.filter(({ id }) => id !== chat.id)];
  for (const { id } of chats.slice(MAX_CHATS)) drop(CHAT + id);
  chats = chats.slice(0, MAX_CHATS);
  const kept = { ...chat, turns: chat.turns.slice(-MAX_TURNS) };
  while (!write(CHAT + chat.id, kept) && chats.length > 1) drop(CHAT + chats.pop().id);
  write(LIST, chats);
}

export function rename(id, title) {
  write(LIST, list().map((chat) => (chat.id === id ? { ...chat, title: title.slice(0, MAX_TITLE), renamed: true } : chat)));
}

export function remove(id) {
  drop(CHAT + id);
  write(LIST, list().filter((chat) => chat.id !== id));
}

/** The chat of this tab, which a reload opens again. */
export const current = {
  get() {
    try {
      return sessionStorage.getItem("ragwire.current") ?? undefined;
    } catch {
      return undefined;
    }
  },
  set(id) {
    try {
      sessionStorage.setItem("ragwire.current", id);
    } catch {
      // A reload then begins a new chat.
    }
  },
};
