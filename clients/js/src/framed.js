// @ts-check
/**
 * Push decoder of the framed wire (PROTOCOL.md, rules F-01 to F-19): bytes in, items out.
 *
 * It has no I/O and no clock; `stream.js` connects it to web streams.
 *
 *     const decoder = new FramedDecoder();
 *     for (const chunk of chunks) {
 *       for (const item of decoder.feed(chunk)) show(item);
 *     }
 *     const { items, status } = decoder.finish();   // throws the error, if there was one
 *
 * Every byte is examined once, and between two calls the decoder holds one unfinished line or
 * trailer in one buffer. Time is therefore linear in the input, and memory is bounded by the
 * limits, however the input is cut.
 */

/** @typedef {import("./events.js").TurnEvent} TurnEvent */
/** @typedef {import("./framed.js").EndItem} EndItem */
/** @typedef {import("./framed.js").Item} Item */
/** @typedef {import("./framed.js").Finish} Finish */
/** @typedef {import("./framed.js").Phase} Phase */
/** @typedef {import("./framed.js").DecoderOptions} DecoderOptions */
/** @typedef {import("./framed.js").FramedErrorCode} FramedErrorCode */
/** @typedef {import("./framed.js").Failure} Failure */

/** Enough for a tool result of a few pages. A line is buffered until it is complete. */
export const DEFAULT_MAX_LINE_BYTES = 262_144;

/** Enough for hundreds of citations with their quotes. */
export const DEFAULT_MAX_TRAILER_BYTES = 1_048_576;

const LF = 0x0a;
const TEXT_BEGINS = 0x1d;
const TRAILER_BEGINS = 0x1e;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const BRACE_OPEN = 0x7b;
const BRACE_CLOSE = 0x7d;

/** The names with their own shape (PROTOCOL.md, "Event names"). Any other name is an application event. */
const TYPED_EVENTS = new Set(
  (
    "search reasoning review query_analysis cache_hit cache_miss retrieval_start " +
    "retrieval_result tool_call tool_result crag_evaluation rerank_result generation_start " +
    "round_start generating thinking retract verification sources queued input_requested " +
    "input_resolved authorization_required authorization_completed structured_result " +
    "graph_explanation"
  ).split(" "),
);

/** The defaults for missing members of a failure (F-08). */
const DEFAULT_FAILURE = {
  code: "chat_failed",
  message: "I hit an internal error while gathering evidence. Please retry.",
  recoverable: true,
};

/** The stream broke a rule of the wire. The error is permanent: the decoder accepts nothing after it. */
export class FramedError extends Error {
  /** @param {FramedErrorCode} code */
  constructor(code) {
    super(`invalid stream: ${code}`);
    this.name = "FramedError";
    this.code = code;
  }
}

export class FramedDecoder {
  /** @type {Phase} */
  #phase = "events";
  /** @type {FramedError | null} */
  #error = null;
  #finished = false;
  /** The unfinished line or trailer. */
  #unfinished;
  #maxLineBytes;
  #maxTrailerBytes;
  // The byte order mark U+FEFF is ordinary text: without `ignoreBOM` the decoder would remove it.
  #text = new TextDecoder("utf-8", { ignoreBOM: true });

  // The end of the trailer's object is found while it arrives, by counting braces outside strings.
  #depth = 0;
  #inString = false;
  #escaped = false;

  /** @param {DecoderOptions} [options] */
  constructor({ maxLineBytes = DEFAULT_MAX_LINE_BYTES, maxTrailerBytes = DEFAULT_MAX_TRAILER_BYTES } = {}) {
    for (const limit of [maxLineBytes, maxTrailerBytes]) {
      if (!Number.isSafeInteger(limit) || limit < 1) throw new RangeError("a limit must be a positive integer");
    }
    this.#maxLineBytes = maxLineBytes;
    this.#maxTrailerBytes = maxTrailerBytes;
    this.#unfinished = new ByteBuffer();
  }

  /** The phase that the stream has reached. */
  get phase() {
    return this.#phase;
  }

  /** The error that ended the stream, or null. Set by the `feed` that found it; later calls throw it. */
  get error() {
    return this.#error;
  }

