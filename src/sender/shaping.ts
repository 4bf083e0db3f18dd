import type { Outcome } from '../domain/outcome.ts'
import type { Parts } from '../domain/turns.ts'
import { notSent } from './classify.ts'
import type { Parcel, Target } from './send.ts'

export const unshapable = 'The endpoint gets only a part of each payload, which cannot be told of this one.'

/** Shapes the body of a parcel. A signature of the whole body does not go along. */
export function* shapedBy(shape: NonNullable<Target['shape']>, parcel: Parcel): Parts<Parcel | undefined> {
  const body = yield* shape(parcel.body)
  return body && { ...parcel, body, signature: null }
}

/** Attempts that wait for their bodies to be shaped, which takes several turns of the event loop for a large one. */
export class ShapingAttempts {
  readonly #waiting = new Set<() => void>()

  /** Begins an attempt when its parcel is shaped. The answer aborts the attempt, also once it is under way. */
  add(
    shaping: Promise<Parcel | undefined>,
    begin: (parcel: Parcel) => () => void,
    onEnd: (outcome: Outcome) => void,
  ): () => void {
    let abort = () => {
      this.#waiting.delete(onAbort)
      abort = () => {}
      onEnd(notSent('aborted', 'Sluice gave the attempt up before it was sent.'))
    }
    const onAbort = () => abort()
    this.#waiting.add(onAbort)
    void this.#begin(shaping, (parcel) => {
      if (!this.#waiting.delete(onAbort)) return
      abort = () => {}
      if (parcel instanceof Error) onEnd(notSent('blocked', `The payload could not be shaped: ${parcel.message}`))
      else if (parcel === undefined) onEnd(notSent('blocked', unshapable))
      else abort = begin(parcel)
    })
    return onAbort
  }

  /** Aborts all that wait. */
  abort(): void {
    for (const abort of [...this.#waiting]) abort()
  }

  /** Never rejects: an error of shaping ends the attempt. */
  async #begin(
    shaping: Promise<Parcel | undefined>,
    then: (parcel: Parcel | Error | undefined) => void,
  ): Promise<void> {
    let parcel: Parcel | Error | undefined
    try {
      parcel = await shaping
    } catch (error) {
      parcel = error instanceof Error ? error : new Error(String(error))
    }
    then(parcel)
  }
}
