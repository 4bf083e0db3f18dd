import assert from 'node:assert/strict'
import { before, describe, test } from 'node:test'
import { type Api, openApi } from './api.ts'

const prefix = '/api/v1'

describe('a key of one application', () => {
  let api: Api
  let as: Record<string, string>

  before(async () => {
    api = await openApi()
    for (const uid of ['mine', 'theirs']) await api.ask('POST', '/app', { name: uid, uid })
    const { token } = (await api.ask('POST', `${prefix}/api-key`, { name: 'k', scopes: ['admin'], app: 'mine' })).json
    as = { authorization: `Bearer ${token}` }
  })

  for (const method of ['PATCH', 'PUT']) {
    test(`learns by ${method} of its uid nothing about other applications`, async () => {
      const answers = []
      for (const uid of ['theirs', 'free']) answers.push(await api.ask(method, '/app/mine', { name: 'x', uid }, as))
      for (const answer of answers) assert.deepEqual([answer.status, answer.json.code], [403, 'insufficient_access'])
      assert.deepEqual(answers[0]?.json, answers[1]?.json)
      const same = await api.ask(method, '/app/mine', { name: 'renamed', uid: 'mine' }, as)
      assert.deepEqual([same.status, same.json.name], [200, 'renamed'])
    })
  }

  test('gets the same answer for an application that exists as for one that does not', async () => {
    for (const [method, path, body] of [
      ['GET', '', undefined],
      ['PUT', '', { name: 'x' }],
      ['DELETE', '', undefined],
      ['POST', '/msg', { eventType: 'a', payload: {} }],
      ['POST', '/endpoint', { url: 'https://example.com/' }],
    ] as const) {
      const answers = []
      for (const uid of ['theirs', 'absent']) {
        const { status, json } = await api.ask(method, `/app/${uid}${path}`, body, as)
        // The detail echoes the name that was asked for.
        answers.push({ status, ...json, detail: json.detail.replace(uid, ''), instance: '' })
      }
      assert.equal(answers[0]?.status, 404)
      assert.deepEqual(answers[0], answers[1])
    }
  })

  test('may use a uid for its endpoint that another application uses', async () => {
    const endpoint = { url: 'https://example.com/', uid: 'ep' }
    await api.ask('POST', '/app/theirs/endpoint', endpoint)
    assert.equal((await api.ask('POST', '/app/mine/endpoint', endpoint, as)).status, 201)
  })
})

describe('a portal token', () => {
  let api: Api

  before(async () => {
    api = await openApi()
    await api.ask('POST', '/app', { name: 'mine', uid: 'mine' })
  })

  async function made() {
    const key = (await api.ask('POST', `${prefix}/api-key`, { name: 'k', scopes: ['admin'] })).json
    const as = { authorization: `Bearer ${key.token}` }
    const { token } = (await api.ask('POST', `${prefix}/auth/app-portal-access/mine`, {}, as)).json
    return { key: key.id as string, token: token as string }
  }
  const use = async (token: string) =>
    (await api.ask('GET', '/app/mine', undefined, { authorization: `Bearer ${token}` })).status

  test('ends when the key that made it is revoked, and no other token does', async () => {
    const [one, other] = [await made(), await made()]
    assert.deepEqual([await use(one.token), await use(other.token)], [200, 200])
    await api.ask('DELETE', `${prefix}/api-key/${one.key}`)
    assert.deepEqual([await use(one.token), await use(other.token)], [401, 200])
  })

  test('ends with expire-all whatever key made it', async () => {
    const [one, other] = [await made(), await made()]
    const fixed = (await api.ask('POST', `${prefix}/auth/app-portal-access/mine`, {})).json.token
    assert.deepEqual([await use(one.token), await use(other.token), await use(fixed)], [200, 200, 200])
    await api.ask('POST', `${prefix}/auth/app/mine/expire-all`, {})
    assert.deepEqual([await use(one.token), await use(other.token), await use(fixed)], [401, 401, 401])
  })
})
