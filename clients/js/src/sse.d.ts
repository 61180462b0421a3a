import { IndexedDecoder, type IndexedOptions } from "./indexed.js";

export type { IndexedFinish, IndexedItem, IndexedOptions, SnapshotItem } from "./indexed.js";

/** Decodes ragwire's server-sent events: bytes in, items out. */
export class SseDecoder extends IndexedDecoder {
  constructor(options?: IndexedOptions);
}
