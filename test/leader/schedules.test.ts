import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { AppError } from '../../src/domain/app-error.ts'
import type { Endpoint } from '../../src/features/endpoints/rules.ts'
import { Publisher } from '../../src/intake/publisher.ts'
import { Leader } from '../../src/leader/leader.ts'
import { leaderJobs } from '../../src/leader/leader-jobs.ts'
import type { Settlement } from '../../src/store/delivering.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import { type Store, StoreTrouble } from '../../src/store/store.ts'
import { noEffects, plainEndpoint } from '../store/conformance/harness.ts'
import { plainSchedule } from '../store/conformance/schedules.ts'
import { contextWith } from '../store/sqlite-harness.ts'
import { VirtualClock } from '../virtual-clock.ts'

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const leaseMs = 10 * second

/** A store in memory with an application, in virtual time that begins at a full minute. */
class Place {
  readonly clock = new VirtualClock()
  store!: Store
  app = 0
  readonly troubles: unknown[] = []
  readonly leaders: Leader[] = []

  static async open(t: TestContext): Promise<Place> {
    const place = new Place()
    await place.clock.advance(minute - (place.clock.now() % minute))
    place.store = await openSqliteStore(contextWith(place.clock), { path: ':memory:', role: 'owner' })
    t.after(async () => {
      for (const leader of place.leaders) leader.halt()
      await place.store.close()
    })
    const application = { name: 'Acme', uid: 'acme', throttleRate: null, metadata: {} }
    place.app = (await place.store.createApplication(application)).key
    return place
  }

  /** A process that would lead, with a store of its own making. */
  lead(name: string, store: Store = this.store): Leader {
    const { clock } = this
    const publisher = new Publisher({ store, clock })
    const leader = new Leader({
      store,
      clock,
      leaseMs,
      candidate: { id: name, description: name },
      jobs: leaderJobs({
        clock,
        store,
        publisher: () => publisher,
        retention: { historyMs: null, deadMs: null },
        waitingLimit: 1_000_000,
        hoursKeptMs: 90 * 86_400_000,
        leaseMs,
        onTrouble: (error) => this.troubles.push(error),
      }),
      onTrouble: (_job, error) => this.troubles.push(error),
    })
    this.leaders.push(leader)
    leader.start()
    return leader
  }

  /** When messages were published, in minutes since the start. */
  async published(): Promise<string[]> {
    const range = { from: 0, until: Number.MAX_SAFE_INTEGER, after: null, limit: 1000, order: 'ascending' as const }
    const heads = await this.store.listMessages(this.app, range)
    return heads.map(({ eventId }) => eventId?.slice(-7, -1) ?? '')
  }

  async schedule() {
    const { items } = await this.store.listSchedules(this.app, { limit: 1, order: 'ascending', after: null })
    return items[0] ?? assert.fail('no schedule')
  }
}

/** The store with some methods replaced. */
function withMethods(store: Store, methods: Partial<Store>): Store {
  return new Proxy(store, { get: (target, name) => Reflect.get(name in methods ? methods : target, name) })
}

test('a schedule runs when its time comes, to the millisecond, and again each time', async (t) => {
  const place = await Place.open(t)
  const { clock, store, app } = place
  await store.createSchedule(app, plainSchedule)
  place.lead('anna')
  await clock.advance(minute - 1)
  assert.deepEqual(await place.published(), [])
  await clock.advance(2)
  assert.equal((await place.published()).length, 1)
  await clock.advance(4 * minute)
  const names = await place.published()
  assert.equal(names.length, 5)
  assert.equal(new Set(names).size, 5)
  const { runs } = await place.schedule()
  for (const run of runs) assert(run.state === 'published' && run.ranAt - run.at < 10, JSON.stringify(run))
  assert.deepEqual(place.troubles, [])
})

