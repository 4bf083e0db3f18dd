import assert from 'node:assert/strict'
import { defaultRegion, type Regions, serves } from '../../src/features/regions/rules.ts'
import type { Arrival, EndpointFacts, History, WorkerFact } from './history.ts'
import type { Seeded } from './seeded.ts'

export const regionNames = [defaultRegion, 'eu', 'us'] as const

/** The region of a lane from an instant on. */
export interface Stay {
  readonly from: number
  readonly region: string
}

/** A worker claimed a lane, read its queue, or read the payload of a message. */
export type Touch = { readonly at: number; readonly worker: WorkerFact } & (
  | { readonly kind: 'claimed' | 'read'; readonly endpoint: number }
  | { readonly kind: 'loaded'; readonly message: number }
)

/** The regions of a worker that starts while everything goes wrong. A region may have no worker for a while. */
export function randomRegions(chance: Seeded): Regions {
  return chance.pick<Regions>([
    null,
    [defaultRegion],
    ['eu'],
    ['us', defaultRegion],
    ['eu', 'us'],
    ['eu', defaultRegion],
  ])
}

/** The regions of a worker once the world has healed: together the workers serve all. */
export function shareOfRegions(slot: number, workers: number): Regions {
  return regionNames.filter((_, i) => i % workers === slot)
}

/** Hearing that a lane has moved, and ending what is under way, takes no longer than this. */
const hearingMs = 1500

/** No worker claims a lane of another region, reads its queue or its payloads, or sends from it. */
export function regionsAreKept(endpoint: EndpointFacts, arrivals: readonly Arrival[], history: History): void {
  const graceMs = graceOf(history)
  for (const touch of history.touches) {
    if (touch.kind === 'loaded' || touch.endpoint !== endpoint.key) continue
    // A lane is claimed as the store has it; its owner may not have heard yet that it was moved.
    const isKept = isServed(endpoint, touch, touch.kind === 'claimed' ? 0 : graceMs)
    assert.ok(
      isKept,
      `${touch.worker.name} (${touch.worker.regions}) ${touch.kind} a lane of another region at ${touch.at}`,
    )
  }
  for (const arrival of arrivals) {
    const isKept = isServed(endpoint, arrival, graceMs)
    assert.ok(isKept, `${arrival.worker.name} (${arrival.worker.regions}) sent for another region at ${arrival.at}`)
  }
}

/** A worker reads the payload of a message only if one of its endpoints is in a region of the worker. */
export function payloadsStayInRegions(history: History): void {
  const endpoints = new Map(history.endpoints.map((facts) => [facts.key, facts]))
  const published = new Map(history.published.map((fact) => [fact.key, fact]))
  for (const touch of history.touches) {
    const fact = touch.kind === 'loaded' ? published.get(touch.message) : undefined
    if (fact === undefined) continue
    const isKept = fact.endpoints.some((key) => isServed(endpoints.get(key) as EndpointFacts, touch, graceOf(history)))
    assert.ok(isKept, `${touch.worker.name} (${touch.worker.regions}) read a payload of another region at ${touch.at}`)
  }
}

/** A worker that misses notifications learns of a move at some later time. */
function graceOf({ attentive }: History): number {
  return attentive ? hearingMs : Number.POSITIVE_INFINITY
}

/** Whether the worker served a region that the lane was in at the instant, or within the time before it. */
function isServed(
  { stays }: EndpointFacts,
  { at, worker }: { readonly at: number; readonly worker: WorkerFact },
  graceMs: number,
): boolean {
  return stays.some(({ from, region }, i) => {
    const until = stays[i + 1]?.from ?? Number.POSITIVE_INFINITY
    return from <= at && until >= at - graceMs && serves(worker.regions, region)
  })
}
