import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { openPlace } from '../e2e/place.ts'
import { adminKey, openSvixWorld } from './svix-world.ts'

interface Page {
  readonly data: Readonly<Record<string, string>>[]
}

/** Walks one item on from the middle of a list and back, by the id of an item as Svix's iterators are. */
async function walkByIds(list: (query: string) => Promise<Page>, name = 'id'): Promise<void> {
  const ids = ({ data }: Page) => data.map((item) => item[name])
  const all = ids(await list('limit=50'))
  assert.ok(all.length >= 3, String(all.length))
  for (const [i, id] of all.entries()) {
    assert.deepEqual(ids(await list(`limit=50&iterator=${id}`)), all.slice(i + 1), `behind ${id}`)
    assert.deepEqual(ids(await list(`limit=50&iterator=-${id}`)), all.slice(0, i), `before ${id}`)
  }
  assert.deepEqual(ids(await list(`limit=1&iterator=-${all[2]}`)), [all[1]])
}

describe('an iterator may be the id of an item, in both directions:', () => {
  for (const dialect of ['sqlite', 'postgres'] as const) {
    test(dialect, async (t) => {
      const place = await openPlace(t, dialect)
      const { svix, serverUrl, receiverUrl } = await openSvixWorld(t, { store: place.store })
      const get = async (path: string): Promise<Page> => {
        const answer = await fetch(`${serverUrl}/api/v1${path}`, { headers: { authorization: `Bearer ${adminKey}` } })
        assert.equal(answer.status, 200, await answer.clone().text())
        return (await answer.json()) as Page
      }
      for (const name of ['a.one', 'b.two', 'c.three', 'd.four'])
        await svix.eventType.create({ name, description: name })
      for (const uid of ['a', 'b', 'c']) await svix.application.create({ name: uid, uid })
      for (const uid of ['e', 'f', 'g']) await svix.endpoint.create('a', { url: `${receiverUrl}/ok`, uid })
      for (let i = 0; i < 4; i++)
        await svix.message.create('a', { eventType: 'a.one', eventId: `m-${i}`, payload: { i } })
      await eventually('all attempts', async () => {
        const { data } = await svix.messageAttempt.listByEndpoint('a', 'e', { limit: 50 })
        return data.length === 4
      })
      await eventually('all attempts of one message', async () => {
        return (await svix.messageAttempt.listByMsg('a', 'm-0')).data.length === 3
      })
      await walkByIds((query) => get(`/app?${query}`))
      await walkByIds((query) => get(`/app?order=descending&${query}`))
      await walkByIds((query) => get(`/app/a/endpoint?${query}`))
      await walkByIds((query) => get(`/app/a/msg?${query}`))
      await walkByIds((query) => get(`/app/a/attempt/endpoint/e?${query}`))
      await walkByIds((query) => get(`/app/a/attempt/endpoint/e?order=ascending&${query}`))
      await walkByIds((query) => get(`/app/a/attempt/msg/m-0?${query}`))
      await walkByIds((query) => get(`/app/a/endpoint/e/msg?${query}`))
      await walkByIds((query) => get(`/app/a/msg/m-0/endpoint?${query}`))
      await walkByIds((query) => get(`/event-type?${query}`), 'name')
    })
  }

  test('the id of no item of the list is refused', async (t) => {
    const { svix, serverUrl, receiverUrl } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    await svix.endpoint.create('a', { url: `${receiverUrl}/ok`, uid: 'e' })
    const headers = { authorization: `Bearer ${adminKey}` }
    for (const [path, id] of [
      ['/app/a/attempt/endpoint/e', `atmpt_${'0'.repeat(27)}`],
      ['/app/a/endpoint/e/msg', `msg_${'0'.repeat(27)}`],
      ['/event-type', 'no.such'],
    ]) {
      const answer = await fetch(`${serverUrl}/api/v1${path}?iterator=${id}`, { headers })
      assert.equal(answer.status, 422, path)
    }
  })
})

test('before and after are read in the forms that SDKs send', async (t) => {
  const { svix, serverUrl } = await openSvixWorld(t)
  await svix.application.create({ name: 'A', uid: 'a' })
  await svix.message.create('a', { eventType: 'x', payload: {} })
  const headers = { authorization: `Bearer ${adminKey}` }
  for (const instant of [
    '2020-01-02T03:04:05Z',
    '2020-01-02T03%3A04%3A05.123456%2B00%3A00',
    '2020-01-02T03:04:05+00:00',
    '2020-01-02T03:04:05.123456789Z',
    '2020-01-02%2003:04:05Z',
    '2020-01-02+03:04:05+UTC',
  ]) {
    for (const [name, count] of [
      ['after', 1],
      ['before', 0],
    ] as const) {
      const answer = await fetch(`${serverUrl}/api/v1/app/a/msg?${name}=${instant}`, { headers })
      const { data } = (await answer.json()) as Page
      assert.equal(data?.length, count, `${name}=${instant}`)
    }
  }
})
