/** @internal */
export class Replay {
  restart(): void;
  newPart(piece: string): string;
}