  /**
   * Takes the next bytes and returns the items that they complete. Items before an error are
   * returned: the call sets `error`, and the next `feed` or `finish` throws it.
   *
   * @param {Uint8Array} chunk
   * @returns {Item[]}
   */
  feed(chunk) {
    // The tag instead of `instanceof`: it also accepts arrays of another realm (frames, test
    // runners).
    if (/** @type {any} */ (chunk)?.[Symbol.toStringTag] !== "Uint8Array") {
      // Text that was decoded elsewhere may be cut within a character.
      throw new TypeError("feed takes a Uint8Array");
    }
    if (this.#error) throw this.#error;
    if (this.#finished) throw new Error("feed after finish");

    /** @type {Item[]} */
    const items = [];
    try {
      let at = 0;
      while (at < chunk.length) {
        if (this.#phase === "events") at = this.#feedEvents(chunk, at, items);
        else if (this.#phase === "text") at = this.#feedText(chunk, at, items);
        else if (this.#phase === "trailer") at = this.#feedTrailer(chunk, at, items);
        else throw new FramedError("trailing_bytes");
      }
    } catch (error) {
      if (!(error instanceof FramedError)) throw error;
      this.#error = error;
      this.#unfinished.clear();
    }
    return items;
  }

  /**
   * Reports the end of the bytes. Text that ends within a character gives one last item. A stream
   * without its whole trailer is `truncated`, never `complete`.
   *
   * @returns {Finish}
   */
  finish() {
    if (this.#error) throw this.#error;
    /** @type {Item[]} */
    const items = [];
    if (this.#phase === "text" && !this.#finished) pushText(items, this.#text.decode());
    this.#finished = true;
    this.#unfinished.clear();
    return this.#phase === "ended"
      ? { items, status: "complete" }
      : { items, status: "truncated", phase: this.#phase };
  }

  /**
   * Takes one line, a part of one, or the separator that ends the lines. Each `#feed…` returns the
   * offset at which it stopped.
   *
   * @param {Uint8Array} chunk
   * @param {number} from
   * @param {Item[]} items
   */
  #feedEvents(chunk, from, items) {
    const room = this.#maxLineBytes - this.#unfinished.length;
    let at = from;
    while (at < chunk.length && chunk[at] !== LF && chunk[at] !== TEXT_BEGINS && chunk[at] !== TRAILER_BEGINS) {
      if (at - from === room) throw new FramedError("line_too_long");
      at += 1;
    }
    if (at === chunk.length) {
      this.#unfinished.append(chunk.subarray(from, at), this.#maxLineBytes);
      return at;
    }
    if (chunk[at] === LF) {
      const event = parseLine(this.#unfinished.take(chunk.subarray(from, at), this.#maxLineBytes));
      if (event) items.push({ type: "event", event });
      return at + 1;
    }
    const lineIsOpen = this.#unfinished.length > 0 || at > from;
    if (chunk[at] === TRAILER_BEGINS || lineIsOpen) throw new FramedError("stray_separator");
    this.#phase = "text";
    return at + 1;
  }

  /**
   * Takes text up to the separator that ends it.
   *
   * @param {Uint8Array} chunk
   * @param {number} from
   * @param {Item[]} items
   */
  #feedText(chunk, from, items) {
    let at = from;
    while (at < chunk.length && chunk[at] !== TEXT_BEGINS && chunk[at] !== TRAILER_BEGINS) at += 1;
    const more = at === chunk.length;
    // `stream` keeps an unfinished character for the next chunk; a separator ends it.
    pushText(items, this.#text.decode(chunk.subarray(from, at), { stream: more }));
    if (more) return at;
    if (chunk[at] === TEXT_BEGINS) throw new FramedError("stray_separator");
    this.#phase = "trailer";
    return at + 1;
  }

  /**
   * Takes the trailer up to the end of its object.
   *
   * @param {Uint8Array} chunk
   * @param {number} from
   * @param {Item[]} items
   */
  #feedTrailer(chunk, from, items) {
    if (this.#unfinished.length === 0 && chunk[from] !== BRACE_OPEN) throw new FramedError("bad_trailer");
    const room = this.#maxTrailerBytes - this.#unfinished.length;
    for (let at = from; at < chunk.length; at += 1) {
      if (at - from === room) throw new FramedError("trailer_too_long");
      if (this.#closesTrailer(chunk[at])) {
        const { events, end } = parseTrailer(this.#unfinished.take(chunk.subarray(from, at + 1), this.#maxTrailerBytes));
        for (const event of events) items.push({ type: "event", event });
        items.push(end);
        this.#phase = "ended";
        return at + 1;
      }
    }
    this.#unfinished.append(chunk.subarray(from), this.#maxTrailerBytes);
    return chunk.length;
  }

  /** @param {number} byte */
  #closesTrailer(byte) {
    if (this.#inString) {
      if (this.#escaped) this.#escaped = false;
      else if (byte === BACKSLASH) this.#escaped = true;
      else if (byte === QUOTE) this.#inString = false;
    } else if (byte === QUOTE) {
      this.#inString = true;
    } else if (byte === BRACE_OPEN) {
      this.#depth += 1;
    } else if (byte === BRACE_CLOSE) {
      this.#depth -= 1;
      return this.#depth === 0;
    }
    return false;
  }
}

/**
 * The bytes of an unfinished line or trailer. They are copied, because a reader may reuse its
 * chunk, into one buffer that doubles: a list of fragments would take a hundred times the limit if
 * bytes arrive one at a time.
 */
export class ByteBuffer {
  #buffer = new Uint8Array(0);
  length = 0;

  /**
   * @param {Uint8Array} bytes
   * @param {number} limit the caller ensures that length + bytes.length <= limit
   */
  append(bytes, limit) {
    const length = this.length + bytes.length;
    if (length > this.#buffer.length) {
      const grown = new Uint8Array(Math.min(limit, Math.max(length, 2 * this.#buffer.length, 256)));
      grown.set(this.#buffer.subarray(0, this.length));
      this.#buffer = grown;
    }
    this.#buffer.set(bytes, this.length);
    this.length = length;
  }

  /**
   * Returns the buffered bytes followed by `last` and empties the buffer. The result is valid until
   * the next `append`.
   *
   * @param {Uint8Array} last
   * @param {number} limit as for `append`
   */
  take(last, limit) {
    // The usual case: the whole line is in one chunk, and nothing is copied.
    if (this.length === 0) return last;
    this.append(last, limit);
    const whole = this.#buffer.subarray(0, this.length);
    this.length = 0;
    return whole;
  }

  clear() {
    this.#buffer = new Uint8Array(0);
    this.length = 0;
  }
}

/**
 * @param {Uint8Array} line
 * @returns {TurnEvent | null} null for a keep-alive
 */
function parseLine(line) {
  const text = decodeJson(line, "bad_event");
  // JSON whitespace only; `trim` would also remove U+00A0 and similar characters.
  if (/^[ \t\r]*$/.test(text)) return null;
  const event = toEvent(parseJson(text, "bad_event"));
  if (!event) throw new FramedError("bad_event");
  return event;
}

/** @param {Uint8Array} bytes */
function parseTrailer(bytes) {
  const trailer = parseJson(decodeJson(bytes, "bad_trailer"), "bad_trailer");
  if (!isObject(trailer)) throw new FramedError("bad_trailer");
  dropNulls(trailer);
  const { status = "completed", error, events: late = [], ...members } = trailer;
  const metadata = { citations: [], tools_used: [], ...members };
  for (const list of [metadata.citations, metadata.tools_used, late]) {
    if (!Array.isArray(list)) throw new FramedError("bad_trailer");
  }

  /** @type {TurnEvent[]} */
  const events = [];
  for (const value of /** @type {unknown[]} */ (late)) {
    const event = toEvent(value);
    if (!event) throw new FramedError("bad_trailer");
    // Its position among the texts is lost (F-20).
    if (event.event !== "retract") events.push(event);
  }

  // An unknown status must not pass for a complete answer.
  if (!isStatus(status)) throw new FramedError("bad_trailer");
  return { events, end: toEnd(status, metadata, error) };
}

/**
 * Converts an event to the shape that the application gets: a typed event unchanged, an application
 * event as `{event, data, timestamp?}` however another encoder wrote it (F-12).
 *
 * @param {unknown} value
 * @returns {TurnEvent | null}
 */
export function toEvent(value) {
  if (!isObject(value) || typeof value.event !== "string") return null;
  dropNulls(value);
  const { event, timestamp, ...members } = value;
  if (TYPED_EVENTS.has(event)) return /** @type {TurnEvent} */ (value);
  const names = Object.keys(members);
  const data = names.length === 1 && names[0] === "data" ? members.data : members;
  return /** @type {TurnEvent} */ (timestamp === undefined ? { event, data } : { event, data, timestamp });
}

/**
 * @param {unknown} status
 * @returns {status is EndItem["status"]}
 */
export function isStatus(status) {
  return status === "completed" || status === "failed" || status === "stopped";
}

/**
 * @param {EndItem["status"]} status
 * @param {import("./framed.js").Metadata} metadata
 * @param {unknown} error
 * @returns {EndItem}
 */
export function toEnd(status, metadata, error) {
  return status === "failed" ? { type: "end", status, metadata, error: toFailure(error) } : { type: "end", status, metadata };
}

/**
 * @param {unknown} error
 * @returns {Failure}
 */
function toFailure(error) {
  const { code, message, recoverable } = isObject(error) ? error : {};
  return {
    code: typeof code === "string" ? code : DEFAULT_FAILURE.code,
    message: typeof message === "string" ? message : DEFAULT_FAILURE.message,
    recoverable: typeof recoverable === "boolean" ? recoverable : DEFAULT_FAILURE.recoverable,
  };
}

/**
 * @param {Item[]} items
 * @param {string} text
 */
function pushText(items, text) {
  if (text !== "") items.push({ type: "text", text });
}

/**
 * @param {Uint8Array} bytes
 * @param {FramedErrorCode} code
 */
export function decodeJson(bytes, code) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new FramedError(code);
  }
}

/**
 * @param {string} text
 * @param {FramedErrorCode} code
 * @returns {unknown}
 */
export function parseJson(text, code) {
  try {
    return JSON.parse(text);
  } catch {
    throw new FramedError(code);
  }
}

/**
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/**
 * Removes null members, which mean absent (F-03). In place: copying members one by one would let
 * `__proto__` set the prototype.
 *
 * @param {Record<string, unknown>} object
 */
export function dropNulls(object) {
  for (const name of Object.keys(object)) {
    if (object[name] === null) delete object[name];
  }
}
