import type { Retry } from "./retry.js";
import type { TruncatedItem } from "./stream.js";
import type { Cursor } from "./wires.js";

/** @internal */
export function follow<T extends { type: string }>(reading: {
  response: Response | null;
  open: ((from: number) => Promise<Response>) | null;
  cursor: Cursor<T>;
  retry: Retry;
  options: { signal?: AbortSignal | null; idleTimeout?: number };
}): AsyncGenerator<T | TruncatedItem, void, void>;
