export { RequestError } from "./errors.js";
export * from "./events.js";
export {
  FramedDecoder,
  FramedError,
  DEFAULT_MAX_LINE_BYTES,
  DEFAULT_MAX_TRAILER_BYTES,
  type Citation,
  type DecoderOptions,
  type EndItem,
  type EventItem,
  type Failure,
  type Finish,
  type FramedErrorCode,
  type Item,
  type Metadata,
  type Phase,
  type TextItem,
  type Timing,
} from "./framed.js";
export type { IndexedFinish, IndexedItem, IndexedOptions, SnapshotItem } from "./indexed.js";
export { NdjsonDecoder } from "./ndjson.js";
export type { RequestOptions } from "./request.js";
export { SseDecoder } from "./sse.js";
export {
  FramedDecoderStream,
  decodeFramed,
  decodeStream,
  withdraw,
  type ByteSource,
  type Decoder,
  type StreamItem,
  type TruncatedItem,
} from "./stream.js";
export {
  answer,
  ask,
  resume,
  stop,
  type AskOptions,
  type Question,
  type QuestionOptions,
  type ResumeOptions,
  type Turn,
  type TurnItem,
  type TurnOptions,
} from "./turn.js";
export { framed, ndjson, sse, type Wire } from "./wires.js";
