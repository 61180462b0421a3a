// @ts-check
/**
 * Recognises the part of a stream that a reader already has, when the server sends it again from
 * the beginning.
 *
 * The framed wire and the AI SDK's have no index in their streams, but a journaled turn is the same
 * for each reader. A hash verifies that: where the journal dropped the beginning, the stream begins
 * with a summary of it instead. Memory does not grow with the stream.
 */

import { RequestError } from "./errors.js";

/** The prime of the 32-bit FNV-1a hash. */
const FNV_PRIME = 16_777_619;

export class Replay {
  /** How many UTF-16 units were delivered, and their hash. */
  #delivered = 0;
  #deliveredHash = 0;
  /** The same for the current connection; equal once it has reached something new. */
  #at = 0;
  #hash = 0;

  /** Begins to read the stream again. */
  restart() {
    this.#at = this.#hash = 0;
  }

  /**
   * Takes the next piece of the stream, and returns the part of it that is new. Throws if the stream
   * differs from what was delivered.
   *
   * @param {string} piece
   */
  newPart(piece) {
    const old = piece.slice(0, this.#delivered - this.#at);
    this.#mix(old);
    if (this.#at < this.#delivered) return "";
    if (this.#hash !== this.#deliveredHash) {
      throw new RequestError("gone", "the server dropped the beginning of the stream", { status: 410 });
    }
    const rest = piece.slice(old.length);
    this.#mix(rest);
    this.#delivered = this.#at;
    this.#deliveredHash = this.#hash;
    return rest;
  }

  /** @param {string} units */
  #mix(units) {
    for (let at = 0; at < units.length; at += 1) this.#hash = Math.imul(this.#hash ^ units.charCodeAt(at), FNV_PRIME) + 1;
    this.#at += units.length;
  }
}
