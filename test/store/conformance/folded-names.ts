import assert from 'node:assert/strict'
import { test } from 'node:test'
import { named } from './event-types.ts'
import { begin, type Open } from './harness.ts'
import { plainSchedule } from './schedules.ts'
import { plainSource, tokenOf } from './sources.ts'

export function foldedNames(open: Open): void {
  test('names that stand for another path in a URL are found, of every kind of thing', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const [app, plain] = [await world.application('..'), await world.application()]
    const endpoint = await world.endpoint(plain, { uid: '.' })
    const deleted = await world.endpoint(app, { uid: '..' })
    await world.endpoint(plain, { uid: '...' })
    const schedule = await store.createSchedule(plain.key, { ...plainSchedule, uid: '..' })
    const source = await store.createSource(plain.key, { ...plainSource, uid: '..' }, tokenOf)
    await store.createEventType(named('..'))
    await store.createEventType(named('a..b'))
    await store.deleteEndpoint(app.key, deleted.key)
    const found = (await store.foldedNames(10)).map(({ noun, id, name, app }) => [noun, id, name, app])
    assert.deepEqual(found.sort(), [
      ['application', app.id, '..', app.key],
      ['endpoint', endpoint.id, '.', plain.key],
      ['event type', '..', '..', null],
      ['schedule', schedule.id, '..', plain.key],
      ['source', source.id, '..', plain.key],
    ])
    assert.equal((await store.foldedNames(2)).length, 2)
  })
}
