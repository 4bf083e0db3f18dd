import assert from 'node:assert/strict'
import { decodeKey } from '../../src/domain/ids.ts'
import type { Store } from '../../src/store/store.ts'
import type { EndpointFacts, History } from './history.ts'

/** Writes down which deliveries gave way to others, for the other checks to know. */
export async function noteWhatGaveWay(history: History, store: Store): Promise<void> {
  for (const { key, endpoints } of history.published) {
    if (key === 0) continue
    const found = await store.findCoalesced(endpoints.map((endpoint) => ({ endpoint, message: key })))
    for (const [i, each] of found.entries()) {
      if (each) history.gaveWay.set(deliveryOf(endpoints[i] as number, key), decodeKey('msg', each.into ?? '') ?? 0)
    }
  }
}

/**
 * A coalesced message gave way to a newer one of its key, at an endpoint with that setting, and to nothing else. So the last
 * of a kind never gives way, and ends as any other.
 */
export function onlyTheNewestStay(endpoint: EndpointFacts, history: History): void {
  const byKey = new Map(history.published.map((fact) => [fact.key, fact]))
  for (const fact of history.published) {
    const into = history.gaveWay.get(deliveryOf(endpoint.key, fact.key))
    if (into === undefined) continue
    const label = `${fact.body} gave way at ${endpoint.key}`
    assert.ok(endpoint.coalesces, `${label}, which does not coalesce`)
    assert.ok(!fact.delayed, `${label}, although it was for an instant of its own`)
    assert.ok(into > fact.key, `${label} to something older`)
    const successor = byKey.get(into)
    // A publisher that got no answer does not know its message's key.
    if (successor === undefined) {
      assert.ok(
        history.published.some(({ key, state, kind }) => key === 0 && state === 'unknown' && kind === fact.kind),
        `${label} to what nobody published`,
      )
      continue
    }
    assert.equal(successor.kind, fact.kind, `${label} to another kind`)
    assert.ok(successor.endpoints.includes(endpoint.key), `${label} to what was not for it`)
  }
}

/** A delivery, for looking it up. */
export function deliveryOf(endpoint: number, message: number): string {
  return `${endpoint} ${message}`
}
