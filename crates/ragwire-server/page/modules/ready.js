// The line that says what a starting server still reads.

import { element } from "./dom.js";

const line = element("reading");
/** Pause between two requests, in milliseconds. */
const PAUSE = 1000;

/** Shows the progress of the start. Calls `changed` if the server became ready meanwhile. */
export async function showProgress(changed) {
  for (let waited = false; ; waited = true) {
    const message = await progress();
    line.hidden = message === null;
    if (message === null) return waited ? changed() : undefined;
    if (line.textContent !== message) line.textContent = message;
    await new Promise((resolve) => setTimeout(resolve, PAUSE));
  }
}

/** Returns what the server does, or `null` once it is ready. */
async function progress() {
  try {
    const response = await fetch("/readyz");
    if (response.status !== 503) return null;
    const { status, message } = await response.json();
    return status === "starting" ? message : null;
  } catch {
    // The rest of the page reports a server that is not reached.
    return null;
  }
}
