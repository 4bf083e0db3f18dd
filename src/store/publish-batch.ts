import type { Identity } from '../domain/ids.ts'
import type { Once, Published, PublishedTogether } from './publishing.ts'

// Messages that are stored all or none.

/** Ends the transaction because one of them was refused. */
export class Refused extends Error {
  readonly answer: PublishedTogether

  constructor(answer: PublishedTogether) {
    super('refused')
    this.answer = answer
  }
}

/** The messages that stand for the publications; throws `Refused` when there is one that none stands for. */
export function allAccepted(answers: readonly Published[]): Identity[] {
  return answers.map((answer, index) => {
    if (answer.state === 'conflict') throw new Refused({ ...answer, index })
    if (answer.state === 'stale' || answer.state === 'mismatch') throw new Refused(answer)
    return { key: answer.key, id: answer.id }
  })
}

/** Messages as they are kept under the hash that was taken for all of them. */
export function writeIdentities(messages: readonly Identity[]): Uint8Array {
  return Buffer.from(JSON.stringify(messages.map(({ key, id }) => [key, id])))
}

/** The answer when the hash was taken before. */
export function repeatedTogether(
  taken: { readonly fingerprint: string; readonly answer: Uint8Array | null },
  once: Once,
): PublishedTogether {
  if (taken.fingerprint !== once.fingerprint || taken.answer === null) return { state: 'mismatch' }
  const pairs: [number, string][] = JSON.parse(new TextDecoder().decode(taken.answer))
  return { state: 'repeated', messages: pairs.map(([key, id]) => ({ key, id })) }
}
