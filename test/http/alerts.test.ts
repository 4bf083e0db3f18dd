import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openApi } from './api.ts'

describe('alerts', () => {
  test('a test is announced and listed, and another one replaces it', async () => {
    const { ask, store } = await openApi()
    const { status, json } = await ask('POST', '/api/v1/alert/test')
    assert.deepEqual([status, json.rule, json.phase, json.subject], [202, 'test', 'firing', null])
    await ask('POST', '/api/v1/alert/test')
    const listed = (await ask('GET', '/api/v1/alert')).json
    assert.deepEqual(
      listed.alerts.map(({ rule, isAnnounced }: { rule: string; isAnnounced: boolean }) => [rule, isAnnounced]),
      [['test', true]],
    )
    assert.deepEqual(
      (await store.listNotices(10)).map(({ type, data }) => [type, data.rule]),
      [
        ['alert.firing', 'test'],
        ['alert.firing', 'test'],
      ],
    )
  })

  test('a silence is made, listed and ended, by an admin key', async () => {
    const { ask } = await openApi()
    const { status, json } = await ask('POST', '/api/v1/alert/silence', {
      rule: 'waiting',
      seconds: 600,
      startsInSeconds: 60,
      reason: 'a move',
    })
    assert.equal(status, 201)
    assert.deepEqual([json.rule, json.subject, json.reason], ['waiting', null, 'a move'])
    assert.equal(Date.parse(json.until) - Date.parse(json.from), 600_000)
    assert.deepEqual((await ask('GET', '/api/v1/alert')).json.silences, [json])
    assert.equal((await ask('DELETE', `/api/v1/alert/silence/${json.id}`)).status, 204)
    assert.equal((await ask('DELETE', `/api/v1/alert/silence/${json.id}`)).status, 404)
    assert.deepEqual((await ask('GET', '/api/v1/alert')).json.silences, [])
    const { json: key } = await ask('POST', '/api/v1/api-key', { name: 'k', scopes: ['read'] })
    const headers = { authorization: `Bearer ${key.token}` }
    assert.equal((await ask('GET', '/api/v1/alert', undefined, headers)).status, 200)
    assert.equal((await ask('POST', '/api/v1/alert/silence', { seconds: 60 }, headers)).status, 403)
    assert.equal((await ask('POST', '/api/v1/alert/silence', { rule: 'waiting' })).status, 422)
  })
})
