import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { NewEventType } from '../../../src/features/event-types/noun.ts'
import { begin, type Open } from './harness.ts'

export function eventTypes(open: Open): void {
  test('an event type keeps every field as it was given', async (t) => {
    const { store } = await begin(t, open)
    const made = await store.createEventType(everything)
    assert.deepEqual(made, { ...everything, createdAt: made.createdAt, updatedAt: made.createdAt })
    assert.deepEqual(await store.findEventType('video.trending'), made)
    const plain = await store.createEventType(named('user.signup'))
    assert.deepEqual(await store.findEventType('user.signup'), plain)
    assert.equal(await store.findEventType('video'), undefined)
  })

  test('a name is taken until its event type is archived', async (t) => {
    const { store } = await begin(t, open)
    await store.createEventType(named('a'))
    await assert.rejects(store.createEventType({ ...named('a'), description: 'new' }), {
      name: 'AppError',
      code: 'event_type_exists',
    })
    assert.equal((await store.findEventType('a'))?.description, '')
    await store.updateEventType('a', { archived: true })
    const again = await store.createEventType({ ...named('a'), description: 'new' })
    assert.deepEqual([again.description, again.archived], ['new', false])
  })

  test('putting an event type replaces it or makes it, and says which', async (t) => {
    const world = await begin(t, open)
    const { store } = world
    const first = await store.putEventType(everything)
    assert.equal(first.created, true)
    await world.pass(5)
    const second = await store.putEventType(named(everything.name))
    assert.equal(second.created, false)
    const { createdAt } = first.eventType
    const { updatedAt } = second.eventType
    assert.deepEqual(second.eventType, { ...named(everything.name), createdAt, updatedAt })
    assert(updatedAt > createdAt)
  })

  test('an update changes the given fields and leaves the others', async (t) => {
    const { store } = await begin(t, open)
    const before = await store.createEventType(everything)
    const change = { description: 'new', schemas: null, featureFlags: null }
    const after = await store.updateEventType(before.name, { ...change, groupName: undefined as never })
    assert.deepEqual(after, { ...before, ...change, updatedAt: after?.updatedAt })
    assert.equal(await store.updateEventType('unknown', change), undefined)
  })

  test('a deleted event type is gone', async (t) => {
    const { store } = await begin(t, open)
    await store.createEventType(named('a'))
    assert.equal(await store.deleteEventType('a'), true)
    assert.equal(await store.deleteEventType('a'), false)
    assert.equal(await store.findEventType('a'), undefined)
  })

  test('pages go by the bytes of the names, in both orders, with or without what is archived', async (t) => {
    const { store } = await begin(t, open)
    const names = ['-x', '.a', 'A.b', 'Z', '_', 'a', 'a.b', 'a_b', 'b']
    for (const name of names.toReversed()) await store.createEventType(named(name))
    await store.updateEventType('Z', { archived: true })
    const listed = async (order: 'ascending' | 'descending', archivedToo: boolean) => {
      const found: string[] = []
      for (let after: string | null = null; ; after = found.at(-1) ?? null) {
        const page = await store.listEventTypes({ limit: 3, order, after }, archivedToo)
        found.push(...page.items.map((item) => item.name))
        if (page.done) return found
      }
    }
    assert.deepEqual(await listed('ascending', true), names)
    assert.deepEqual(await listed('descending', true), names.toReversed())
    const offered = names.filter((name) => name !== 'Z')
    assert.deepEqual(await listed('ascending', false), offered)
    assert.deepEqual(await listed('descending', false), offered.toReversed())
  })

  test('an import replaces and makes; with replaceAll it archives the rest', async (t) => {
    const { store } = await begin(t, open)
    for (const name of ['a', 'b', 'c']) await store.createEventType(named(name))
    await store.importEventTypes([{ ...named('b'), description: 'new' }, named('d')], false)
    assert.equal((await store.findEventType('b'))?.description, 'new')
    const page = { limit: 10, order: 'ascending', after: null } as const
    assert.equal((await store.listEventTypes(page, false)).items.length, 4)
    await store.importEventTypes([named('d'), named('a')], true)
    const left = (await store.listEventTypes(page, false)).items.map((item) => item.name)
    assert.deepEqual(left, ['a', 'd'])
    assert.equal((await store.listEventTypes(page, true)).items.length, 4)
  })

  test('without any event type no name is unknown; with one, those are that have none', async (t) => {
    const { store } = await begin(t, open)
    assert.equal(await store.eventTypesAmong(['x', 'y']), undefined)
    assert.deepEqual(await store.eventTypesAmong(['x', 'y'], true), [])
    assert.deepEqual(await store.eventTypeNames(9), [])
    await store.createEventType({ ...named('y'), archived: true, featureFlags: ['beta'] })
    assert.deepEqual(await store.eventTypesAmong(['x', 'y', 'z']), [
      { name: 'y', archived: true, featureFlags: ['beta'] },
    ])
    assert.deepEqual(await store.eventTypesAmong([]), [])
    assert.deepEqual(await store.eventTypeNames(9), [], 'it is archived')
    await store.createEventType({ ...named('w'), featureFlags: ['beta'] })
    assert.deepEqual(await store.eventTypeNames(9), ['w'])
    assert.deepEqual(await store.eventTypeNames(9, new Set(['beta'])), ['w'])
    assert.deepEqual(await store.eventTypeNames(9, new Set()), [])
  })

  test('those with feature flags are listed for callers that have one of them, in full pages', async (t) => {
    const { store } = await begin(t, open)
    for (let i = 0; i < 9; i++) {
      await store.createEventType({
        ...named(`t${i}`),
        featureFlags: i % 3 === 0 ? null : [i % 3 === 1 ? 'one' : 'two'],
      })
    }
    const walked = async (flags: readonly string[] | null, order: 'ascending' | 'descending') => {
      const pages: string[][] = []
      for (let after: string | null = null; ; ) {
        const { items, done } = await store.listEventTypes({ limit: 2, order, after }, false, flags && new Set(flags))
        pages.push(items.map(({ name }) => name))
        if (done) return pages
        after = items.at(-1)?.name ?? null
      }
    }
    assert.deepEqual(await walked([], 'ascending'), [['t0', 't3'], ['t6']])
    assert.deepEqual(await walked([], 'descending'), [['t6', 't3'], ['t0']])
    assert.deepEqual(await walked(['two', 'three'], 'ascending'), [
      ['t0', 't2'],
      ['t3', 't5'],
      ['t6', 't8'],
    ])
    assert.equal((await walked(null, 'ascending')).flat().length, 9)
  })
}

export function named(name: string): NewEventType {
  return {
    name,
    description: '',
    archived: false,
    deprecated: false,
    schemas: null,
    featureFlags: null,
    groupName: null,
  }
}

const everything: NewEventType = {
  name: 'video.trending',
  description: "Robert'); drop table event_type; -- 🎬",
  archived: true,
  deprecated: true,
  schemas: { '1': { type: 'object', properties: { b: { type: 'string' }, a: {} } } },
  featureFlags: ['beta', 'eu'],
  groupName: 'video',
}
