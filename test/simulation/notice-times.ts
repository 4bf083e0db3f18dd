import type { Notice } from '../../src/features/notices/rules.ts'
import type { Store } from '../../src/store/store.ts'

/** Between which moments a worker decided to send a notice. */
export interface NoticeTime {
  readonly notBefore: number
  readonly notAfter: number
  /** Whether the store has it. */
  recorded: boolean
}

/** An idle settler hands a verdict on after this long. */
const delayMs = 16

/**
 * The store as a worker sees it, noting when it first hands on each notice. It decided on a notice after the call
 * before, and, if that had ended well and no process stood still, a moment ago.
 */
export function timesOf(
  store: Store,
  now: () => number,
  stalled: () => boolean,
  times: Map<Notice, NoticeTime>,
): Store {
  let calledAt = 0
  let endedAt = Number.NEGATIVE_INFINITY
  const settle: Store['settle'] = async (...args) => {
    const at = now()
    const isPrompt = !stalled() && at - endedAt > delayMs
    const notBefore = isPrompt ? Math.max(calledAt, at - delayMs) : calledAt
    for (const notice of args[2].notices ?? []) {
      if (!times.has(notice)) times.set(notice, { notBefore, notAfter: at, recorded: false })
    }
    calledAt = at
    endedAt = Number.POSITIVE_INFINITY
    const result = await store.settle(...args)
    endedAt = now()
    return result
  }
  return new Proxy(store, { get: (target, name) => (name === 'settle' ? settle : Reflect.get(target, name)) })
}
