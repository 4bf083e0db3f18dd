import assert from 'node:assert/strict'
import type { DeadLetter } from '../../src/domain/delivery.ts'
import type { Flow } from '../../src/domain/flow.ts'
import type { EndpointFacts, History, PublishFact } from './history.ts'
import type { Seeded } from './seeded.ts'

/** How much an endpoint lets wait, and for how long. */
export type BoundsWish = Pick<Flow, 'maxWaiting' | 'overflow' | 'maxAgeMs' | 'whileDisabled'>

/** When a message was published, by the steady clock, and until when it is wanted. */
export interface Wanted {
  /** It was stored between the two. */
  publishedFrom: number
  publishedUntil: number
  delayMs: number
  expiresInMs: number | null
}

export const unbounded: Wanted = {
  publishedFrom: 0,
  publishedUntil: Number.POSITIVE_INFINITY,
  delayMs: 0,
  expiresInMs: null,
}

export function randomBounds(chance: Seeded): BoundsWish {
  const overflow = chance.pick(['refuse', 'drop_oldest', 'drop_new'] as const)
  return {
    overflow,
    maxWaiting: chance.chance(0.5) ? chance.between(1, 12) : null,
    maxAgeMs: chance.chance(0.3) ? chance.between(1000, 30_000) : null,
    whileDisabled: chance.pick(['hold', 'drop']),
  }
}

/** A row is younger to its worker by as long as the store's answer was on its way, and connecting takes up to 3 ms. */
const slackMs = 25

/** Nothing arrives after its message's time, or after it has waited for longer than its endpoint lets it. */
export function nothingComesTooLate(endpoint: EndpointFacts, history: History): void {
  // A worker that stood still between reading and sending sends late, and a worker whose clock jumps knows another time.
  if (history.stalled || history.jumps.length > 0) return
  const byBody = new Map(history.published.map((fact) => [fact.body, fact]))
  for (const { at, body, endpoint: key } of history.arrivals) {
    const fact = byBody.get(body)
    if (key !== endpoint.key || fact === undefined) continue
    const { publishedUntil, expiresInMs, delayMs } = fact
    if (expiresInMs !== null) {
      const late = at - (publishedUntil + expiresInMs + slackMs)
      assert.ok(late <= 0, `${body} came ${late} ms after it had expired`)
    }
    const { maxAgeMs } = endpoint.bounds
    // The wait for others of its kind is no age, and the age of a front delivery that an operator retried begins again.
    if (maxAgeMs === null || endpoint.coalesces || endpoint.deadHead === 'block') continue
    const late = at - (publishedUntil + delayMs + maxAgeMs + slackMs)
    assert.ok(late <= 0, `${body} came ${late} ms after it was too old for ${endpoint.key}`)
  }
}

/** A delivery that died for want of time or room had none, at an endpoint with that setting. */
export function endsAreDue(dead: DeadLetter, fact: PublishFact, endpoint: EndpointFacts, history: History): void {
  const { reason, code, attempts } = dead
  const { overflow, whileDisabled, maxAgeMs } = endpoint.bounds
  const label = `${fact.body} at ${endpoint.key} is dead (${reason})`
  if (reason === 'overflow') assert.notEqual(overflow, 'refuse', label)
  if (reason === 'overflow' && overflow === 'drop_new') assert.equal(attempts, 0, label)
  if (reason === 'disabled') assert.deepEqual([whileDisabled, attempts], ['drop', 0], label)
  if (reason === 'expired') assert.notEqual(fact.expiresInMs, null, label)
  if (reason === 'aged') assert.notEqual(maxAgeMs, null, label)
  if (code !== 'untried' || history.jumps.length > 0) return
  const diedAt = dead.diedAt - history.startedAt
  if (reason === 'expired') {
    const early = fact.publishedFrom + (fact.expiresInMs as number) - diedAt
    assert.ok(early <= 1, `${label} ${early} ms early`)
  }
  if (reason === 'aged' && maxAgeMs !== null) {
    const early = fact.publishedFrom + fact.delayMs + maxAgeMs - diedAt
    assert.ok(early <= 1, `${label} ${early} ms early`)
  }
}
