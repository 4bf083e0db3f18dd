import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { eventually } from '../e2e/eventually.ts'
import { type Api, openApi } from './api.ts'
import { openSvixWorld } from './svix-world.ts'

const url = 'https://example.com/hook'
const message = { eventType: 'a', payload: {} }

/** An application `a` with the endpoint `e`. */
async function apiWithEndpoint(): Promise<Api> {
  const api = await openApi()
  await api.ask('POST', '/app', { name: 'A', uid: 'a' })
  await api.ask('POST', '/app/a/endpoint', { url, uid: 'e' })
  return api
}

describe('a request that Svix accepts is accepted', () => {
  test('with a long name, a long description and an unusual URL', async () => {
    const { ask } = await apiWithEndpoint()
    const name = 'n'.repeat(2000)
    assert.equal((await ask('POST', '/app', { name })).json.name, name)
    const description = 'd'.repeat(5000)
    assert.equal((await ask('PATCH', '/app/a/endpoint/e', { description })).json.description, description)
    for (const [given, kept] of [
      [`${url}#part`, `${url}#part`],
      [`${url}/a b?c=d e `, `${url}/a%20b?c=d%20e`],
      [`${url}?${'q'.repeat(3000)}`, `${url}?${'q'.repeat(3000)}`],
    ]) {
      const answer = await ask('PATCH', '/app/a/endpoint/e', { url: given })
      assert.deepEqual([answer.status, answer.json.url], [200, kept])
    }
  })

  test('and a URL with spaces and a fragment is delivered to, as browsers would', async (t) => {
    const { svix, receiverUrl, received } = await openSvixWorld(t)
    await svix.application.create({ name: 'A', uid: 'a' })
    await svix.endpoint.create('a', { url: `${receiverUrl}/a b?c=d e#part` })
    await svix.message.create('a', message)
    const arrival = await eventually('the message', () => received[0])
    assert.equal(arrival.path, '/a%20b?c=d%20e')
  })

  test('with a span that ends before it begins: nothing happened in it, and nothing is sent again', async () => {
    const { ask } = await apiWithEndpoint()
    const at = (ms: number) => new Date(Date.now() + ms).toISOString()
    const [before, later] = [at(-60_000), at(3_600_000)]
    const stats = await ask('GET', `/app/a/endpoint/e/stats?since=${at(0)}&until=${before}`)
    assert.deepEqual([stats.status, stats.json.success, stats.json.fail], [200, 0, 0])
    for (const span of [{ since: later }, { since: at(0), until: before }]) {
      const { status, json } = await ask('POST', '/app/a/endpoint/e/recover', span)
      assert.deepEqual([status, json.task], [202, 'endpoint.recover'])
    }
    assert.equal((await ask('POST', '/app/a/endpoint/e/replay-missing', { since: later })).status, 422)
  })

  test('with an application without a uid within a publish or a link: it gets that of the path', async () => {
    const { ask } = await openApi()
    const application = { name: 'New' }
    assert.equal((await ask('POST', '/app/one/msg', { ...message, application })).status, 202)
    assert.equal((await ask('POST', '/api/v1/auth/app-portal-access/two', { application })).status, 200)
    const uids = [await ask('GET', '/app/one'), await ask('GET', '/app/two')].map(({ json }) => json.uid)
    assert.deepEqual(uids, ['one', 'two'])
  })

  test('and its reference has a type that tools compare as a whole', async () => {
    const { ask } = await openApi()
    assert.equal((await ask('GET', '/api/v1/openapi.json')).headers['content-type'], 'application/json')
  })
})

describe('a request that Svix accepts is refused where it could not do what it says', () => {
  test('each of docs/svix.md', async () => {
    const { ask } = await apiWithEndpoint()
    const refusals = [
      await ask('POST', '/app/a/endpoint', { url: 'https://example.com:0/' }),
      await ask('POST', '/app/a/endpoint', { url, headers: { host: 'internal.example.com' } }),
      await ask('POST', '/api/v1/event-type', { name: 'x', description: '', schemas: true }),
      await ask('PUT', '/api/v1/event-type/odd%20name', { description: '' }),
      await ask('PUT', '/app/app_unknown', { name: 'A' }),
    ]
    assert.deepEqual(
      refusals.map(({ status }) => status),
      [422, 422, 422, 422, 404],
    )
  })

  test('a name on more than one line, which would forge a line of a table or a log', async () => {
    const { ask } = await apiWithEndpoint()
    for (const name of ['a\nb', 'a\u001b[2Jb', 'a\u009bb']) {
      const refused = [
        await ask('POST', '/app', { name }),
        await ask('PATCH', '/app/a', { name }),
        await ask('POST', '/api/v1/api-key', { name, scopes: ['read'] }),
        await ask('POST', '/app/a/source', { provider: 'none', name, settings: { acceptUnsigned: true } }),
      ]
      for (const { status, json } of refused) {
        assert.equal(status, 422)
        assert.match(json.detail[0].msg, /must not contain control characters/)
      }
    }
  })

  test('the attempts at an unknown endpoint: an empty list would hide the slip', async () => {
    const { ask } = await apiWithEndpoint()
    const { id } = (await ask('POST', '/app/a/msg', message)).json
    const statusOf = async (path: string) => (await ask('GET', path)).status
    assert.equal(await statusOf(`/app/a/attempt/msg/${id}?endpoint_id=e`), 200)
    assert.equal(await statusOf(`/app/a/attempt/msg/${id}?endpoint_id=unknown`), 404)
    assert.equal(await statusOf('/app/a/attempt/endpoint/unknown'), 404)
  })

  test('the eleventh rotation within the grace periods is a conflict', async () => {
    const { ask } = await apiWithEndpoint()
    const rotate = async () => (await ask('POST', '/app/a/endpoint/e/secret/rotate', {})).status
    for (let i = 0; i < 10; i++) assert.equal(await rotate(), 200)
    assert.equal(await rotate(), 409)
  })

  test('a portal token sends examples, unless its capabilities leave that out', async () => {
    const { ask } = await apiWithEndpoint()
    const send = async (access: object) => {
      const { token } = (await ask('POST', '/api/v1/auth/app-portal-access/a', access)).json
      const headers = { authorization: `Bearer ${token}` }
      return (await ask('POST', '/app/a/endpoint/e/send-example', { eventType: 'svix.ping' }, headers)).status
    }
    assert.equal(await send({}), 200)
    assert.equal(await send({ capabilities: ['ViewBase', 'ViewEndpointSecret'] }), 403)
  })
})
