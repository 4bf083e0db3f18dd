import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { AppError } from '../../../src/domain/app-error.ts'
import type { NewView } from '../../../src/features/views/noun.ts'
import { begin, type Open } from './harness.ts'

const nothing = { app: null, search: null, sort: null, reason: null, eventTypes: null, withinSeconds: null }
const plainView: NewView = { uid: null, name: 'Failing', of: 'endpoints', filter: { ...nothing, sort: 'failing' } }

export function views(open: Open): void {
  test('a view is kept as it was made, found by its id or uid, and listed by its age', async (t) => {
    const { store } = await begin(t, open)
    const made = await store.createView({ ...plainView, uid: 'failing' })
    const dead = { ...nothing, eventTypes: ['a.*', 'b'], withinSeconds: 3600 }
    const other = await store.createView({ uid: null, name: 'Dead', of: 'dead-letters', filter: dead })
    assert.match(made.id, /^view_/)
    assert.deepEqual(await store.findView(null, made.id), made)
    assert.deepEqual(await store.findView(null, 'failing'), made)
    assert.deepEqual((await store.findView(null, other.id))?.filter, dead)
    assert.equal(await store.findView(null, 'Dead'), undefined)
    const page = await store.listViews({ limit: 1, order: 'descending', after: null })
    assert.deepEqual([page.items, page.done], [[other], false])
    assert.deepEqual((await store.listViews({ limit: 2, order: 'descending', after: other.key })).items, [made])
    await assert.rejects(store.createView({ ...plainView, uid: 'failing' }), conflict)
  })

  test('a change of a view keeps the parts of its filter that it does not name', async (t) => {
    const { store } = await begin(t, open)
    const made = await store.createView({ ...plainView, filter: { ...plainView.filter, search: 'eu' } })
    const changed = await store.updateView(made.key, { name: 'Waiting', filter: { sort: 'waiting' } })
    assert.deepEqual([changed?.name, changed?.filter], ['Waiting', { ...nothing, search: 'eu', sort: 'waiting' }])
    assert.deepEqual(await store.findView(null, made.id), changed)
    assert.deepEqual(await store.updateView(made.key, { filter: { search: 'eu' } }), changed, 'nothing is written')
    assert.equal(await store.updateView(made.key + 1, { name: 'x' }), undefined)
    await store.createView({ ...plainView, uid: 'taken' })
    await assert.rejects(store.updateView(made.key, { uid: 'taken' }), conflict)
    assert.equal(await store.deleteView(made.key), true)
    assert.equal(await store.deleteView(made.key), false)
    assert.equal(await store.findView(null, made.id), undefined)
  })

  test('a server has 500 views at most', async (t) => {
    const { store } = await begin(t, open)
    for (let i = 0; i < 500; i++) await store.createView(plainView)
    await assert.rejects(store.createView(plainView), (error: AppError) => {
      assert.deepEqual(
        [error.code, error.message],
        ['quota_exceeded', 'The server may have 500 views; delete one first.'],
      )
      return true
    })
  })
}

function conflict(error: AppError): boolean {
  return error.code === 'conflict'
}
