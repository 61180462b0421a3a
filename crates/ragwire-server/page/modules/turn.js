// Asks one question, and follows its turn to its end. Nothing here touches the page.
//
// A lost connection does not stop the turn: the server keeps it, and this class resumes it. After a lost
// connection it continues with the first frame that it has not received; after a reload it reads the turn from
// its beginning.

import { NdjsonDecoder } from "/client/ndjson.js";
import { decodeStream } from "/client/stream.js";
import { errorOf, refusalOf } from "./dom.js";

const NDJSON = "application/x-ndjson";
/**
 * Delays before each reconnect, in milliseconds. Their sum is half of the time for which the server continues a
 * turn without readers.
 */
const DELAYS = [250, 500, 1000, 2000, 4000, 8000];

export class Turn {
  /** The ID of the turn, `null` until the server has sent it. */
  id = null;
  /** The index of the next frame. */
  #next = 0;
  #abort = new AbortController();
  #reader;

  /**
   * `reader` has the methods `started(id)`, `connection(text)` with `null` once the connection is back, `event(event)`, `text(text)`,
   * `snapshot(item)` and `end(end)`. The last is called once, with
   * `{status: "completed" | "failed" | "stopped" | "truncated" | "unknown", message?, metadata?, timing?}`.
   */
  constructor(reader) {
    this.#reader = reader;
  }

  /** Sends a question. */
  async ask(body) {
    const { signal } = this.#abort;
    try {
      const response = await fetch("/v1/turns", {
        method: "POST",
        headers: { "content-type": "application/json", accept: NDJSON },
        body: JSON.stringify(body),
        signal,
      });
      if (!response.ok) {
        const { message, request_id: id } = await refusalOf(response);
        // A turn that failed before its response began has an ID, and its question is in the session.
        if (id !== undefined) this.#reader.started(id);
        return this.#end("failed", message);
      }
      this.id = response.headers.get("x-ragwire-turn");
      this.#reader.started(this.id);
      await this.#follow(response.body);
    } catch (error) {
      if (signal.aborted) return this.#end("stopped");
      this.#end("failed", "The server cannot be reached.");
      console.error(error);
    }
  }

  /** Reads a turn from its beginning. The status is `unknown` if the server no longer has it. */
  async resume(id) {
    this.id = id;
    await this.#follow(null);
  }

  /** Stops the turn on the server, which then sends its end. A disconnect alone would not stop it. */
  async stop() {
    // The turn has no ID yet, and ends with the connection.
    if (this.id === null) return this.#abort.abort();
    try {
      const response = await fetch(`/v1/turns/${this.id}/stop`, { method: "POST" });
      if (!response.ok) throw new Error(`status ${response.status}`);
    } catch (error) {
      console.error(error);
      this.#abort.abort();
    }
  }

  /** Sends a reply to a question of the turn. The stream reports that it was accepted. */
  async reply(requestId, response) {
    const result = await fetch(`/v1/turns/${this.id}/answer`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ request_id: requestId, response }),
    });
    if (!result.ok) throw new Error(await errorOf(result));
  }

  #end(status, message) {
    this.#reader.end({ status, message });
  }

  #lost() {
    this.#end("truncated", "The connection was lost. The answer is incomplete.");
  }

  /** Reads the turn to its end, reconnecting as needed; `body` is that of the first response. */
  async #follow(body) {
    const { signal } = this.#abort;
    for (let failed = 0; ; failed += 1) {
      const before = this.#next;
      try {
        body ??= await this.#reopen();
        if (body === null || (await this.#read(body))) return;
      } catch (error) {
        // The stream is malformed: reading it again would not help.
        if (error.name === "FramedError") return this.#lost();
      }
      if (signal.aborted) return this.#end("stopped");
      body = null;
      if (this.#next > before) failed = 0;
      if (failed === DELAYS.length) return this.#lost();
      this.#reader.connection("The connection was lost. Reconnecting…");
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, DELAYS[failed]);
        signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
      });
      if (signal.aborted) return this.#end("stopped");
    }
  }

  /** Returns the rest of the turn, or `null` after reporting the end. */
  async #reopen() {
    const response = await fetch(`/v1/turns/${this.id}/stream?from=${this.#next}`, { headers: { accept: NDJSON }, signal: this.#abort.signal });
    if (response.status === 200) {
      this.#reader.connection(null);
      return response.body;
    }
    if (response.status >= 500) throw new Error(`status ${response.status}`);
    if (this.#next > 0) this.#end("truncated", `${await errorOf(response)} The answer is incomplete.`);
    else this.#end("unknown", "The server no longer has this answer.");
    return null;
  }

  /** Passes on the frames of a response, and returns whether the turn has ended. */
  async #read(body) {
    for await (const item of decodeStream(body, new NdjsonDecoder())) {
      if (item.type === "truncated") return false;
      this.#next = item.index + 1;
      if (item.type === "event") this.#reader.event(item.event);
      else if (item.type === "text") this.#reader.text(item.text);
      else if (item.type === "snapshot") this.#reader.snapshot(item);
      else {
        this.#reader.end({ ...item, message: item.error?.message });
        return true;
      }
    }
    return false;
  }
}
