import { IndexedDecoder, type IndexedOptions } from "./indexed.js";

export type { IndexedFinish, IndexedItem, IndexedOptions, SnapshotItem } from "./indexed.js";

/** Decodes ragwire's JSON lines: bytes in, items out. */
export class NdjsonDecoder extends IndexedDecoder {
  constructor(options?: IndexedOptions);
}
