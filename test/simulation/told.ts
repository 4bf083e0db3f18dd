import type { Notice } from '../../src/domain/notice.ts'
import type { Store } from '../../src/store/store.ts'

/** Between which moments a worker decided to tell something. */
export interface Told {
  readonly notBefore: number
  readonly notAfter: number
  /** Whether the store has it. */
  recorded: boolean
}

/** An idle settler hands a verdict on after this long. */
const delayMs = 16

/**
 * The store as a worker sees it, noting when it first hands on each notice. What it hands on it decided after the call
 * before, and, if that had ended well and nobody stood still, a moment ago.
 */
export function timesOf(store: Store, now: () => number, stalled: () => boolean, told: Map<Notice, Told>): Store {
  let calledAt = 0
  let endedAt = Number.NEGATIVE_INFINITY
  const settle: Store['settle'] = async (...args) => {
    const at = now()
    const isPrompt = !stalled() && at - endedAt > delayMs
    const notBefore = isPrompt ? Math.max(calledAt, at - delayMs) : calledAt
    for (const notice of args[2].notices ?? []) {
      if (!told.has(notice)) told.set(notice, { notBefore, notAfter: at, recorded: false })
    }
    calledAt = at
    endedAt = Number.POSITIVE_INFINITY
    const result = await store.settle(...args)
    endedAt = now()
    return result
  }
  return new Proxy(store, { get: (target, name) => (name === 'settle' ? settle : Reflect.get(target, name)) })
}
