import { jitters, type RetryPolicy } from '../../src/domain/retry.ts'
import type { HealthWish } from './check-health.ts'
import type { Temper } from './receivers.ts'
import type { Seeded } from './seeded.ts'

const second = 1000

/** When an endpoint wants to be tried again. */
export function randomPolicy(chance: Seeded): RetryPolicy {
  const jitter = chance.pick(jitters)
  const retryAfter = jitter === 'full' ? 'later' : 'receiver'
  const maxAgeMs = 4 * 3600 * second
  if (chance.chance(0.5)) {
    const ms = Array.from({ length: chance.between(1, 4) }, () => chance.between(50, 4000))
    return { waits: { kind: 'list', ms }, jitter, maxAgeMs, retryAfter }
  }
  const maxAttempts = chance.between(2, 6)
  return {
    waits: { kind: 'exponential', baseMs: 100, factor: 2, capMs: 3000, maxAttempts },
    jitter,
    maxAgeMs,
    retryAfter,
  }
}

/** The least wait after each attempt, written out independently of the code under test. */
export function leastWaitsOf({ waits, jitter }: RetryPolicy): number[] {
  const nominal =
    waits.kind === 'list'
      ? waits.ms
      : Array.from({ length: waits.maxAttempts - 1 }, (_, i) => Math.min(waits.capMs, waits.baseMs * waits.factor ** i))
  const base = Math.min(...nominal)
  const itself = (ms: number) => ms
  const half = (ms: number) => ms / 2
  const least = { none: itself, added: itself, equal: half, full: () => 0, decorrelated: () => base }
  return nominal.map(least[jitter])
}

/** When an endpoint's circuit opens, and whether it is slowed down. */
export function randomHealth(chance: Seeded): HealthWish {
  const adaptive = chance.chance(0.7)
  if (chance.chance(0.4)) return { circuit: 'off', adaptive }
  const byRatio = chance.chance(0.3)
  const openMs = chance.between(300, 5000)
  const circuit = {
    failures: byRatio ? 1000 : chance.between(2, 6),
    ratio: byRatio ? 0.5 : 1,
    windowMs: 10 * second,
    minimum: byRatio ? 5 : 1000,
    openMs,
    maxOpenMs: 3 * openMs,
    rampMs: chance.pick([0, 2000, 8000]),
  }
  return { circuit, adaptive }
}

/** How a receiver behaves. */
export function randomTemper(chance: Seeded): Temper {
  return {
    crowd: 0,
    fail: chance.pick([0, 0, 0.3, 0.9]),
    hang: chance.pick([0, 0, 0.1]),
    throttle: chance.pick([0, 0, 0.1]),
    refuse: chance.pick([0, 0, 0.2]),
    loseAnswer: chance.pick([0, 0.1]),
    gone: chance.pick([0, 0, 0, 0.01]),
    latencyMs: chance.pick([
      [1, 40],
      [1, 900],
    ] as const),
  }
}
