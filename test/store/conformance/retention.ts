import assert from 'node:assert/strict'
import { test } from 'node:test'
import { firstKeyAt } from '../../../src/domain/ids.ts'
import type { Endpoint } from '../../../src/features/endpoints/rules.ts'
import type { PayloadEnd } from '../../../src/store/maintenance.ts'
import type { DeliveriesEnd } from '../../../src/store/messages.ts'
import { begin, type Open, type World } from './harness.ts'

const day = 24 * 60 * 60 * 1000
const kept = { historyMs: 30 * day, deadMs: 60 * day }

/** Lets go of everything that may go. */
async function retainAll({ store }: World, limits: { historyMs: number | null; deadMs: number | null } = kept) {
  for (let steps = 0; steps < 100; steps++) if (!(await store.retain(limits)).more) return
  assert.fail('there is always more')
}

export function retention(open: Open): void {
  test('messages go with all that is known of them when they are older than they are kept', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    const old = await delivered(world, endpoint, 'old')
    const young = await delivered(world, endpoint, 'young')
    await age(world, old, 40 * day)
    await age(world, young, 20 * day)
    await retainAll(world)
    assert.deepEqual(await store.counts(), { pending: 0, dead: 0, messages: 1, attempts: 1 })
    assert.equal(await store.findMessage(endpoint.app, 'old'), undefined)
    assert.equal((await store.findMessage(endpoint.app, 'young'))?.eventId, 'young')
    // Its name is free again.
    await world.publish([endpoint], { eventId: 'old' })
    await retainAll(world)
  })

  test('a message that still waits anywhere stays, and so does one whose dead letter is kept', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const [one, other] = [await world.endpoint(app), await world.endpoint(app)]
    const worker = await world.join()
    const days = [35, 36, 37, 38]
    const [waiting, retried, dead, replayed] = await Promise.all(days.map(() => world.publish([one, other])))
    assert(waiting && retried && dead && replayed)
    for (const row of await world.rows(one)) {
      const verdict = { [retried.key]: 'waiting', [dead.key]: 'dead' }[row.message] ?? 'delivered'
      const state = { waiting: { state: 'waiting', waitMs: 5 * day }, dead: { state: 'dead', reason: 'exhausted' } }[
        verdict
      ]
      if (row.message !== waiting.key)
        await world.settle(worker, world.settlement(one, row, (state ?? { state: 'delivered' }) as never))
    }
    for (const row of await world.rows(other)) {
      await world.settle(worker, world.settlement(other, row, { state: 'delivered' }))
    }
    await store.replay([{ endpoint: one.key, message: replayed.key }])
    const keys = [waiting, retried, dead, replayed].map(({ key }) => key)
    for (const [i, key] of keys.entries()) await age(world, key, (days[i] as number) * day)
    const before = await store.counts()
    assert.deepEqual(before, { pending: 3, dead: 1, messages: 4, attempts: 7 })
    await retainAll(world)
    assert.deepEqual(await store.counts(), before)
    // A dead letter goes by its own age; then nothing keeps its message.
    await world.harness.sql(`update dead set died_at = died_at - ${70 * day}`)
    await world.pass(1)
    assert.equal((await store.retain({ historyMs: null, deadMs: kept.deadMs })).removed, 1)
    assert.deepEqual(await store.counts(), { ...before, dead: 0 })
  })

  test('an application may keep its messages longer than the others, and its dead letters', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const [usual, patient] = [await world.application(), await world.application()]
    await store.updateApplication(patient.key, {
      settings: { retentionSeconds: 50 * 86_400, deadRetentionSeconds: 90 * 86_400 },
    })
    const [endpoint, longer] = [await world.endpoint(usual), await world.endpoint(patient)]
    for (const [name, days] of [
      ['a', 40],
      ['b', 70],
    ] as const) {
      await age(world, await delivered(world, endpoint, `usual ${name}`), days * day)
      await age(world, await delivered(world, longer, `longer ${name}`), days * day)
    }
    for (const its of [endpoint, longer]) {
      const { worker, row } = await world.owningOne(its)
      await world.settle(worker, world.settlement(its, row, { state: 'dead', reason: 'exhausted' }))
      await world.harness.sql(`update dead set died_at = died_at - ${70 * day} where endpoint = ${its.key}`)
    }
    const { apps } = await store.listRetentions(-1, 10)
    assert.deepEqual(apps, [{ app: patient.key, historyMs: 50 * day, deadMs: 90 * day }])
    assert.deepEqual((await store.listRetentions(patient.key, 10)).apps, [])
    for (let steps = 0; (await store.retain({ ...kept, apps })).more; steps++) assert.ok(steps < 100)
    const names = ['usual a', 'usual b', 'longer a', 'longer b']
    const found = await Promise.all(
      names.map((name) => store.findMessage((name.startsWith('u') ? usual : patient).key, name)),
    )
    assert.deepEqual(
      found.map((each) => each?.eventId),
      [undefined, undefined, 'longer a', undefined],
    )
    assert.deepEqual([(await store.counts()).dead, await store.removeDead(patient.key, 90 * day)], [1, 0])
    assert.deepEqual(
      [await store.removeDead(patient.key, 60 * day), await store.removeDead(patient.key, 60 * day)],
      [1, 0],
    )
  })

  test('messages are removed with all that is known of them', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const endpoint = await world.endpoint(app)
    const gone = await delivered(world, endpoint, 'gone')
    const { worker, row } = await world.owningOne(endpoint)
    await world.settle(worker, world.settlement(endpoint, row, { state: 'dead', reason: 'exhausted' }))
    assert.equal(await store.removeMessages(app.key + 1, [gone]), 0, 'of another application')
    assert.equal(await store.removeMessages(app.key, [gone, 4711]), 1)
    assert.deepEqual(await store.counts(), { pending: 0, dead: 1, messages: 1, attempts: 1 })
    await world.publish([endpoint], { eventId: 'gone' })
    assert.equal(await store.removeMessages(app.key, []), 0)
  })

  test('rows that are kept for ever stay', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    await age(world, await delivered(world, endpoint, 'old'), 4000 * day)
    await retainAll(world, { historyMs: null, deadMs: null })
    assert.equal((await world.store.counts()).messages, 1)
  })

  test('tasks that have ended go when they are old, and others stay', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const make = () => store.createTask({ app: null, work: { type: 'event-type.aggregate', input: {} }, data: {} })
    const [ended, running] = [await make(), await make()]
    await world.harness.sql(`update task set updated_at = updated_at - ${40 * day}`)
    await world.harness.sql(`update task set status = 'finished' where key = ${ended.key}`)
    await retainAll(world)
    assert.equal(await store.findTask(ended.id), undefined)
    assert.equal((await store.findTask(running.id))?.id, running.id)
  })

  test('a body that is kept for less long is due when its time is up, counted from its delivery', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    const soon = await world.publish([endpoint], { payloadForMs: 1000 })
    await world.publish([endpoint], { payloadForMs: 1000, delayMs: day })
    await world.publish([endpoint])
    assert.deepEqual(await store.duePayloadEnds(10), [])
    await world.pass(1100)
    assert.deepEqual(await dueEnds(world), [{ message: soon.key, isOver: true }])
    await store.expungeMessages([soon.key])
    await store.forgetPayloadEnds([soon.key])
    assert.deepEqual(await store.duePayloadEnds(10), [])
    assert.equal((await store.findMessage(endpoint.app, soon.id))?.expunged, true)
  })

  test('a body is looked at until all deliveries have succeeded; then it goes, and the history stays', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    const worker = await world.join()
    const { key, id } = await world.publish([endpoint], { eraseDelivered: true, tags: ['t'], headers: { x: 'y' } })
    await world.publish([], { eraseDelivered: true, app: endpoint.app })
    assert.deepEqual(await store.duePayloadEnds(10), [])
    await world.pass(1100)
    assert.deepEqual(await dueEnds(world), [{ message: key, isOver: false }], 'only a message with deliveries')
    assert.equal(await store.deliveriesEnd(key, 0), undefined, 'its delivery is queued')
    await store.postponePayloadEnds([key])
    assert.deepEqual(await store.duePayloadEnds(10), [])

    await world.claim(worker)
    await world.settle(worker, world.settlement(endpoint, await world.head(endpoint), { state: 'delivered' }))
    const delivery = { endpoint: endpoint.key, message: key }
    await world.harness.sql('update payload_end set at = 1')
    const [before] = await store.duePayloadEnds(10)
    assert(before !== undefined)
    assert.equal((await store.replay([delivery])).length, 1)
    assert.deepEqual(await store.eraseDelivered([before]), [], 'it is being replayed')
    await world.settle(worker, world.settlement(endpoint, await world.head(endpoint, 2), { state: 'delivered' }))
    assert.deepEqual(await store.eraseDelivered([before]), [], 'it was replayed since')
    await world.harness.sql('update payload_end set at = 2')
    const [end] = await store.duePayloadEnds(10)
    assert(end !== undefined)
    assert.deepEqual(await store.eraseDelivered([end, { message: 4711, at: 0 }]), [key])
    assert.deepEqual(await store.eraseDelivered([end]), [], 'it is erased already')
    await store.forgetPayloadEnds([key])
    const message = await store.findMessage(endpoint.app, id)
    const { body, headers, tags, expunged, eraseReason } = message ?? assert.fail('the message is gone')
    assert.deepEqual([body.length, headers, tags, expunged, eraseReason], [0, null, ['t'], true, 'delivered'])
    assert.equal((await store.attemptsOf(key)).length, 2)
    assert.deepEqual(await store.replay([delivery]), [])
  })

  test('a body stays while any of very many deliveries is replayed, also one that was looked at long before', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const endpoints: Endpoint[] = []
    for (let i = 0; i < 450; i++) endpoints.push(await world.endpoint(app))
    const worker = await world.join()
    const { key, id } = await world.publish(endpoints, { eraseDelivered: true })
    await store.claim(worker, endpoints.length)
    for (const endpoint of endpoints) {
      await world.settle(worker, world.settlement(endpoint, await world.head(endpoint), { state: 'delivered' }))
    }
    await world.harness.sql('update payload_end set at = 1')
    const walk = async () => {
      const [end] = await store.duePayloadEnds(10)
      assert(end !== undefined)
      for (let from: number | null = 0; from !== null; ) {
        const part: DeliveriesEnd | undefined = await store.deliveriesEnd(key, from)
        assert(part?.allDelivered)
        from = part.next
      }
      return end
    }
    for (const replayed of [endpoints[0], endpoints[300], endpoints.at(-1)]) {
      assert(replayed !== undefined)
      const end = await walk()
      await store.replay([{ endpoint: replayed.key, message: key }])
      assert.deepEqual(await store.eraseDelivered([end]), [])
      assert.ok(((await store.findMessage(app.key, id))?.body.length ?? 0) > 0)
      await world.settle(worker, world.settlement(replayed, await world.head(replayed, 2), { state: 'delivered' }))
      await world.harness.sql('update payload_end set at = 1')
    }
    assert.deepEqual(await store.eraseDelivered([await walk()]), [key])
  })

  test('a body stays while the message waits for endpoints that it was not accepted for', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const app = await world.application()
    const [endpoint, ...later] = [await world.endpoint(app), await world.endpoint(app), await world.endpoint(app)]
    const worker = await world.join()
    const { key, id } = await world.publish([endpoint], { eraseDelivered: true })
    await store.claim(worker, 10)
    await world.settle(worker, world.settlement(endpoint, await world.head(endpoint), { state: 'delivered' }))
    for (const added of later) {
      assert.equal((await store.replay([{ endpoint: added.key, message: key }])).length, 1)
      assert.equal((await store.replay([{ endpoint: added.key, message: key }])).length, 0)
      await store.claim(worker, 10)
    }
    for (const added of later) {
      assert.equal(await store.deliveriesEnd(key, 0), undefined, 'a replay waits')
      await world.settle(worker, world.settlement(added, await world.head(added, 2), { state: 'delivered' }))
    }
    assert.equal((await store.deliveriesEnd(key, 0))?.allDelivered, true)
    await world.harness.sql('update payload_end set at = 1')
    assert.deepEqual(await store.eraseDelivered([{ message: key, at: 1 }]), [key])
    assert.equal((await store.findMessage(app.key, id))?.body.length, 0)
  })

  test('a body that is kept for a time goes then, delivered or not', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    const both = { eraseDelivered: true, payloadForMs: 1500 }
    const { key } = await world.publish([endpoint], both)
    await world.pass(1100)
    assert.deepEqual(await dueEnds(world), [{ message: key, isOver: false }])
    await store.postponePayloadEnds([key])
    await world.pass(500)
    assert.deepEqual(await dueEnds(world), [{ message: key, isOver: true }])
  })

  test('an application says how long its payloads are kept', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const keptFor = async () => (await world.store.subscriptions(app.key))?.payloadForMs
    assert.equal(await keptFor(), undefined)
    await world.store.updateApplication(app.key, { settings: { payloadRetentionSeconds: 7200 } })
    assert.equal(await keptFor(), 7_200_000)
  })

  test('an application says whether its payloads are erased once delivered', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const erases = async () => (await world.store.subscriptions(app.key))?.eraseDelivered
    assert.equal(await erases(), false)
    await world.store.updateApplication(app.key, { settings: { eraseDelivered: true } })
    assert.equal(await erases(), true)
    await world.store.updateApplication(app.key, { settings: { eraseDelivered: false } })
    assert.equal(await erases(), false)
  })

  test('a refused message leaves no end of its body', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const endpoint = await world.endpoint(await world.application())
    await world.publish([endpoint], { eventId: 'taken' })
    const again = await world.publication([endpoint], { eventId: 'taken', payloadForMs: 1 })
    assert.equal((await store.publish([again]))[0]?.state, 'conflict')
    assert.equal((await store.publishTogether([again], null)).state, 'conflict')
    await world.pass(30)
    assert.deepEqual(await store.duePayloadEnds(10), [])
  })

  test('upkeep can be done at any time', async (t) => {
    const { store } = await begin(t, open)
    await store.upkeep()
    await store.upkeep()
  })
}

