/** How often a request is tried without any progress in between. */
export const DEFAULT_ATTEMPTS: 10;

/** @internal */
export class Retry {
  constructor(options: { attempts?: number; signal?: AbortSignal | null });
  reset(): void;
  wait(error: unknown): Promise<boolean>;
}
/** @internal */
export function isTemporary(error: unknown): boolean;
