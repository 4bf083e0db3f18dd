import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import type { Application } from '../../../src/features/applications/noun.ts'
import type { Endpoint } from '../../../src/features/endpoints/rules.ts'
import type {
  ClaimedLane,
  LaneRest,
  NewEndpoint,
  PendingRow,
  Publication,
  Published,
  Settlement,
  Store,
  TriedAttempt,
} from '../../../src/store/store.ts'

/** A fresh, empty store and the means to test it. */
export interface Harness {
  readonly store: Store
  /** Lets time pass for the store: a virtual clock is advanced, a real one waited for. Keep it short. */
  pass(ms: number): Promise<void>
  /** Runs SQL behind the store's back, to bring about what only a crash or a broken clock could. */
  sql(text: string): Promise<void>
  /** A connection of another program to the store's database. */
  foreign(): Promise<Foreign>
  /** A connection to another database with the same tables. */
  elsewhere(): Promise<Foreign>
  close(): Promise<void>
}

/** A connection that a program has for purposes of its own. */
export interface Foreign {
  /** As its driver gives it. */
  readonly connection: object
  run(sql: string): Promise<void>
  rows(sql: string): Promise<unknown[]>
  close(): Promise<void>
}

export type Open = () => Promise<Harness>

/** Long against what a test takes, so that a worker with such a lease outlives it. */
export const longMs = 60_000

/** A harness that is closed when the test ends, with what most specifications start from. */
export async function begin(t: TestContext, open: Open): Promise<World> {
  const harness = await open()
  t.after(() => harness.close())
  return new World(harness)
}

/**
 * Runs a specification of what is so only until some time has passed. Where time is real, a slow machine may let it pass
 * too early: the specification then gets a new store and more time.
 */
export async function inTime(
  t: TestContext,
  open: Open,
  body: (world: World, ms: number) => Promise<void>,
): Promise<void> {
  for (const ms of [100, 1000]) {
    try {
      return await body(await begin(t, open), ms)
    } catch {
      // The last try says what is wrong.
    }
  }
  await body(await begin(t, open), 10_000)
}

export class World {
  readonly store: Store
  readonly harness: Harness
  #attempts = 0

  constructor(harness: Harness) {
    this.harness = harness
    this.store = harness.store
  }

  pass(ms: number): Promise<void> {
    return this.harness.pass(ms)
  }

  application(uid: string | null = null): Promise<Application> {
    return this.store.createApplication({ name: 'Acme', uid, throttleRate: null, metadata: {} })
  }

  endpoint(app: Application, change: Partial<NewEndpoint> = {}): Promise<Endpoint> {
    return this.store.createEndpoint(app.key, { ...plainEndpoint, ...change })
  }

  /** A publication to these endpoints at the application's current version. */
  async publication(endpoints: readonly Endpoint[], change: Partial<Publication> = {}): Promise<Publication> {
    const app = change.app ?? endpoints[0]?.app
    assert(app !== undefined, 'a publication without endpoints must name its application')
    const subscriptions = await this.store.subscriptions(app)
    return {
      app,
      version: subscriptions?.version ?? 0,
      eventType: 'video.trending',
      eventId: null,
      channels: null,
      body: new TextEncoder().encode('{"views":1.0}'),
      contentType: 'application/json',
      endpoints: endpoints.map((endpoint) => endpoint.key),
      delayMs: 0,
      ...change,
    }
  }

  /** Publishes one message and answers its key and id. */
  async publish(endpoints: readonly Endpoint[], change: Partial<Publication> = {}): Promise<Accepted> {
    const [published] = await this.store.publish([await this.publication(endpoints, change)])
    assert(published?.state === 'accepted', `not accepted but ${published?.state}`)
    return published
  }

  join(leaseMs = longMs): Promise<number> {
    return this.store.join({ leaseMs, description: 'a worker under test' })
  }

