import type { DecoderOptions } from "./framed.js";
import { IndexedDecoder } from "./indexed.js";

export type { IndexedFinish, IndexedItem, SnapshotItem } from "./indexed.js";

/** Decodes ragwire's JSON lines: bytes in, items out. */
export class NdjsonDecoder extends IndexedDecoder {
  constructor(options?: DecoderOptions);
}
