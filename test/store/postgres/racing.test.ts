import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { systemClock } from '../../../src/runtime/clock.ts'
import { openPostgresStore } from '../../../src/store/postgres/open.ts'
import { type PendingRow, type Store, StoreTrouble } from '../../../src/store/store.ts'
import { plainEndpoint } from '../conformance/harness.ts'
import { context, newDatabase, sharedServer } from '../postgres-harness.ts'

/** A message that is not delivered by then never will be. A healthy one takes milliseconds. */
const strandedMs = 60_000

/** Publishers and workers on two stores of one database, everything at once, lanes released as soon as they are empty. */
class Race {
  readonly stores: Store[]
  readonly endpoints: number[]
  readonly app: number
  readonly version: number
  readonly published = new Set<number>()
  readonly delivered = new Set<number>()
  readonly waiting = new Map<number, () => void>()
  /** The owner of each lane, as the workers report it. */
  readonly owners = new Map<number, number>()
  troubled = 0
  running = true
  working = true

  constructor(stores: Store[], app: number, version: number, endpoints: number[]) {
    this.stores = stores
    this.app = app
    this.version = version
    this.endpoints = endpoints
  }

  /**
   * Publishes to one endpoint, and again the moment the last message was settled: just when the lane's owner looks once
   * more, finds nothing and lets go. A row that both sides miss stays where it is, since no publish follows it.
   */
  async publisher(store: Store, endpoint: number): Promise<void> {
    const publication = {
      app: this.app,
      version: this.version,
      eventType: 'video.trending',
      eventId: null,
      channels: null,
      body: Buffer.from('{}'),
      contentType: 'application/json',
      endpoints: [endpoint],
      delayMs: 0,
    }
    while (this.running) {
      try {
        const [answer] = await store.publish([publication])
        assert(answer?.state === 'accepted')
        this.published.add(answer.key)
        await this.#untilDelivered(answer.key)
      } catch (error) {
        this.#expectTrouble(error)
      }
    }
  }

  #untilDelivered(key: number): Promise<void> {
    if (this.delivered.has(key)) return Promise.resolve()
    return new Promise((resolve, reject) => {
      const giveUp = systemClock.after(strandedMs, () => reject(new Error(`message ${key} is stranded`)))
      this.waiting.set(key, () => {
        giveUp()
        resolve()
      })
    })
  }

  async worker(store: Store): Promise<void> {
    const worker = await this.#insist(() => store.join({ leaseMs: 60_000, description: 'racer' }))
    let lost = false
    while (this.working) {
      try {
        const { lanes } = await store.claim(worker, 3, lost)
        lost = false
        for (const { endpoint } of lanes) {
          const owner = this.owners.get(endpoint.key)
          assert(owner === undefined || owner === worker, `lane ${endpoint.key} has two owners`)
          this.owners.set(endpoint.key, worker)
        }
        for (const { endpoint } of lanes) await this.#drain(store, worker, endpoint.key)
      } catch (error) {
        this.#expectTrouble(error)
        lost = true
      }
    }
    await this.#insist(() => store.leave(worker))
  }

  async #drain(store: Store, worker: number, endpoint: number): Promise<void> {
    for (;;) {
      const read = { endpoint, class: 0 as const, after: null, limit: 20 }
      const [page] = await this.#insist(() => store.readDue([read]))
      if (!page || page.rows.length === 0) break
      const settlements = page.rows.map((row) => this.#settlement(endpoint, row))
      const answer = await this.#insist(() => store.settle(worker, settlements, { holds: [], disable: [], health: [] }))
      assert.equal(answer, 'settled')
      for (const { message } of page.rows) {
        this.delivered.add(message)
        this.waiting.get(message)?.()
        this.waiting.delete(message)
      }
    }
    this.owners.delete(endpoint)
    await this.#insist(() => store.release(worker, [{ endpoint, bucketDebtMs: 0, bucketLimit: null, notBeforeMs: 0 }]))
  }

  #settlement(endpoint: number, row: PendingRow) {
    const attempt = { id: 'atmpt', startedAgoMs: () => 0, durationMs: 0, status: 200, error: null, response: null }
    return {
      endpoint,
      app: this.app,
      row,
      attempt: { ...attempt, code: 'delivered' as const },
      verdict: { state: 'delivered' as const },
    }
  }

  /** Does it again until there is an answer, as an engine does. */
  async #insist<T>(work: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await work()
      } catch (error) {
        this.#expectTrouble(error)
      }
    }
  }

  #expectTrouble(error: unknown): void {
    if (!(error instanceof StoreTrouble)) throw error
    this.troubled++
  }
}

async function startRace(t: TestContext, url: string): Promise<Race> {
  const stores = [await openPostgresStore(context, { url }), await openPostgresStore(context, { url })]
  t.after(() => Promise.all(stores.map((store) => store.close())))
  const store = stores[0] as Store
  const app = await store.createApplication({ name: 'Acme', uid: null, throttleRate: null, metadata: {} })
  const endpoints: number[] = []
  for (let i = 0; i < 10; i++) endpoints.push((await store.createEndpoint(app.key, plainEndpoint)).key)
  return new Race(stores, app.key, (await store.subscriptions(app.key))?.version ?? 0, endpoints)
}

/** Runs the race until it has seen enough; fails as soon as a publisher or a worker does. */
async function run(race: Race, disturb: () => Promise<void>, isEnough: () => boolean): Promise<void> {
  const [here, there] = race.stores as [Store, Store]
  const publishers = race.endpoints.map((endpoint, i) => race.publisher(i % 2 ? here : there, endpoint))
  const workers = [here, here, there, there, there].map((store) => race.worker(store))
  const everyone = Promise.all([...publishers, ...workers])
  try {
    while (!isEnough()) await Promise.race([disturb(), everyone])
  } finally {
    race.running = false
    await Promise.allSettled(publishers)
    race.working = false
    await Promise.allSettled(workers)
  }
  await everyone
  assert.equal((await here.reconcile()) + (await there.reconcile()), 0)
}

const nap = () => new Promise<void>((resolve) => void systemClock.after(30, resolve))

test('whatever five workers and ten publishers do at once, no row is stranded and no lane has two owners', async (t) => {
  const url = await newDatabase()
  const race = await startRace(t, url)
  await run(race, nap, () => race.published.size > 600)
  assert.equal(race.troubled, 0)
  assert.deepEqual(race.delivered, race.published)
  t.diagnostic(`${race.published.size} messages`)
})

test('nor while connections are killed all the time', async (t) => {
  const url = await newDatabase()
  const server = await sharedServer()
  const race = await startRace(t, url)
  const killer = await server.session(url)
  t.after(() => killer.end())
  const killSome = `
    select pg_terminate_backend(pid) from pg_stat_activity
     where datname = current_database() and application_name = 'sluice' and query not like 'listen%' and random() < 0.5`
  const disturb = async () => {
    await killer.query(killSome)
    await nap()
  }
  await run(race, disturb, () => race.troubled > 50 && race.published.size > 50)
  for (const key of race.published) assert(race.delivered.has(key), `message ${key} was accepted and not delivered`)
  t.diagnostic(`${race.published.size} messages, ${race.troubled} troubles`)
})
