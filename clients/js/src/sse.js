// @ts-check
/**
 * Push decoder of our server-sent events (PROTOCOL.md, rules S-01 to S-10): bytes in, items with an
 * index out. Unlike an `EventSource` it reads any response, also that of a POST, and reports
 * whether all of it arrived.
 */

import { FramedError, parseJson } from "./framed.js";
import { IndexedDecoder, readFrame } from "./indexed.js";

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;
/** An event with one of these names, or with U+2028 or U+2029 in its name, has the type `custom` (S-04). */
const RESERVED_TYPES = new Set(["", "text", "end", "snapshot", "message", "open", "error"]);

export class SseDecoder extends IndexedDecoder {
  #hasBegun = false;
  #type = "";
  /** @type {string | null} */
  #data = null;
  #dataBytes = 0;
  #id = "";
  #inComment = false;

  /** @param {import("./indexed.js").IndexedOptions} [options] */
  constructor(options = {}) {
    super(options, true);
  }

  /** @param {Uint8Array} bytes */
  line(bytes) {
    // Line ends are ASCII and never part of another character, so each line can be repaired by
    // itself.
    let line = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
    if (!this.#hasBegun && line.startsWith("\ufeff")) line = line.slice(1);
    this.#hasBegun = true;
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const rest = colon < 0 ? "" : line.slice(colon + 1);
    const value = rest.startsWith(" ") ? rest.slice(1) : rest;
    if (name === "event") this.#type = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
    else if (name === "data") {
      this.#dataBytes += new TextEncoder().encode(value).length + (this.#data === null ? 0 : 1);
      if (this.#dataBytes > this.maxBytes) throw new FramedError("line_too_long");
      this.#data = this.#data === null ? value : `${this.#data}\n${value}`;
    }
  }

  #dispatch() {
    const [type, data] = [this.#type || "message", this.#data];
    this.#type = "";
    this.#data = null;
    this.#dataBytes = 0;
    if (data === null) return;
    const index = /^(0|[1-9][0-9]*)$/.test(this.#id) ? Number(this.#id) : null;
    this.push(index, type === "snapshot", () => {
      const item = readFrame(parseJson(data, "bad_event"));
      // Readers that use the type and readers that use the object must get the same frame.
      if (type !== (item.type === "event" ? typeOf(item.event.event) : item.type)) throw new FramedError("bad_event");
      return item;
    });
  }

  /** @param {Uint8Array} bytes */
  trailing(bytes) {
    for (const byte of bytes) {
      if (byte === LF || byte === CR) this.#inComment = false;
      else if (byte === COLON) this.#inComment = true;
      else if (!this.#inComment) throw new FramedError("trailing_bytes");
    }
  }
}

/** @param {string} name */
function typeOf(name) {
  return RESERVED_TYPES.has(name) || /[\u2028\u2029]/.test(name) ? "custom" : name;
}
