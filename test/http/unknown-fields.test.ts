import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { configOf } from '../../src/runtime/config.ts'
import { type Api, openApi } from './api.ts'

const message = { eventType: 'a', payload: {}, source: 'billing' }
const warning = 'body.source is unknown, and was ignored.'
const refused = { 'sluice-unknown-fields': 'refused' }

async function apiWithApplication(overrides: Parameters<typeof openApi>[0] = {}): Promise<Api> {
  const api = await openApi(overrides)
  await api.ask('POST', '/app', { name: 'A', uid: 'a' })
  return api
}

describe('an unknown field of a publish', () => {
  test('is named in the body of the answer, for programs that look at no header', async () => {
    const { ask } = await apiWithApplication()
    const one = await ask('POST', '/app/a/msg?trace=1', message)
    assert.deepEqual([one.status, one.json.warnings], [202, ['query.trace is unknown, and was ignored.', warning]])
    const batch = await ask('POST', '/app/a/msg/batch', { messages: [message, { ...message, colour: 'red' }] })
    assert.deepEqual(batch.json.warnings, [
      'body.messages.source is unknown, and was ignored.',
      'body.messages.colour is unknown, and was ignored.',
    ])
    const raw = await ask('POST', '/app/a/msg/raw?event_type=a&trace=1', 'x', { 'content-type': 'text/plain' })
    assert.deepEqual(raw.json.warnings, ['query.trace is unknown, and was ignored.'])
    const clean = await ask('POST', '/app/a/msg', { eventType: 'a', payload: {} })
    assert.equal('warnings' in clean.json, false)
    assert.equal('warnings' in (await ask('GET', `/app/a/msg/${one.json.id}`)).json, false)
  })

  test('is counted, when there are more than the answer names', async () => {
    const { ask } = await apiWithApplication()
    const many = Object.fromEntries(Array.from({ length: 12 }, (_, i) => [`unheard${i}of`, 1]))
    const { warnings } = (await ask('POST', '/app/a/msg', { eventType: 'a', payload: {}, ...many })).json
    assert.deepEqual([warnings.length, warnings.at(-1)], [11, 'Other fields are unknown, and were ignored.'])
  })

  test('is refused where the request asks for it, and nothing is stored', async () => {
    const { ask, store } = await apiWithApplication()
    for (const [path, body] of [
      ['/app/a/msg', message],
      ['/app/a/msg/batch', { messages: [message] }],
      ['/app/a/msg?trace=1', { eventType: 'a', payload: {} }],
      ['/app/a/msg/precheck/active', message],
    ] as const) {
      const { status, json } = await ask('POST', path, body, refused)
      assert.deepEqual([status, json.detail[0].msg, json.detail[0].type], [422, 'is unknown', 'unknown'], path)
    }
    assert.equal((await store.counts()).messages, 0)
    assert.equal((await ask('POST', '/app/a/msg', { eventType: 'a', payload: {} }, refused)).status, 202)
    const slip = await ask('POST', '/app/a/msg', message, { 'sluice-unknown-fields': 'refuse' })
    assert.deepEqual([slip.status, slip.json.detail[0].msg], [422, 'must be named or refused'])
  })

  test('is refused by the setting unknownFields, whatever the request asks for', async () => {
    const { ask } = await apiWithApplication({ limits: configOf({ unknownFields: 'refused' }) })
    assert.equal((await ask('POST', '/app/a/msg', message)).status, 422)
    assert.equal((await ask('POST', '/app/a/msg', message, { 'sluice-unknown-fields': 'named' })).status, 422)
    assert.equal((await ask('POST', '/app/a/msg', { eventType: 'a', payload: {} })).status, 202)
  })
})
