import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { systemClock } from '../../../src/runtime/clock.ts'
import { openPostgresStore } from '../../../src/store/postgres/open.ts'
import { type PendingRow, type Store, StoreTrouble } from '../../../src/store/store.ts'
import { plainEndpoint } from '../conformance/harness.ts'
import { context, newDatabase, sharedServer } from '../postgres-harness.ts'
import type { PostgresServer } from '../postgres-server.ts'

const publishMs = 1200
const giveUpMs = 15_000

/** Rows that wait in a lane which nobody owns and nothing will wake. */
const stranded = `
  select count(*)::integer as count from pending p join lane l on l.endpoint = p.endpoint
   where l.owner is null and not l.stopped and l.due_at is null`

/** Publishers and workers on two stores of one database, everything at once, lanes released as soon as they are empty. */
class Race {
  readonly stores: Store[]
  readonly endpoints: number[]
  readonly app: number
  readonly version: number
  readonly published = new Set<number>()
  readonly delivered = new Map<number, number>()
  /** Who owns what, by the workers' own word. */
  readonly owners = new Map<number, number>()
  /** Whether the outcome of a publish is ever unknown. */
  troubled = 0
  publishing = true
  running = true

  constructor(stores: Store[], app: number, version: number, endpoints: number[]) {
    this.stores = stores
    this.app = app
    this.version = version
    this.endpoints = endpoints
  }

  async publisher(store: Store, seed: number): Promise<void> {
    for (let i = seed; this.publishing; i++) {
      const publication = {
        app: this.app,
        version: this.version,
        eventType: 'video.trending',
        eventId: null,
        channels: null,
        body: Buffer.from('{}'),
        contentType: 'application/json',
        endpoints: this.endpoints.filter((_, n) => (i * 7 + n) % 5 === 0),
        delayMs: 0,
      }
      try {
        for (const answer of await store.publish([publication])) {
          assert(answer.state === 'accepted')
          this.published.add(answer.key)
        }
      } catch (error) {
        this.#expectTrouble(error)
      }
    }
  }

  async worker(store: Store): Promise<void> {
    const worker = await this.#insist(() => store.join({ leaseMs: 60_000, description: 'racer' }))
    let lost = false
    while (this.running) {
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
      const answer = await this.#insist(() => store.settle(worker, settlements, { holds: [], gone: [] }))
      assert.equal(answer, 'settled')
      for (const { message } of page.rows) this.delivered.set(message, (this.delivered.get(message) ?? 0) + 1)
    }
    this.owners.delete(endpoint)
    await this.#insist(() => store.release(worker, [{ endpoint, bucketDebtMs: 0, notBeforeMs: 0 }]))
  }

  #settlement(endpoint: number, row: PendingRow) {
    const attempt = { id: 'atmpt', startedAgoMs: 0, durationMs: 0, status: 200, error: null, response: null }
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

/** Runs the race, waits until everything is delivered, and checks that nothing was stranded on the way. */
async function run(
  race: Race,
  server: PostgresServer,
  url: string,
  disturb: () => Promise<void>,
  isEnough: () => boolean,
): Promise<void> {
  const [here, there] = race.stores as [Store, Store]
  const publishers = [race.publisher(here, 0), race.publisher(there, 3), race.publisher(there, 11)]
  const workers = [here, here, there, there, there].map((store) => race.worker(store))
  const everyone = Promise.all([...publishers, ...workers])
  const startedAt = systemClock.steady()
  const goesOn = (ms: number) => systemClock.steady() < startedAt + ms
  while (goesOn(publishMs) || (!isEnough() && goesOn(giveUpMs))) await Promise.race([disturb(), everyone])
  race.publishing = false
  await Promise.all(publishers)
  const giveUpAt = systemClock.steady() + giveUpMs
  while ((await here.counts()).pending > 0) {
    if (systemClock.steady() > giveUpAt) {
      const { rows } = await server.query(stranded, url)
      assert.fail(`${(await here.counts()).pending} rows are left, ${rows[0].count} of them stranded`)
    }
  }
  race.running = false
  await everyone
  assert.equal((await here.reconcile()) + (await there.reconcile()), 0)
}

const nap = () => new Promise<void>((resolve) => void systemClock.after(30, resolve))

test('whatever five workers and three publishers do at once, no row is stranded and no lane has two owners', async (t) => {
  const url = await newDatabase()
  const race = await startRace(t, url)
  await run(race, await sharedServer(), url, nap, () => race.published.size > 200)
  assert.equal(race.troubled, 0)
  assert(race.published.size > 200, `only ${race.published.size} were published`)
  assert.deepEqual(new Set(race.delivered.keys()), race.published)
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
  await run(race, server, url, disturb, () => race.troubled > 20 && race.published.size > 50)
  assert(race.troubled > 20, `only ${race.troubled} statements met trouble`)
  for (const key of race.published) assert(race.delivered.has(key), `message ${key} was accepted and not delivered`)
  t.diagnostic(`${race.published.size} messages, ${race.troubled} troubles`)
})
