// The chats of this browser: a list, and for each chat its turns. All of it is in the browser's storage, within
// limits; without access to storage, a chat lasts until the page is closed. Where the server lists its sessions, the
// list is the server's, and the storage keeps the steps that only the browser has.

const LIST = "ragwire.chats";
const CHAT = "ragwire.chat.";
/** Most chats in the list: as many as the server lists. */
const MAX_LISTED = 200;
/** Most chats whose turns are kept. Browsers store about 5 MB for a page. */
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

function writeList(chats) {
  for (const { id } of chats.slice(MAX_CHATS)) drop(CHAT + id);
  write(LIST, chats.slice(0, MAX_LISTED));
}

/** Returns a chat `{id, turns}`, whose ID is that of its session. It is stored with its first question. */
export const open = (id = newId()) => read(CHAT + id, { id, turns: [] });

/** Stores a chat. With `touch` it is first in the list. The oldest chats make room. */
export function save(chat, { touch = true } = {}) {
  const [first] = chat.turns;
  if (first === undefined) return;
  const known = list();
  const before = known.find(({ id }) => id === chat.id);
  const title = before?.renamed ? before.title : first.question.replace(/\s+/g, " ").slice(0, MAX_TITLE);
  const entry = { ...before, id: chat.id, title, at: touch || before === undefined ? Date.now() : before.at };
  const chats = touch || before === undefined ? [entry, ...known.filter(({ id }) => id !== chat.id)] : known;
  const kept = { ...chat, turns: chat.turns.slice(-MAX_TURNS) };
  for (let most = MAX_CHATS; !write(CHAT + chat.id, kept) && most > 1; most -= 1) {
    const oldest = chats.slice(0, most).at(-1);
    if (oldest.id !== chat.id) drop(CHAT + oldest.id);
  }
  writeList(chats);
}

/**
 * Takes over the list of the server. A chat that the server once listed and no longer does was deleted elsewhere or
 * has expired. One that it never listed is kept: it may just have begun. `isLive(id)` is true for a chat in use.
 */
export function merge(listed, isLive) {
  const known = new Map(list().map((chat) => [chat.id, chat]));
  const chats = listed.map(({ id, title, at }) => {
    const before = known.get(id);
    known.delete(id);
    return { ...before, id, at, stored: true, title: before?.renamed ? before.title : title.slice(0, MAX_TITLE) || "Chat", renamed: before?.renamed };
  });
  for (const chat of known.values()) {
    if (!chat.stored || isLive(chat.id)) chats.push(chat);
    else if (listed.length < MAX_LISTED) drop(CHAT + chat.id);
  }
  writeList(chats.sort((one, other) => other.at - one.at));
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