test('a schedule with seconds runs every few seconds', async (t) => {
  const place = await Place.open(t)
  await place.store.createSchedule(place.app, { ...plainSchedule, cron: '*/20 * * * * *' })
  place.lead('anna')
  await place.clock.advance(minute + 1)
  assert.equal((await place.published()).length, 3)
  const { runs } = await place.schedule()
  for (const run of runs) assert(run.state === 'published' && run.ranAt - run.at < 10, JSON.stringify(run))
})

const follows: Readonly<Record<string, (end: number) => number>> = {
  '@after 5m': (end) => end + 5 * minute,
  '@after 0 * * * *': (end) => (Math.floor(end / hour) + 1) * hour,
}

for (const [cron, tickAfter] of Object.entries(follows)) {
  test(`a schedule with ${cron} runs then, after the last delivery of its run before ended`, async (t) => {
    const place = await Place.open(t)
    const { clock, store, app } = place
    const endpoints = [await store.createEndpoint(app, plainEndpoint), await store.createEndpoint(app, plainEndpoint)]
    await store.createSchedule(app, { ...plainSchedule, cron, channels: null })
    const begun = clock.now()
    place.lead('anna')
    const worker = await store.join({ description: 'w', leaseMs: 10 * hour })
    const settle = async (i: number, verdict: Settlement['verdict']) => {
      await store.claim(worker, 10)
      const endpoint = endpoints[i] as Endpoint
      const read = { endpoint: endpoint.key, after: null, limit: 10 }
      const found = await store.readDue([
        { ...read, class: 0 },
        { ...read, class: 1 },
      ])
      const row = found.flatMap(({ rows }) => rows)[0] ?? assert.fail('nothing is queued')
      const tried = { startedAgoMs: () => 0, durationMs: 0, status: 200, error: null, response: null } as const
      const code = verdict.state === 'delivered' ? 'delivered' : 'refused'
      const attempt = { id: `atmpt_${clock.now()}_${i}`, ...tried, code } as const
      await store.settle(worker, [{ endpoint: endpoint.key, app, row, attempt, verdict }], noEffects)
    }
    const runsAt = async () => (await place.schedule()).runs.map(({ at }) => at).reverse()

    const first = tickAfter(begun)
    await clock.advance(first - begun + 1)
    assert.deepEqual(await runsAt(), [first])
    // While one delivery is open, it does not run, however long that takes.
    await settle(0, { state: 'delivered' })
    await settle(1, { state: 'waiting', waitMs: minute })
    await clock.advance(100 * minute)
    assert.deepEqual(await runsAt(), [first])
    await settle(1, { state: 'dead', reason: 'exhausted' })
    const next = tickAfter(clock.now())
    await clock.advance(next - clock.now() - 1)
    assert.deepEqual(await runsAt(), [first])
    await clock.advance(2 * second)
    assert.deepEqual(await runsAt(), [first, next])
    assert.deepEqual(place.troubles, [])
  })
}

test('payloads of an application end before their messages, and those of a message that asks for it sooner', async (t) => {
  const place = await Place.open(t)
  const { clock, store, app } = place
  const endpoint = await store.createEndpoint(app, { ...plainEndpoint, paused: true })
  const publisher = new Publisher({ store, clock })
  const publish = async (payloadForMs: number | null) => {
    const envelope = { eventType: 'x.y', eventId: null, channels: null, contentType: 'application/json', delayMs: 0 }
    const published = publisher.publish('acme', { ...envelope, payloadForMs }, Buffer.from('{"n":1}'))
    await clock.advance(1)
    return (await published).id
  }
  const before = await publish(null)
  await store.updateApplication(app, { settings: { payloadRetentionSeconds: 7200 } })
  const ids = [await publish(null), await publish(3 * hour), await publish(hour)]
  place.lead('anna')
  const bytes = () => Promise.all(ids.map(async (id) => (await store.findMessage(app, id))?.body.length))
  await clock.advance(hour + minute)
  assert.deepEqual(await bytes(), [7, 7, 0])
  await clock.advance(hour)
  assert.deepEqual(await bytes(), [0, 0, 0])
  assert.equal((await store.findMessage(app, before))?.body.length, 7, 'it was published before')
  assert.equal((await store.counts()).pending, 1, `what waited for ${endpoint.id} was cancelled`)
  assert.deepEqual(place.troubles, [])
})

