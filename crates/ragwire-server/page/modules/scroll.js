// Follows the end of the thread while an answer is written, until the reader scrolls up. An answer that is there at
// once is shown from its beginning.

import { element } from "./dom.js";

const latest = element("latest");
const header = document.querySelector("header");
/** Distance from the end within which the page follows, in pixels. */
const NEAR = 120;
/** Time after a question in which the page shows its beginning rather than its end, in milliseconds. */
const AT_ONCE = 1000;

let following = true;
let asked = -AT_ONCE;

const rest = () => document.documentElement.scrollHeight - innerHeight - scrollY;

export const atEnd = () => rest() <= NEAR;

/** Scrolls to the end, and follows from now on. */
export function jump() {
  following = true;
  asked = -AT_ONCE;
  scrollTo({ top: document.documentElement.scrollHeight });
  show();
}

/** Scrolls to the question that was just asked; an answer that follows at once is shown from there on. */
export function jumpToQuestion() {
  jump();
  asked = performance.now();
}

/** Scrolls to the end of the last turn if the reader was there. */
export function follow(turn) {
  const end = scrollY + rest();
  const begin = scrollY + turn.getBoundingClientRect().top - header.offsetHeight;
  if (following) scrollTo({ top: performance.now() - asked < AT_ONCE ? Math.min(begin, end) : end });
  show();
}

function show() {
  latest.hidden = atEnd();
}

// A wheel or a touch upwards ends the following, before the next piece of text scrolls back.
addEventListener("wheel", ({ deltaY }) => deltaY < 0 && (following = false), { passive: true });
addEventListener("touchmove", () => (following = false), { passive: true });
addEventListener("scroll", () => {
  if (atEnd()) following = true;
  else if (scrollY < last) following = false;
  last = scrollY;
  show();
}, { passive: true });
let last = scrollY;
latest.addEventListener("click", jump);
