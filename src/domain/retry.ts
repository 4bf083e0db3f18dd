/** When a failed delivery is tried again. `waits` is either written out or grows exponentially up to a cap. */
export interface RetryPolicy {
  readonly waits:
    | { readonly kind: 'list'; readonly ms: readonly number[] }
    | {
        readonly kind: 'exponential'
        readonly baseMs: number
        readonly factor: number
        readonly capMs: number
        readonly maxAttempts: number
      }
  readonly jitter: Jitter
  /** Of `added` alone, and null otherwise: the most that is added to a wait. */
  readonly jitterMs?: number | null
  /** Counted from the instant the delivery was first due. */
  readonly maxAgeMs: number
  /** Policies that were stored before this field existed do not have it: `receiver`. */
  readonly retryAfter?: RetryAfterRule
}

/**
 * Where the random wait lies, for a wait of w: `none` w, `equal` [w/2, w], `full` [0, w]. `decorrelated` depends on the wait
 * drawn before it instead of on w: [base, 3 × previous], up to the cap. None of these passes w, or the cap. `added` is
 * [w, w + jitterMs], which passes the cap.
 */
export const jitters = ['full', 'equal', 'none', 'decorrelated', 'added'] as const
export type Jitter = (typeof jitters)[number]

/** After an answer with Retry-After: `receiver` waits exactly that long, `later` until the later of it and the policy's wait. */
export const retryAfterRules = ['receiver', 'later'] as const
export type RetryAfterRule = (typeof retryAfterRules)[number]

/** The random number in [0, 1) for the wait after a delivery's n-th attempt: the same one each time it is asked for. */
export type Draw = (attempts: number) => number

const second = 1000
const minute = 60 * second
const hour = 60 * minute

/** The schedule the Standard Webhooks specification gives as its example: ten attempts over about three days. */
export const defaultRetryPolicy: RetryPolicy = {
  waits: {
    kind: 'list',
    ms: [5 * second, 5 * minute, 30 * minute, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour],
  },
  jitter: 'equal',
  maxAgeMs: 5 * 24 * hour,
  retryAfter: 'receiver',
}

/** The most that `added` adds to a wait, unless the policy says otherwise. */
export const defaultJitterMs = 30 * second

/** The policy of a message that is replayed: a failure leads to a dead letter at once, which can be replayed again. */
export const oneAttempt: RetryPolicy = { ...defaultRetryPolicy, waits: { kind: 'list', ms: [] } }

/** The wait after the given number of attempts, before jitter; undefined when no attempt is left. */
export function waitAfter(policy: RetryPolicy, attempts: number): number | undefined {
  if (policy.waits.kind === 'list') return policy.waits.ms[attempts - 1]
  const { baseMs, factor, capMs, maxAttempts } = policy.waits
  if (attempts >= maxAttempts) return undefined
  return Math.min(capMs, Math.round(baseMs * factor ** (attempts - 1)))
}

/** How many attempts the policy allows in all. */
export function maxAttempts(policy: RetryPolicy): number {
  return policy.waits.kind === 'list' ? policy.waits.ms.length + 1 : policy.waits.maxAttempts
}

/** The random wait after the given number of attempts, in whole milliseconds; undefined when no attempt is left. */
export function drawnWait(policy: RetryPolicy, attempts: number, draw: Draw): number | undefined {
  const waitMs = waitAfter(policy, attempts)
  if (waitMs === undefined) return undefined
  switch (policy.jitter) {
    case 'none':
      return waitMs
    case 'equal':
      return between(Math.ceil(waitMs / 2), waitMs, draw(attempts))
    case 'full':
      return between(0, waitMs, draw(attempts))
    case 'added':
      return between(waitMs, waitMs + (policy.jitterMs ?? defaultJitterMs), draw(attempts))
    case 'decorrelated':
      return decorrelated(walkOf(policy.waits), attempts, draw)
  }
}

/**
 * The wait after each attempt lies between the base and three times the wait before it, up to the cap. The draws repeat, so
 * the waits before this one are computed once more and need not be stored with every delivery.
 */
function decorrelated([baseMs, capMs]: Walk, attempts: number, draw: Draw): number {
  let waitMs = baseMs
  for (let n = 1; n <= attempts; n++) waitMs = Math.min(capMs, between(baseMs, 3 * waitMs, draw(n)))
  return waitMs
}

type Walk = readonly [baseMs: number, capMs: number]

/** Base and cap of decorrelated waits. Of a list they are its shortest wait that is not 0, and its longest wait. */
function walkOf(waits: RetryPolicy['waits']): Walk {
  if (waits.kind === 'exponential') return [Math.min(waits.baseMs, waits.capMs), waits.capMs]
  const some = waits.ms.filter((ms) => ms > 0)
  return some.length === 0 ? [0, 0] : [Math.min(...some), Math.max(...some)]
}

/** A whole number from `least` to `most`, each as likely as the others. */
function between(least: number, most: number, random: number): number {
  return least + Math.floor((most - least + 1) * random)
}

/**
 * The draws of one delivery, made from its keys by MurmurHash3's mixing steps. They need not be unpredictable, only
 * different: deliveries that failed together must not return together.
 */
export function drawsOf(message: number, endpoint: number): Draw {
  const seed = [message % wordSize, Math.floor(message / wordSize), endpoint % wordSize].reduce(mixed, 0)
  return (attempts) => finished(mixed(seed, attempts)) / wordSize
}

const wordSize = 2 ** 32

function mixed(hash: number, word: number): number {
  const scrambled = Math.imul(rotated(Math.imul(word, 0xcc9e2d51), 15), 0x1b873593)
  return (Math.imul(rotated(hash ^ scrambled, 13), 5) + 0xe6546b64) | 0
}

function finished(hash: number): number {
  const half = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  const most = Math.imul(half ^ (half >>> 13), 0xc2b2ae35)
  return (most ^ (most >>> 16)) >>> 0
}

function rotated(word: number, bits: number): number {
  return (word << bits) | (word >>> (32 - bits))
}