test('where an application asks for it, payloads go once all deliveries have succeeded, and no sooner', async (t) => {
  const place = await Place.open(t)
  const { clock, store, app } = place
  const endpoints = [await store.createEndpoint(app, plainEndpoint), await store.createEndpoint(app, plainEndpoint)]
  await store.updateApplication(app, { settings: { eraseDelivered: true } })
  place.lead('anna')
  const worker = await store.join({ description: 'w', leaseMs: 10 * hour })
  await store.claim(worker, 10)
  const settle = async (endpoint: Endpoint, itsClass: 0 | 2, verdict: Settlement['verdict']) => {
    const [due] = await store.readDue([{ endpoint: endpoint.key, after: null, limit: 10, class: itsClass }])
    const row = due?.rows[0] ?? assert.fail('nothing is queued')
    const tried = { startedAgoMs: () => 0, durationMs: 0, status: 200, error: null, response: null } as const
    const code = verdict.state === 'delivered' ? 'delivered' : 'refused'
    const attempt = { id: `atmpt_${clock.now()}_${endpoint.key}`, ...tried, code } as const
    await store.settle(worker, [{ endpoint: endpoint.key, app, row, attempt, verdict }], noEffects)
  }
  const [one, two] = endpoints as [Endpoint, Endpoint]
  const envelope = { eventType: 'x.y', eventId: null, channels: null, contentType: 'application/json', delayMs: 0 }
  const publisher = new Publisher({ store, clock })
  const publish = async (body: string) => {
    const published = publisher.publish('acme', envelope, Buffer.from(body))
    await clock.advance(1)
    return published
  }
  const { id, key } = await publish('{"n":1}')
  const bytes = async () => (await store.findMessage(app, id))?.body.length

  await settle(one, 0, { state: 'delivered' })
  await clock.advance(minute)
  assert.equal(await bytes(), 7, 'the other one waits')
  await settle(two, 0, { state: 'dead', reason: 'exhausted' })
  await clock.advance(4 * minute)
  assert.equal(await bytes(), 7, 'a dead letter can be replayed')
  await store.replay([{ endpoint: two.key, message: key }])
  await clock.advance(second)
  await settle(two, 2, { state: 'delivered' })
  await clock.advance(12 * minute)
  assert.equal(await bytes(), 0)
  assert.equal((await store.attemptsOf(key)).length, 3)

  const prompt = await publish('{"n":2}')
  for (const endpoint of endpoints) await settle(endpoint, 0, { state: 'delivered' })
  await clock.advance(3 * second)
  assert.equal(
    (await store.findMessage(app, prompt.id))?.body.length,
    0,
    'a prompt delivery is followed within seconds',
  )
  assert.deepEqual(place.troubles, [])
})

test('a schedule with @after and no endpoint goes on from its own runs', async (t) => {
  const place = await Place.open(t)
  const { clock, store, app } = place
  await store.createSchedule(app, { ...plainSchedule, cron: '@after 1m' })
  place.lead('anna')
  await clock.advance(5 * minute + 10 * second)
  assert.equal((await place.published()).length, 5)
})

