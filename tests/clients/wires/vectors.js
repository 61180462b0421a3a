// Serves the unchanged bytes of tests/vectors to published clients.
import { readdirSync, readFileSync } from "node:fs";
import http from "node:http";
import { stopAtEnd } from "../left_open.js";

const VECTORS = new URL("../../vectors/", import.meta.url);

/** All vectors of a wire, by id. */
export function vectors(wire) {
  const folder = new URL(`${wire}/`, VECTORS);
  const files = readdirSync(folder).filter((name) => name.endsWith(".json"));
  const read = files.map((name) => JSON.parse(readFileSync(new URL(name, folder), "utf8")));
  return new Map(read.map((vector) => [vector.id, vector]));
}

/** The streams of a vector in which one ends at a question and another continues: the chunks of each. */
export function streams({ frames, chunks }) {
  const streams = [[]];
  for (const [index, frame] of frames.entries()) {
    streams.at(-1).push(chunks[index]);
    if (frame.park) streams.push([]);
  }
  return streams;
}

/** Returns true if a vector is about questions that may end their stream. */
export const parks = ({ wire }) => wire?.parks === true;

/**
 * Serves `chunks` to every request: each as one write, or `byteAtATime`; `cutAfter` cuts the
 * response after that many chunks, once `arrived` is done: a client may drop what it has not read
 * from a connection that breaks. `requests` has the requests.
 */
export async function serve(chunks, { headers = {}, status = 200, byteAtATime = false, cutAfter = Infinity, arrived } = {}) {
  const requests = [];
  const server = http.createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    requests.push({ method: request.method, url: request.url, headers: request.headers, body: Buffer.concat(parts).toString() });
    response.writeHead(status, headers);
    for (const [index, chunk] of chunks.entries()) {
      if (index >= cutAfter) {
        await arrived;
        return response.destroy();
      }
      const bytes = Buffer.from(chunk);
      const size = byteAtATime ? 1 : Math.max(1, bytes.length);
      for (let at = 0; at < bytes.length; at += size) {
        response.write(bytes.subarray(at, at + size));
        await new Promise(setImmediate);
      }
    }
    response.end();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  const stop = () => (server.closeAllConnections(), new Promise((resolve) => server.close(resolve)));
  stopAtEnd(stop);
  return { url, requests, stop };
}
