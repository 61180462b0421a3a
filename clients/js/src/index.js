// @ts-check
/** Everything except for the AI SDK's transport, which is in `ai.js`. Bundlers leave out what is not used. */

export { RequestError } from "./errors.js";
export { FramedDecoder, FramedError, DEFAULT_MAX_LINE_BYTES, DEFAULT_MAX_TRAILER_BYTES } from "./framed.js";
export { NdjsonDecoder } from "./ndjson.js";
export { SseDecoder } from "./sse.js";
export { FramedDecoderStream, decodeFramed, decodeStream, withdraw } from "./stream.js";
export { answer, ask, resume, stop } from "./turn.js";
export { framed, ndjson, sse } from "./wires.js";
