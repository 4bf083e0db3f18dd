/**
 * States a condition that the code around it rests on. Where it does not hold, the program is wrong, and to go on could lose a
 * delivery or send it twice: the process ends, and the store is continued by the next one. The sentence says which fact is broken.
 */
export function invariant(holds: boolean, sentence: string): asserts holds {
  if (!holds) throw new InvariantError(sentence)
}

/** A value that is there by an invariant, which the sentence says. */
export function present<T>(value: T | undefined, sentence: string): T {
  if (value === undefined) throw new InvariantError(sentence)
  return value
}

/** A fault of the program itself. */
export class InvariantError extends Error {
  override readonly name = 'InvariantError'

  constructor(sentence: string) {
    super(`broken invariant: ${sentence}`)
  }
}
