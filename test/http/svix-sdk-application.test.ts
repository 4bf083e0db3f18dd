import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { ApiException, Ordering } from 'svix'
import { collect, openSvixWorld } from './svix-world.ts'

describe("Svix's SDK with applications", () => {
  test('creates, gets, lists, patches, upserts and deletes them', async (t) => {
    const { svix } = await openSvixWorld(t)
    const created = await svix.application.create({ name: 'A', uid: 'a', throttleRate: 7, metadata: { k: 'v' } })
    assert.match(created.id, /^app_/)
    assert.deepEqual([created.name, created.uid, created.throttleRate, created.metadata], ['A', 'a', 7, { k: 'v' }])
    assert.ok(Math.abs(created.createdAt.getTime() - Date.now()) < 60_000)
    assert.deepEqual(await svix.application.get('a'), created)
    assert.deepEqual(await svix.application.get(created.id), created)

    const patched = await svix.application.patch('a', { name: 'B', throttleRate: null })
    assert.deepEqual([patched.name, patched.throttleRate, patched.metadata], ['B', null, { k: 'v' }])

    const replaced = await svix.application.upsert('a', { name: 'C', uid: 'a' })
    assert.deepEqual([replaced.id, replaced.name, replaced.metadata], [created.id, 'C', {}])
    const made = await svix.application.upsert('fresh', { name: 'D', uid: 'fresh' })
    assert.notEqual(made.id, created.id)
    assert.deepEqual(
      (await svix.application.list()).data.map(({ uid }) => uid).filter((uid) => uid !== 'management'),
      ['a', 'fresh'],
    )

    await svix.application.delete('a')
    await assert.rejects(svix.application.get('a'), (error: ApiException<{ code: string }>) => error.code === 404)
    const again = await svix.application.create({ name: 'E', uid: 'a' })
    assert.notEqual(again.id, created.id)
  })

  test('gets one that exists instead of creating it twice', async (t) => {
    const { svix } = await openSvixWorld(t)
    const created = await svix.application.getOrCreate({ name: 'A', uid: 'a' })
    assert.deepEqual(await svix.application.getOrCreate({ name: 'Other', uid: 'a' }), created)
  })

  test('walks a list in both orders', async (t) => {
    const { svix } = await openSvixWorld(t)
    for (let i = 0; i < 5; i++) await svix.application.create({ name: `A${i}`, uid: `a${i}` })
    const walk = async (order: Ordering) => {
      const all = await collect((iterator) => svix.application.list({ limit: 2, iterator, order }))
      return all.map(({ uid }) => uid).filter((uid) => uid?.startsWith('a'))
    }
    assert.deepEqual(await walk(Ordering.Ascending), ['a0', 'a1', 'a2', 'a3', 'a4'])
    assert.deepEqual(await walk(Ordering.Descending), ['a4', 'a3', 'a2', 'a1', 'a0'])
    const first = await svix.application.list({ limit: 2, order: Ordering.Descending })
    const second = await svix.application.list({ limit: 2, order: Ordering.Descending, iterator: first.iterator })
    const back = await svix.application.list({
      limit: 2,
      order: Ordering.Descending,
      iterator: second.prevIterator ?? '',
    })
    assert.deepEqual(back.data, first.data)
  })

  test('tells a conflict, wrong fields and unknown things apart', async (t) => {
    const { svix } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    const errors: [() => Promise<unknown>, number, string][] = [
      [() => svix.application.create({ name: 'B', uid: 'a' }), 409, 'conflict'],
      [() => svix.application.get('nobody'), 404, 'not_found'],
    ]
    for (const [call, status, code] of errors) {
      await assert.rejects(call(), (error: ApiException<{ code: string; detail: string }>) => {
        assert.ok(error instanceof ApiException)
        assert.deepEqual([error.code, error.body.code, typeof error.body.detail], [status, code, 'string'])
        return true
      })
    }
    await assert.rejects(
      svix.application.create({ name: '', uid: 'not a uid' }),
      (error: ApiException<{ detail: { loc: string[]; msg: string; type: string }[] }>) => {
        assert.equal(error.code, 422)
        assert.deepEqual(error.body.detail.map(({ loc }) => loc.join('.')).sort(), ['body.name', 'body.uid'])
        return true
      },
    )
  })
})