  /** Claims until it has as many lanes as expected: a store may wake lanes a moment after the publish. */
  async claim(worker: number, expected = 1): Promise<ClaimedLane[]> {
    const lanes: ClaimedLane[] = []
    for (let tries = 0; lanes.length < expected && tries < 400; tries++) {
      if (tries > 0) await this.pass(5)
      lanes.push(...(await this.store.claim(worker, expected - lanes.length)).lanes)
    }
    assert.equal(lanes.length, expected, `claimed ${lanes.length} lanes, not ${expected}`)
    return lanes
  }

  /** Waits until the lanes of these endpoints have an instant to wake at: a store may set it a moment after the publish. */
  async woken(...endpoints: readonly Endpoint[]): Promise<void> {
    for (const { key } of endpoints) {
      while (((await this.store.findLane(key))?.dueAt ?? null) === null) await this.pass(5)
    }
  }

  /** Asserts that no lane is claimable, also not a moment later. */
  async assertNothingToClaim(worker: number): Promise<void> {
    await this.pass(30)
    assert.deepEqual((await this.store.claim(worker, 10)).lanes, [])
  }

  /** A worker that owns the endpoint's lane, in which one message waits. */
  async owningOne(endpoint: Endpoint, leaseMs = longMs): Promise<{ worker: number; row: PendingRow }> {
    const worker = await this.join(leaseMs)
    await this.publish([endpoint])
    await this.claim(worker)
    return { worker, row: await this.head(endpoint) }
  }

  release(
    worker: number,
    endpoint: Endpoint,
    notBeforeMs = 0,
    bucketDebtMs = 0,
    bucketLimit: LaneRest['bucketLimit'] = null,
  ): Promise<void> {
    return this.store.release(worker, [{ endpoint: endpoint.key, bucketDebtMs, bucketLimit, notBeforeMs }])
  }

  async rows(endpoint: Endpoint, itsClass: 0 | 1 | 2 = 0): Promise<PendingRow[]> {
    const read = { endpoint: endpoint.key, class: itsClass, after: null, limit: 100 }
    const [due] = await this.store.readDue([read])
    return due?.rows ?? []
  }

  async head(endpoint: Endpoint, itsClass: 0 | 1 | 2 = 0): Promise<PendingRow> {
    const [row] = await this.rows(endpoint, itsClass)
    assert(row, 'nothing is due')
    return row
  }

  settlement(endpoint: Endpoint, row: PendingRow, verdict: Settlement['verdict']): TriedSettlement {
    const delivered = verdict.state === 'delivered'
    return {
      endpoint: endpoint.key,
      app: endpoint.app,
      row,
      attempt: {
        id: `atmpt_${++this.#attempts}`,
        startedAgoMs: () => 30,
        durationMs: 20,
        status: delivered ? 204 : 503,
        code: delivered ? 'delivered' : 'refused',
        error: delivered ? null : 'the receiver answered 503',
        response: delivered ? null : new Uint8Array([0, 255, 10]),
      },
      verdict,
    }
  }

  settle(worker: number, ...settlements: Settlement[]): Promise<'settled' | 'fenced'> {
    return this.store.settle(worker, settlements, noEffects)
  }
}

export type TriedSettlement = Settlement & { readonly attempt: TriedAttempt }

export type Accepted = Extract<Published, { state: 'accepted' }>

export const noEffects = { holds: [], disable: [], health: [] }

export const plainEndpoint: NewEndpoint = {
  uid: null,
  url: 'https://example.com/hook',
  description: '',
  disabled: false,
  paused: false,
  eventTypes: null,
  channels: null,
  secrets: [],
  method: 'POST',
  headers: {},
  auth: null,
  clientCertificate: null,
  metadata: {},
  throttleRate: null,
  throttlePeriodSeconds: 1,
  burst: null,
  concurrency: null,
  timeoutMs: null,
  retry: null,
}

/** Asserts that a duration is what was asked for, less the time that a slow machine may have taken since. */
export function assertRemaining(actual: number | undefined, askedMs: number): void {
  assert(actual !== undefined, 'no duration at all')
  assert(actual <= askedMs && actual > askedMs - 40_000, `${actual} ms are left of ${askedMs}`)
}

export function keysOf(lanes: readonly ClaimedLane[]): number[] {
  return lanes.map((lane) => lane.endpoint.key)
}