test('when the leader dies another continues its schedules, within a few leases, and runs nothing twice', async (t) => {
  const place = await Place.open(t)
  const { clock, store, app } = place
  await store.createSchedule(app, { ...plainSchedule, missed: 'all' })
  const anna = place.lead('anna')
  await clock.advance(10)
  const bert = place.lead('bert')
  await clock.advance(2 * minute)
  assert.deepEqual([anna.leads, bert.leads], [true, false])
  await clock.advance(minute - 1000 - (clock.now() % minute))
  anna.halt()
  await clock.advance(second + leaseMs * 1.5)
  assert.deepEqual([anna.leads, bert.leads], [false, true])
  assert.equal((await place.published()).length, 3)
  await clock.advance(5 * minute)
  const names = await place.published()
  assert.deepEqual([names.length, new Set(names).size], [8, 8])
  assert.equal((await store.leader())?.description, 'bert')
})

test('a leader that stops hands over at once', async (t) => {
  const place = await Place.open(t)
  const anna = place.lead('anna')
  await place.clock.advance(10)
  const bert = place.lead('bert')
  await place.clock.advance(10)
  await anna.stop()
  await place.clock.advance(leaseMs / 3 + 100)
  assert.deepEqual([anna.leads, bert.leads], [false, true])
})

test('a process that cannot renew its lead stops its jobs before another begins', async (t) => {
  const place = await Place.open(t)
  const { clock, store } = place
  let reachable = true
  const cut = withMethods(store, {
    lead: (...args) => (reachable ? store.lead(...args) : Promise.reject(new StoreTrouble('gone'))),
  })
  const anna = place.lead('anna', cut)
  await clock.advance(10)
  const bert = place.lead('bert')
  await clock.advance(10)
  reachable = false
  for (let ms = 0; ms < 3 * leaseMs; ms += 100) {
    await clock.advance(100)
    assert(!(anna.leads && bert.leads), 'both lead')
  }
  assert.deepEqual([anna.leads, bert.leads], [false, true])
  assert(place.troubles.every((error) => error instanceof StoreTrouble))
})

test('two that both believe to lead publish each tick once', async (t) => {
  const place = await Place.open(t)
  const { clock, store, app } = place
  await store.createSchedule(app, plainSchedule)
  const always = withMethods(store, { lead: async () => ({ leads: true, epoch: 1, leftMs: leaseMs }) })
  place.lead('anna', always)
  place.lead('bert', always)
  await clock.advance(5 * minute + 1)
  const names = await place.published()
  assert.deepEqual([names.length, new Set(names).size], [5, 5])
})

test('a run that is refused is shown, tried again later, and keeps no other schedule from running', async (t) => {
  const place = await Place.open(t)
  const { clock, store, app } = place
  const broken = await store.createSchedule(app, { ...plainSchedule, eventType: 'broken' })
  await store.createSchedule(app, plainSchedule)
  let refusing = true
  const refused = withMethods(store, {
    advanceSchedule: async (schedule, step) => {
      const refuses = refusing && step.publication?.eventType === 'broken'
      if (refuses) throw new AppError('overloaded', 'There is no room.')
      return store.advanceSchedule(schedule, step)
    },
  })
  place.lead('anna', refused)
  await clock.advance(2 * minute + 30 * second)
  assert.equal((await place.published()).length, 2)
  const failing = await store.findSchedule(app, broken.id)
  assert.deepEqual([failing?.runs[0]?.state, failing?.runs[0]?.error], ['failed', 'There is no room.'])
  assert((failing?.failures ?? 0) > 3)
  refusing = false
  await clock.advance(2 * minute)
  const healed = await store.findSchedule(app, broken.id)
  assert.deepEqual([healed?.failures, healed?.runs[0]?.state], [0, 'published'])
  assert.deepEqual(place.troubles, [])
})

test('a schedule whose timing no longer means anything shows that, and keeps no other from running', async (t) => {
  const place = await Place.open(t)
  const { clock, store, app } = place
  const broken = await store.createSchedule(app, plainSchedule)
  await store.createSchedule(app, plainSchedule)
  const garbled = withMethods(store, {
    dueSchedules: async (limit) => {
      const due = await store.dueSchedules(limit)
      const timezone = 'No/Where'
      return {
        ...due,
        schedules: due.schedules.map((each) => (each.key === broken.key ? { ...each, timezone } : each)),
      }
    },
  })
  place.lead('anna', garbled)
  await clock.advance(2 * minute + 1)
  assert.equal((await place.published()).length, 2)
  assert.match((await store.findSchedule(app, broken.id))?.runs[0]?.error ?? '', /No\/Where/)
})

