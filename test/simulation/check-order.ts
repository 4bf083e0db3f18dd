import assert from 'node:assert/strict'
import type { Arrival, EndpointFacts, History, PublishFact } from './history.ts'

/** The order of a publish before anything is known of it. */
export const unordered = { orderingKey: null, asked: Number.POSITIVE_INFINITY, answered: Number.POSITIVE_INFINITY }

/**
 * At an endpoint that keeps an order, no two messages of one key are open at once, and none arrives before one that was
 * answered before it was published has arrived for the last time. A delayed message has its place when it is due.
 */
export function orderIsKept(endpoint: EndpointFacts, arrivals: readonly Arrival[], history: History): void {
  if (endpoint.order === 'none') return
  const facts = new Map(history.published.map((fact) => [fact.body, fact]))
  const keyOf = ({ body }: Pick<Arrival, 'body'>) => (endpoint.order === 'fifo' ? '' : facts.get(body)?.orderingKey)
  const byKey = Map.groupBy(arrivals, keyOf)
  for (const [key, file] of byKey) {
    if (key == null) continue
    oneAtATime(endpoint, file)
    inTurn(endpoint, file, facts)
  }
}

function oneAtATime({ key }: EndpointFacts, file: readonly Arrival[]): void {
  for (const [i, arrival] of file.entries()) {
    const open = file.slice(0, i).find((other) => other.endedAt > arrival.at && !isLost(other, arrival.at))
    assert.equal(open, undefined, `${arrival.body} arrived at ${key} while ${open?.body} of the same key was open`)
  }
}

function inTurn({ key }: EndpointFacts, file: readonly Arrival[], facts: ReadonlyMap<string, PublishFact>): void {
  const lastOf = new Map(file.map((arrival) => [arrival.body, arrival.at]))
  for (const { body, at } of file) {
    const fact = facts.get(body) as PublishFact
    if (fact.delayed) continue
    // Whatever was answered before this one was asked for has arrived for the last time.
    for (const [other, last] of lastOf) {
      const earlier = facts.get(other) as PublishFact
      if (earlier.delayed || earlier.answered > fact.asked || other === body) continue
      assert.ok(last <= at, `${body} arrived at ${key} at ${at}, and ${other}, accepted before it, at ${last}`)
    }
  }
}

function isLost({ worker, at }: Arrival, until: number): boolean {
  return worker.losses.some((loss) => loss.at <= until && loss.knownAt >= at)
}
