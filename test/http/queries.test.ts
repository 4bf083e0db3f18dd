import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { routes } from '../../src/features/routes.ts'
import { type Api, openApi } from './api.ts'
import { fill, openPopulated } from './populated.ts'

/** An application with one message of each of three event types. */
async function withMessages(): Promise<Api> {
  const api = await openApi()
  await api.ask('POST', '/app', { name: 'A', uid: 'a' })
  for (const type of ['a.one', 'b.two', 'c.three']) {
    await api.ask('POST', '/app/a/msg', { eventType: type, payload: {} })
  }
  return api
}

describe('a list of event types filters when it is', () => {
  for (const [how, query] of Object.entries({
    'repeated, as Svix reads it': 'event_types=a.one&event_types=b.two',
    'joined by a comma, as the SDKs send it': 'event_types=a.one,b.two',
    'joined by an encoded comma': 'event_types=a.one%2Cb.two',
    'in brackets': 'event_types[]=a.one&event_types[]=b.two',
    'in encoded brackets': 'event_types%5B%5D=a.one&event_types%5B%5D=b.two',
    'in numbered brackets': 'event_types[0]=a.one&event_types[1]=b.two',
    'in all of these ways': 'event_types=a.one&event_types[]=a.one,b.two&event_types[7]=b.two',
  })) {
    test(how, async () => {
      const { ask } = await withMessages()
      const { json } = await ask('GET', `/app/a/msg?order=ascending&${query}`)
      assert.deepEqual(
        json.data.map(({ eventType }: { eventType: string }) => eventType),
        ['a.one', 'b.two'],
      )
    })
  }

  test('a single value in brackets', async () => {
    const { ask } = await withMessages()
    assert.equal((await ask('GET', '/app/a/msg?limit[]=1')).json.data.length, 1)
    assert.equal((await ask('GET', '/app/a/msg?limit[0]=1&limit[1]=2')).status, 422)
  })

  test('of a raw publish', async () => {
    const { ask } = await withMessages()
    const answer = await ask('POST', '/app/a/msg/raw?event_type=x&channels[]=one&channels=two,three', 'text', {
      'content-type': 'text/plain',
    })
    assert.deepEqual(answer.json.channels, ['one', 'two', 'three'])
  })
})

describe('an unknown parameter', () => {
  test('of any read with parameters is refused', async () => {
    const { ask, mine } = await openPopulated()
    const reads = routes.filter(({ method, query }) => method === 'GET' && query !== undefined)
    assert.ok(reads.length > 15)
    for (const { root = '/api/v1', path } of reads) {
      const answer = await ask('GET', `${root}${fill(path, mine)}?unheard_of=x`)
      assert.equal(answer.status, 422, `${path}: ${answer.text}`)
      // A required parameter is missing as well in some of them.
      const unknown = answer.json.detail.find(({ loc }: { loc: string[] }) => loc.join('.') === 'query.unheard_of')
      assert.match(unknown?.msg, /^is an unknown parameter/, `${path}: ${answer.text}`)
    }
  })

  test('is an endpoint_id where the path names the endpoint', async () => {
    const { ask, mine } = await openPopulated()
    for (const path of ['/app/:app/attempt/endpoint/:endpoint', '/app/:app/msg/:message/endpoint/:endpoint/attempt']) {
      const answer = await ask('GET', `/api/v1${fill(path, mine)}?endpoint_id=another`)
      assert.deepEqual([answer.status, answer.json.detail?.[0].loc], [422, ['query', 'endpoint_id']], path)
    }
    const filtered = await ask('GET', `/api/v1${fill('/app/:app/attempt/msg/:message', mine)}?endpoint_id=another`)
    assert.equal(filtered.status, 404, 'where it is a filter, it names an endpoint')
  })

  test('of a change is refused where the change has parameters, with the one that was meant, and of any deletion', async () => {
    const { ask } = await withMessages()
    const refused = await ask('POST', '/app?get_if_exist=true', { name: 'B', uid: 'b' })
    assert.deepEqual(
      [refused.status, refused.json.detail[0].msg],
      [422, 'is an unknown parameter; did you mean get_if_exists?'],
    )
    assert.equal((await ask('DELETE', '/app/a?dry_run=true')).status, 422)
    assert.equal((await ask('GET', '/app/a')).status, 200)
  })

  test('of another request is ignored and named, because SDKs of other versions may send it', async () => {
    const { ask } = await withMessages()
    const message = { eventType: 'a', payload: {}, source: 'billing' }
    const ignored = async (...request: Parameters<typeof ask>) => {
      const { status, headers } = await ask(...request)
      return [status, headers['sluice-ignored-fields']]
    }
    assert.deepEqual(await ignored('POST', '/app/a/msg?trace=1', message), [202, 'query.trace, body.source'])
    assert.deepEqual(await ignored('GET', '/app/a?_=1'), [200, 'query._'])
    assert.deepEqual(await ignored('PATCH', '/app/a?_=1', {}), [200, 'query._'])
    assert.deepEqual(await ignored('GET', '/app/a'), [200, undefined])
    const key = { 'idempotency-key': 'one' }
    const again = { ...message, source: 'x' }
    for (let i = 0; i < 2; i++) assert.deepEqual(await ignored('POST', '/app/a/msg', again, key), [202, 'body.source'])
  })
})
