import assert from 'node:assert/strict'
import { test } from 'node:test'
import { begin, longMs, type Open } from './harness.ts'

const anna = { id: 'anna', description: 'Anna' }
const bert = { id: 'bert', description: 'Bert' }

export function leading(open: Open): void {
  test('one leads at a time, for as long as it renews its lease', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    assert.equal(await store.leader(), undefined)
    assert.equal((await store.lead(anna, longMs)).leads, true)
    const refused = await store.lead(bert, longMs)
    assert.deepEqual([refused.leads, refused.epoch], [false, 1])
    assert(refused.leftMs > 0 && refused.leftMs <= longMs)
    await world.pass(20)
    const renewed = await store.lead(anna, longMs)
    assert.deepEqual([renewed.leads, renewed.epoch], [true, 1])
    assert.equal((await store.leader())?.description, 'Anna')
  })

  test('a lease that ran out is taken by another, with a higher epoch', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    await store.lead(anna, 50)
    await world.pass(80)
    assert.equal(await store.leader(), undefined)
    const taken = await store.lead(bert, longMs)
    assert.deepEqual([taken.leads, taken.epoch], [true, 2])
    assert.equal((await store.lead(anna, longMs)).leads, false)
    assert.deepEqual((await store.leader())?.description, 'Bert')
  })

  test('a leader that resigns makes room at once, and only for its own part', async (t) => {
    const { store } = await begin(t, open)
    await store.lead(anna, longMs)
    await store.resign(bert)
    assert.equal((await store.leader())?.description, 'Anna')
    await store.resign(anna)
    assert.equal(await store.leader(), undefined)
    assert.equal((await store.lead(bert, longMs)).epoch, 2)
  })

  test('of many who ask at once, one leads', async (t) => {
    const { store } = await begin(t, open)
    const asked = Array.from({ length: 8 }, (_, i) => store.lead({ id: `c${i}`, description: '' }, longMs))
    assert.equal((await Promise.all(asked)).filter((lead) => lead.leads).length, 1)
  })

  test('a lease that a clock set back has made longer than it was is no lease', async (t) => {
    const { store, harness } = await begin(t, open)
    await store.lead(anna, longMs)
    await harness.sql('update leader set lease_until = lease_until + 86400000')
    assert.equal(await store.leader(), undefined)
    assert.equal((await store.lead(bert, longMs)).leads, true)
    assert.equal((await store.leader())?.description, 'Bert')
  })
}
