import assert from 'node:assert/strict'

interface HeldCall<A, R> {
  readonly args: A
  readonly answer: (result: R) => void
  readonly fail: (error: unknown) => void
}

/** A method of a store whose every call is seen by the test and answered when the test says so. */
export class HeldCalls<A extends readonly unknown[], R> {
  /** The arguments of every call so far. */
  readonly seen: A[] = []
  #open: HeldCall<A, R>[] = []

  readonly method = (...args: A): Promise<R> => {
    this.seen.push(args)
    return new Promise<R>((answer, fail) => this.#open.push({ args, answer, fail }))
  }

  /** How many calls wait for an answer. */
  get open(): number {
    return this.#open.length
  }

  /** The oldest call without an answer, which must exist. */
  next(): HeldCall<A, R> {
    const call = this.#open.shift()
    assert.ok(call, 'a call was expected')
    return call
  }

  /** The newest call without an answer, for answers out of order. */
  newest(): HeldCall<A, R> {
    const call = this.#open.pop()
    assert.ok(call, 'a call was expected')
    return call
  }
}
