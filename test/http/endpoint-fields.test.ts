import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Form } from '../../src/domain/field.ts'
import { fieldEntries, type ObjectName } from '../../src/features/endpoints/noun.ts'
import { openPostgresHarness } from '../store/postgres-harness.ts'
import { type Api, openApi } from './api.ts'

const url = 'http://127.0.0.1:9/'
const path = '/app/acme/endpoint/one'

/** Values of the fields that are objects, with all that an answer shows. */
const objects: Readonly<Record<ObjectName, unknown>> = {
  retry: {
    waits: { kind: 'list', ms: [1000, 2000] },
    jitter: 'none',
    jitterMs: null,
    maxAgeMs: 60_000,
    retryAfter: 'later',
  },
  circuit: 'off',
  coalesce: { windowMs: 5000, key: '/id' },
  shape: { keep: null, drop: ['/email'], rename: {}, pseudonymize: [], pseudonymForm: 'endpoint' },
  // Answers show these in another form; test/http/endpoint-credentials.test.ts sets them.
  auth: null,
  clientCertificate: null,
}

/** Values of the fields whose kind does not say enough. */
const particular: Readonly<Record<string, unknown>> = {
  ...objects,
  url: 'http://127.0.0.1:9/other',
  uid: 'two',
  filter: 'payload.views > 1000',
  region: 'eu',
}

/** A value of the kind that is not the fallback. */
function anyValue(form: Form, fallback: unknown): unknown {
  switch (form.is) {
    case 'integer':
    case 'duration':
      return form.min + 7
    case 'choice':
      return form.words.find((word) => word !== fallback)
    case 'boolean':
      return fallback !== true
    case 'list':
      return ['one.two']
    case 'labels':
    case 'headers':
      return { 'x-team': 'video' }
    default:
      return 'text'
  }
}

async function openWithEndpoint(overrides?: Parameters<typeof openApi>[0]): Promise<Api> {
  const api = await openApi(overrides)
  await api.ask('POST', '/app', { name: 'Acme', uid: 'acme' })
  await api.ask('POST', '/app/acme/region', { name: 'eu' })
  assert.equal((await api.ask('POST', '/app/acme/endpoint', { url, uid: 'one' })).status, 201)
  return api
}

/** Sets each field alone, reads it back, and goes back to the fallback by null or by replacing the endpoint. */
async function setEachField(api: Api): Promise<void> {
  for (const [name, { kind, fallback, noNull, required, stays, hidden, alias }] of fieldEntries) {
    if (hidden === true) continue
    const value = particular[name] ?? anyValue(kind, fallback)
    const changed = await api.ask('PATCH', path, { [alias ?? name]: value })
    assert.equal(changed.status, 200, `${name}: ${changed.text}`)
    const ref = name === 'uid' ? '/app/acme/endpoint/two' : path
    const read = (await api.ask('GET', ref)).json
    assert.deepEqual(read[name], value, name)
    if (alias !== undefined) assert.deepEqual(read[alias], value, alias)
    const replaced = (await api.ask('PUT', ref, { url })).json
    assert.deepEqual(replaced[name], required ? url : stays ? value : fallback, `${name} when it is replaced`)
    await api.ask('PATCH', ref, { [name]: value })
    const unset = await api.ask('PATCH', ref, { [name]: null })
    assert.equal(unset.status, 200, `${name}: ${unset.text}`)
    assert.deepEqual(unset.json[name], noNull === true ? value : fallback, `${name} by null`)
    // Other fields may exclude this one.
    await api.ask('PUT', name === 'uid' ? `/app/acme/endpoint/${read.id}` : path, { url, uid: 'one' })
  }
}

describe('every field of an endpoint', () => {
  test('is set, read, replaced and unset on SQLite', async () => {
    await setEachField(await openWithEndpoint())
  })

  test('is set, read, replaced and unset on Postgres', async (t) => {
    const { store, close } = await openPostgresHarness()
    t.after(close)
    await setEachField(await openWithEndpoint({ store }))
  })

  test('refuses values beyond its bounds, by its own name', async () => {
    const api = await openWithEndpoint()
    for (const [name, { kind }] of fieldEntries) {
      if (kind.is !== 'integer' && kind.is !== 'duration') continue
      for (const value of [kind.min - 1, kind.max + 1]) {
        const { status, json } = await api.ask('PATCH', path, { [name]: value })
        assert.deepEqual([status, json.detail[0].loc], [422, ['body', name]])
      }
    }
  })
})
