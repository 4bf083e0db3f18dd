import assert from 'node:assert/strict'
import { test } from 'node:test'
import { begin, type Open, type World } from './harness.ts'

const largest = 1_000_000

export function inbox(open: Open): void {
  test('names with waiting rows are listed in their order, and rows of a name in the order of insertion', async (t) => {
    const world = await begin(t, open)
    await insert(world, ['b', 1], ['a', 2], ['b', 3], ['c', 4], ['b', 5])
    const { store } = world
    assert.deepEqual(await store.inboxApps('', 10), ['a', 'b', 'c'])
    assert.deepEqual(await store.inboxApps('', 2), ['a', 'b'])
    assert.deepEqual(await store.inboxApps('b', 10), ['c'])
    assert.deepEqual(payloads(await store.inboxRows('b', 10, largest, largest)), ['{"n":1}', '{"n":3}', '{"n":5}'])
    assert.deepEqual(payloads(await store.inboxRows('b', 2, largest, largest)), ['{"n":1}', '{"n":3}'])
    assert.deepEqual(payloads(await store.inboxRows('b', 10, 8, largest)), ['{"n":1}'], 'one at least')
    assert.deepEqual(payloads(await store.inboxRows('b', 10, largest, 3)), [null, null, null], 'too large to be read')
    assert.deepEqual(await store.inboxRows('nobody', 10, largest, largest), [])
  })

  test('a row is gone with the commit of its message, and only then', async (t) => {
    const world = await begin(t, open)
    const app = await world.application('acme')
    const endpoint = await world.endpoint(app)
    await insert(world, ['acme', 1], ['acme', 2])
    const [first, second] = await world.store.inboxRows('acme', 10, largest, largest)
    assert(first && second)
    const publication = await world.publication([endpoint], { inbox: first.id })
    assert.equal((await world.store.publishTogether([{ ...publication, version: 99 }], null)).state, 'stale')
    assert.equal((await world.store.inboxRows('acme', 10, largest, largest)).length, 2)
    assert.equal((await world.store.publishTogether([publication], null)).state, 'accepted')
    assert.deepEqual(ids(await world.store.inboxRows('acme', 10, largest, largest)), [second.id])
    assert.equal((await world.store.publishTogether([publication], null)).state, 'mismatch', 'its row was taken')
    const together = [publication, { ...publication, inbox: second.id }]
    assert.equal((await world.store.publishTogether(together, null)).state, 'mismatch')
    assert.deepEqual(ids(await world.store.inboxRows('acme', 10, largest, largest)), [second.id], 'all or none')
    const [alone, repeated] = await world.store.publish([{ ...publication, inbox: second.id }, publication])
    assert.deepEqual([alone?.state, repeated?.state], ['accepted', 'mismatch'])
    assert.equal((await world.store.counts()).messages, 2)
  })

  test('a row whose message repeats an earlier one goes, and one whose eventId is used stays', async (t) => {
    const world = await begin(t, open)
    const app = await world.application('acme')
    const endpoint = await world.endpoint(app)
    await insert(world, ['acme', 1], ['acme', 2])
    const rows = ids(await world.store.inboxRows('acme', 10, largest, largest))
    const once = [{ hash: 'h', fingerprint: '', ttlMs: 60_000 }]
    await world.publish([endpoint], { once, eventId: 'e1' })
    const [repeat, conflict] = await world.store.publish([
      await world.publication([endpoint], { once, inbox: rows[0] as number }),
      await world.publication([endpoint], { eventId: 'e1', inbox: rows[1] as number }),
    ])
    assert.deepEqual([repeat?.state, conflict?.state], ['repeated', 'conflict'])
    assert.deepEqual(ids(await world.store.inboxRows('acme', 10, largest, largest)), [rows[1]])
  })

  test('a refused row waits no more, says why, and is removed when it is old', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    await insert(world, ['acme', 1], ['acme', 2])
    const [first] = ids(await store.inboxRows('acme', 10, largest, largest))
    assert.equal(await store.refuseInboxRow(first as number, { code: 'not_found', error: 'There is none.' }), true)
    assert.equal(await store.refuseInboxRow(first as number, { code: 'conflict', error: 'A second reason.' }), false)
    assert.equal(await store.refuseInboxRow(999_999, { code: 'conflict', error: 'It is gone.' }), false)
    assert.deepEqual(payloads(await store.inboxRows('acme', 10, largest, largest)), ['{"n":2}'])
    const [refused, ...others] = await store.refusedRows(10)
    assert.deepEqual(others, [])
    assert.deepEqual([refused?.id, refused?.code, refused?.error], [first, 'not_found', 'There is none.'])
    assert.equal(refused?.eventType, 'video.trending')
    const counts = await store.countInbox(10)
    assert.deepEqual([counts.waiting, counts.refused], [1, 1])
    assert(counts.oldestMs !== null && counts.oldestMs >= 0)
    assert.equal(await store.sweepInbox(60_000, 10), 0)
    assert.equal(await store.retryInbox([999_999]), 0)
    assert.equal(await store.retryInbox(null), 1)
    assert.deepEqual(payloads(await store.inboxRows('acme', 10, largest, largest)), ['{"n":1}', '{"n":2}'])
    assert.equal(await store.refuseInboxRow(first as number, { code: 'not_found', error: 'There is none.' }), true)
    await world.pass(20)
    assert.equal(await store.sweepInbox(1, 10), 1)
    assert.equal((await store.countInbox(10)).refused, 0)
    assert.equal((await store.inboxRows('acme', 10, largest, largest)).length, 1, 'a waiting row is never swept')
  })

  test('a commit of another program is signalled', async (t) => {
    const world = await begin(t, open)
    let signals = 0
    const filled = new Promise<void>((resolve) => {
      world.store.watch({
        rows: () => {},
        lanes: () => {},
        settings: () => {},
        inbox: () => {
          signals++
          resolve()
        },
      })
    })
    const foreign = await world.harness.foreign()
    await foreign.run('begin')
    await foreign.run(insertion(['acme', 1]))
    await world.pass(100)
    assert.equal(signals, 0, 'not before the commit')
    await foreign.run('commit')
    for (let looks = 0; signals === 0 && looks < 200; looks++) await world.pass(50)
    await filled
    await foreign.close()
  })
}

type Inserted = readonly [app: string, n: number]

function insertion(...rows: readonly Inserted[]): string {
  const values = rows.map(([app, n]) => `('${app}', 'video.trending', '{"n":${n}}')`)
  return `insert into sluice_inbox (app, event_type, payload) values ${values.join(', ')}`
}

function insert(world: World, ...rows: readonly Inserted[]): Promise<void> {
  return world.harness.sql(insertion(...rows))
}

function payloads(rows: readonly { readonly payload: string | Uint8Array | null }[]) {
  return rows.map(({ payload }) => payload)
}

function ids(rows: readonly { readonly id: number }[]): number[] {
  return rows.map(({ id }) => id)
}
