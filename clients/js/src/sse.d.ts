import type { DecoderOptions } from "./framed.js";
import { IndexedDecoder } from "./indexed.js";

export type { IndexedFinish, IndexedItem, SnapshotItem } from "./indexed.js";

/** Decodes ragwire's server-sent events: bytes in, items out. */
export class SseDecoder extends IndexedDecoder {
  constructor(options?: DecoderOptions);
}
