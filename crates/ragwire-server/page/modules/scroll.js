// Follows the end of the thread while an answer is written, until the reader scrolls up.

import { element } from "./dom.js";

const latest = element("latest");
/** Distance from the end within which the page follows, in pixels. */
const NEAR = 120;

let following = true;

const rest = () => document.documentElement.scrollHeight - innerHeight - scrollY;

export const atEnd = () => rest() <= NEAR;

/** Scrolls to the end, and follows from now on. */
export function jump() {
  following = true;
  scrollTo({ top: document.documentElement.scrollHeight });
  show();
}

/** Scrolls to the end if the reader was there. */
export function follow() {
  if (following) scrollTo({ top: document.documentElement.scrollHeight });
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
