// @ts-check
/** When a request is repeated: exponential delays with jitter, within a number of attempts. */

import { RequestError } from "./errors.js";

/** With the delays below, about a minute without any progress. */
export const DEFAULT_ATTEMPTS = 10;
const FIRST_DELAY_MS = 250;
const LONGEST_DELAY_MS = 15_000;
/** The longest time that a timer can wait. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export class Retry {
  #failed = 0;
  #attempts;
  #signal;

  /** @param {{attempts?: number, signal?: AbortSignal | null}} options */
  constructor({ attempts = DEFAULT_ATTEMPTS, signal }) {
    this.#attempts = attempts;
    this.#signal = signal;
  }

  /** Begins to count from scratch, because something arrived. */
  reset() {
    this.#failed = 0;
  }

  /**
   * Waits for the next attempt, and returns false if there is none. Throws the signal's reason if
   * the signal aborts.
   *
   * @param {unknown} error why the last attempt failed
   * @returns {Promise<boolean>}
   */
  async wait(error) {
    this.#signal?.throwIfAborted();
    const failed = this.#failed++;
    if (this.#failed >= this.#attempts || !isTemporary(error)) return false;
    const ceiling = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** failed);
    const asked = error instanceof RequestError ? error.retryAfter ?? 0 : 0;
    // The half that is random keeps clients apart that lost the same server. It is added to the
    // time that the server asks for, because that is the same for all of them.
    await sleep(asked + (ceiling * (1 + Math.random())) / 2, this.#signal);
    return true;
  }
}

/**
 * Returns whether another attempt may succeed: the connection broke, or the server or a proxy in
 * front of it is not available.
 *
 * @param {unknown} error
 */
export function isTemporary(error) {
  const status = error instanceof RequestError ? error.status : 0;
  return status === 0 || status === 408 || status === 429 || status >= 500;
}

/**
 * @param {number} ms
 * @param {AbortSignal | null} [signal]
 * @returns {Promise<void>}
 */
function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    const wake = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", wake);
      if (signal?.aborted) reject(signal.reason);
      else resolve();
    };
    const timer = setTimeout(wake, Math.min(ms, LONGEST_TIMER_MS));
    signal?.addEventListener("abort", wake);
  });
}
