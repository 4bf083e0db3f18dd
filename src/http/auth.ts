import { AppError } from '../domain/app-error.ts'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Store } from '../store/store.ts'
import { hashApiKey, isApiKey } from './api-key.ts'

interface Verdict {
  readonly admitted: boolean
  readonly until: SteadyMs
}

/** How long an answer of the store is believed: the longest a revoked key goes on working. */
const admittedForMs = 5000
/** How long a refused key is refused without asking again: the longest a new key takes to work. */
const refusedForMs = 1000
const remembered = 1024

/**
 * Decides who may use the API. Verdicts are remembered by the SHA-256 of the presented key: looking a digest up takes no
 * longer for a key that is nearly right, and what is remembered cannot be used as a key.
 */
export class Authenticator {
  readonly #store: Pick<Store, 'findApiKey'>
  readonly #clock: Clock
  readonly #fixed: string | undefined
  /** Oldest first. */
  readonly #verdicts = new Map<string, Verdict>()

  /** `fixedKey` is admitted whatever the store says. */
  constructor(store: Pick<Store, 'findApiKey'>, clock: Clock, fixedKey: string | null) {
    this.#store = store
    this.#clock = clock
    this.#fixed = fixedKey === null ? undefined : hashApiKey(fixedKey).toString('latin1')
  }

  /** Calls `done` without an error when the `Authorization` header admits the caller; at once when it is remembered. */
  admit(header: string | undefined, done: (error?: Error) => void): void {
    if (header === undefined || !/^bearer /i.test(header)) return done(refusal('An API key is required.'))
    const key = header.slice('bearer '.length).trim()
    const hash = hashApiKey(key)
    const digest = hash.toString('latin1')
    if (digest === this.#fixed) return done()
    const verdict = this.#verdicts.get(digest)
    if (verdict !== undefined && verdict.until > this.#clock.steady()) return done(answer(verdict.admitted))
    if (!isApiKey(key)) return done(refusal('The API key is not valid.'))
    this.#store.findApiKey(hash).then(
      (found) => done(answer(this.#remember(digest, found !== undefined))),
      (error: Error) => done(error),
    )
  }

  #remember(digest: string, admitted: boolean): boolean {
    this.#verdicts.delete(digest)
    this.#verdicts.set(digest, {
      admitted,
      until: this.#clock.steady() + (admitted ? admittedForMs : refusedForMs),
    })
    if (this.#verdicts.size > remembered) this.#verdicts.delete(this.#verdicts.keys().next().value as string)
    return admitted
  }
}

function answer(admitted: boolean): AppError | undefined {
  return admitted ? undefined : refusal('The API key is not valid.')
}

function refusal(message: string): AppError {
  return new AppError('authentication_failed', message)
}