/** The key of a message that was delivered. */
async function delivered(world: World, endpoint: Endpoint, eventId: string): Promise<number> {
  const { key } = await world.publish([endpoint], { eventId })
  const worker = await world.join()
  const row = (await world.rows(endpoint)).find(({ message }) => message === key)
  assert(row)
  await world.settle(worker, world.settlement(endpoint, row, { state: 'delivered' }))
  return key
}

/** Makes a message older than it is, with all that is known of it: its key says when it was made. */
async function age({ harness }: World, key: number, byMs: number): Promise<void> {
  const by = firstKeyAt(byMs)
  const tables = ['pending', 'attempt', 'dead', 'event_id', 'variant'].map(
    (table) => `update ${table} set message = message - ${by} where message = ${key}`,
  )
  const attempts = `update attempt set at = at - ${byMs} where message = ${key - by}`
  const replays = `update pending set due_at = due_at - ${byMs} where class = 2 and message = ${key - by}`
  await harness.sql(`update message set key = key - ${by} where key = ${key}`)
  for (const sql of tables) await harness.sql(sql)
  await harness.sql(attempts)
  await harness.sql(replays)
}

/** The ends that are due, without their instants. */
async function dueEnds({ store }: World): Promise<Omit<PayloadEnd, 'at'>[]> {
  return (await store.duePayloadEnds(10)).map(({ message, isOver }) => ({ message, isOver }))
}
