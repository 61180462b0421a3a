// @ts-check
/** Push decoder of JSON lines (PROTOCOL.md, rules N-01 to N-10): bytes in, items with an index out. */

import { FramedError, decodeJson, isObject, parseJson } from "./framed.js";
import { IndexedDecoder, isSnapshot, readFrame } from "./indexed.js";

export class NdjsonDecoder extends IndexedDecoder {
  /** @param {import("./indexed.js").IndexedOptions} [options] */
  constructor(options = {}) {
    super(options, false);
  }

  /** @param {Uint8Array} line */
  line(line) {
    const text = decodeJson(line, "bad_event");
    if (/^[ \t\r]*$/.test(text)) return;
    const members = parseJson(text, "bad_event");
    if (!isObject(members)) throw new FramedError("bad_event");
    const { index } = members;
    delete members.index;
    this.push(index, isSnapshot(members), () => readFrame(members));
  }
}
