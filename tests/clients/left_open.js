// What a test that failed leaves open would keep its process running, and so the whole suite.
import { after } from "node:test";

const stops = new Set();

/** Calls `stop` when the tests of this file have ended. It may have been called before. */
export function stopAtEnd(stop) {
  stops.add(stop);
}

after(async () => {
  for (const stop of stops) await stop();
});
