import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type AuditEntry, auditStart, verifyAudit } from '../../../src/features/audit/rules.ts'
import { hashText } from '../../../src/features/audit/store.ts'
import type { Store } from '../../../src/store/store.ts'
import { begin, type Open, plainEndpoint } from './harness.ts'

const entry: AuditEntry = {
  actor: 'key_1',
  ip: '127.0.0.1',
  action: 'PATCH /app/:app',
  app: 'app_1',
  target: '/api/v1/app/app_1',
  before: '{"name":"Ünï 🎬"}',
  after: null,
}
const everything = { actor: null, action: null, app: null, since: null, until: null }
const start = { n: 0, hash: auditStart }

async function all(store: Store) {
  return (await store.listAudit({ limit: 100, order: 'ascending', after: null }, everything)).items
}

export function auditing(open: Open): void {
  test('rows come back as they were appended, numbered from 1 and chained', async (t) => {
    const { store } = await begin(t, open)
    const first = await store.appendAudit(entry)
    const second = await store.appendAudit({ ...entry, actor: 'fixed', app: null })
    assert.deepEqual([first.n, second.n], [1, 2])
    assert.match(first.id, /^audit_/)
    const rows = await all(store)
    assert.deepEqual(rows, [first, second])
    assert.deepEqual(verifyAudit(start, rows, hashText), { n: 2, hash: second.hash })
    assert.deepEqual(verifyAudit({ n: 1, hash: first.hash }, [second], hashText), { n: 2, hash: second.hash })
  })

  test('rows appended at once form one chain', async (t) => {
    const { store } = await begin(t, open)
    await Promise.all(Array.from({ length: 12 }, (_, i) => store.appendAudit({ ...entry, actor: `key_${i}` })))
    const rows = await all(store)
    assert.equal(new Set(rows.map(({ actor }) => actor)).size, 12)
    assert.deepEqual(verifyAudit(start, rows, hashText), { n: 12, hash: rows.at(-1)?.hash })
  })

  for (const [what, sql] of [
    ['changed', `update audit set actor = 'key_2' where n = 2`],
    ['removed', 'delete from audit where n = 2'],
    ['moved', 'update audit set n = 9 where n = 2'],
  ] as const) {
    test(`a row that was ${what} breaks the chain where it was`, async (t) => {
      const { store, harness } = await begin(t, open)
      for (let i = 0; i < 3; i++) await store.appendAudit(entry)
      await harness.sql(sql)
      assert.equal(verifyAudit(start, await all(store), hashText), 2)
    })
  }

  test('pages go both ways, and every filter counts', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const rows = [await store.appendAudit(entry)]
    await world.pass(5)
    rows.push(await store.appendAudit({ ...entry, actor: 'key_2', action: 'POST /app', app: 'app_2' }))
    await world.pass(5)
    rows.push(await store.appendAudit(entry))
    const list = async (filter: Partial<typeof everything> | Record<string, unknown>) =>
      (await store.listAudit({ limit: 9, order: 'ascending', after: null }, { ...everything, ...filter })).items.map(
        ({ n }) => n,
      )
    assert.deepEqual(await list({ actor: 'key_2' }), [2])
    assert.deepEqual(await list({ action: 'POST /app' }), [2])
    assert.deepEqual(await list({ app: 'app_1' }), [1, 3])
    assert.deepEqual(await list({ since: rows[0]?.at }), [2, 3])
    assert.deepEqual(await list({ until: rows[2]?.at }), [1, 2])
    const page = await store.listAudit({ limit: 2, order: 'descending', after: null }, everything)
    assert.deepEqual([page.items.map(({ n }) => n), page.done], [[3, 2], false])
    const rest = await store.listAudit({ limit: 2, order: 'descending', after: 2 }, everything)
    assert.deepEqual([rest.items.map(({ n }) => n), rest.done], [[1], true])
  })

  test('the changes of a request and its row are one transaction, whichever change comes first', async (t) => {
    const { store } = await begin(t, open)
    const trail = { entry, written: false }
    await store.trailing(trail, async () => {
      await store.findApplication('nobody')
      assert.equal(trail.written, false)
      const app = await store.createApplication({ name: 'A', uid: 'a', throttleRate: null, metadata: {} })
      assert.equal(trail.written, true)
      await store.createEndpoint(app.key, plainEndpoint)
    })
    assert.equal((await all(store)).length, 1)
    await store.createApplication({ name: 'B', uid: 'b', throttleRate: null, metadata: {} })
    assert.equal((await all(store)).length, 1)
  })

  test('a change that is undone takes its row with it, and what changes nothing leaves none', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    await world.application('a')
    const trail = { entry, written: false }
    await store.trailing(trail, async () => {
      await assert.rejects(world.application('a'), { code: 'conflict' })
      assert.equal(await store.updateEndpoint(1, 2, { description: 'x' }), undefined)
    })
    assert.equal(trail.written, false)
    assert.deepEqual(await all(store), [])
  })

  test('a row that cannot be written undoes the change', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    // Not a value of its column, in either database.
    const impossible = { ...entry, ip: null as unknown as string }
    await assert.rejects(store.trailing({ entry: impossible, written: false }, () => world.application('a')))
    assert.equal(await store.findApplication('a'), undefined)
  })

  test('rows are trimmed behind a checkpoint, but the last one, and the numbers go on', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    for (let n = 0; n < 5; n++) await store.appendAudit(entry)
    const rows = await all(store)
    const trim = (fromN: number, toN: number, at = 7) => {
      const signature = { algorithm: 'ed25519', keyId: 'k', publicKey: 'p', signature: 's' } as const
      const [previous, hash] = [rows[fromN - 2]?.hash ?? start.hash, rows[toN - 1]?.hash ?? '']
      return { fromN, toN, previous, hash, firstAt: 1, lastAt: 2, at, signature }
    }
    assert.equal(await store.removeTrimmed(10), 0)
    assert.equal(await store.addAuditCheckpoint(trim(1, 5)), false, 'the last row stays')
    assert.equal(await store.addAuditCheckpoint(trim(2, 3)), false, 'not behind the last checkpoint')
    assert.equal(await store.addAuditCheckpoint(trim(1, 2)), true)
    assert.equal(await store.addAuditCheckpoint(trim(1, 3)), false, 'another was faster')
    assert.equal(await store.addAuditCheckpoint(trim(3, 3)), true)
    assert.deepEqual(await store.auditCheckpoints(), [trim(1, 2), trim(3, 3)])
    assert.deepEqual(
      [await store.removeTrimmed(2), await store.removeTrimmed(2), await store.removeTrimmed(2)],
      [2, 1, 0],
    )
    assert.deepEqual(
      (await all(store)).map(({ n }) => n),
      [4, 5],
    )
    assert.equal((await store.appendAudit(entry)).n, 6)
    assert.equal(typeof verifyAudit({ n: 3, hash: rows[2]?.hash ?? '' }, await all(store), hashText), 'object')
  })

  test('one request at a time leaves its own trail', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        store.trailing({ entry: { ...entry, actor: `key_${i}` }, written: false }, () => world.application(`app-${i}`)),
      ),
    )
    const rows = await all(store)
    assert.deepEqual(
      rows.map(({ actor }) => actor).sort(),
      Array.from({ length: 8 }, (_, i) => `key_${i}`),
    )
    assert.deepEqual(verifyAudit(start, rows, hashText), { n: 8, hash: rows.at(-1)?.hash })
  })
}