test('while the store is in trouble nothing is lost: the tick is run when it is back', async (t) => {
  const place = await Place.open(t)
  const { clock, store, app } = place
  await store.createSchedule(app, plainSchedule)
  let down = false
  let lost = 0
  const troubled = withMethods(store, {
    advanceSchedule: async (schedule, step) => {
      if (down) throw new StoreTrouble('busy')
      const answer = await store.advanceSchedule(schedule, step)
      // It happened, and the answer was lost.
      if (lost++ === 0) throw new StoreTrouble('connection lost')
      return answer
    },
  })
  place.lead('anna', troubled)
  await clock.advance(minute + 10 * second)
  down = true
  await clock.advance(minute)
  down = false
  await clock.advance(minute)
  const names = await place.published()
  assert.deepEqual([names.length, new Set(names).size], [3, 3])
  assert(place.troubles.length > 0)
})

test('ticks missed without a leader are made up for by the policy', async (t) => {
  const place = await Place.open(t)
  const { clock, store, app } = place
  const [skip, once, all] = await Promise.all(
    (['skip', 'once', 'all'] as const).map((missed) =>
      store.createSchedule(app, { ...plainSchedule, cron: '0 * * * *', missed, missedLimit: 2, eventType: missed }),
    ),
  )
  await clock.advance(5 * 60 * minute - (clock.now() % (60 * minute)) + 30 * minute)
  place.lead('anna')
  await clock.advance(second)
  const states = async (id: string) => {
    const { runs } = (await store.findSchedule(app, id)) ?? assert.fail()
    return runs.map(({ state, count }) => (count > 1 ? `${state} ×${count}` : state))
  }
  assert(skip && once && all)
  assert.deepEqual(await states(skip.id), ['skipped ×5'])
  assert.deepEqual(await states(once.id), ['published', 'skipped ×4'])
  assert.deepEqual(await states(all.id), ['published', 'published', 'skipped ×3'])
})

test('a paused schedule does not run, and a new one is found within a second', async (t) => {
  const place = await Place.open(t)
  const { clock, store, app } = place
  place.lead('anna')
  await clock.advance(30 * second)
  const made = await store.createSchedule(app, plainSchedule)
  await clock.advance(31 * second)
  assert.equal((await place.published()).length, 1)
  await store.updateSchedule(app, made.key, { paused: true })
  await clock.advance(5 * minute)
  assert.equal((await place.published()).length, 1)
  await store.updateSchedule(app, made.key, { paused: false })
  await clock.advance(minute)
  assert.equal((await place.published()).length, 2)
})

test('bodies are erased when the time they were to be kept for is up', async (t) => {
  const place = await Place.open(t)
  const { clock, store, app } = place
  const publisher = new Publisher({ store, clock })
  const envelope = { eventType: 'x', eventId: null, channels: null, contentType: 'application/json', delayMs: 0 }
  const publishing = [
    publisher.publish('acme', { ...envelope, payloadForMs: 60 * minute }, Buffer.from('{"secret":1}')),
    publisher.publish('acme', envelope, Buffer.from('{}')),
  ] as const
  await clock.advance(1)
  const [soon, never] = await Promise.all(publishing)
  place.lead('anna')
  await clock.advance(59 * minute)
  assert.equal((await store.findMessage(app, soon.id))?.expunged, false)
  await clock.advance(2 * minute)
  const gone = await store.findMessage(app, soon.id)
  assert.deepEqual([gone?.expunged, gone?.body.length], [true, 0])
  assert.equal((await store.findMessage(app, never.id))?.expunged, false)
})
