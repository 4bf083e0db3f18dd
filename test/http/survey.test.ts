import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { openApi } from './api.ts'

async function open() {
  const api = await openApi()
  const get = async (path: string) => (await api.ask('GET', `/api/v1${path}`)).json
  const acme = (await api.ask('POST', '/app', { name: 'Acme Video', uid: 'acme' })).json
  const other = (await api.ask('POST', '/app', { name: 'Other' })).json
  const endpoint = async (app: string, body: object) => (await api.ask('POST', `/app/${app}/endpoint`, body)).json
  return { ...api, get, acme, other, endpoint }
}

describe('endpoints of all applications', () => {
  test('are listed newest first in pages, with their application, state and reason', async () => {
    const { get, acme, other, endpoint } = await open()
    const made: { id: string }[] = []
    for (const app of ['acme', other.id, 'acme'])
      made.push(await endpoint(app, { url: `https://example.com/${made.length}` }))
    const first = await get('/endpoint?limit=2')
    assert.deepEqual(
      first.data.map(({ id, appId }: { id: string; appId: string }) => [id, appId]),
      [
        [made[2]?.id, acme.id],
        [made[1]?.id, other.id],
      ],
    )
    assert.equal(first.done, false)
    const [{ state, reason, detail, appUid, appName, waiting }] = first.data
    assert.deepEqual([state, reason, appUid, appName, waiting.total], ['active', 'no_worker', 'acme', 'Acme Video', 0])
    assert.match(detail, /^No worker is alive/)
    const second = await get(`/endpoint?limit=2&iterator=${first.iterator}`)
    assert.deepEqual([second.data.map(({ id }: { id: string }) => id), second.done], [[made[0]?.id], true])
    const ofOne = await get('/endpoint?app=acme')
    assert.deepEqual(
      ofOne.data.map(({ id }: { id: string }) => id),
      [made[2]?.id, made[0]?.id],
    )
  })

  test('are searched by URL, uid, description and id, whatever the case', async () => {
    const { get, endpoint } = await open()
    const wanted = await endpoint('acme', {
      url: 'https://hooks.example.com/Video',
      uid: 'blue-van',
      description: 'For Bob',
    })
    await endpoint('acme', { url: 'https://example.org/' })
    // Each but the id has a character that no id has: three letters are in the other endpoint's id once in a thousand runs.
    for (const text of ['HOOKS.example', '/video', 'lue-v', 'for bob', wanted.id]) {
      const { data, done } = await get(`/endpoint?search=${encodeURIComponent(text)}`)
      assert.deepEqual([data.map(({ id }: { id: string }) => id), done], [[wanted.id], true], text)
    }
    assert.deepEqual((await get('/endpoint?search=nowhere')).data, [])
  })

  test('are sorted by waiting deliveries and by the age of the oldest, over all applications', async () => {
    const { ask, get, other, endpoint } = await open()
    const few = await endpoint('acme', { url: 'https://example.com/few' })
    await ask('POST', `/app/acme/endpoint/${few.id}/pause`)
    await ask('POST', '/app/acme/msg', { eventType: 'a', payload: {} })
    const many = await endpoint(other.id, { url: 'https://example.com/many' })
    await ask('POST', `/app/${other.id}/endpoint/${many.id}/pause`)
    for (let i = 0; i < 3; i++) await ask('POST', `/app/${other.id}/msg`, { eventType: 'a', payload: {} })
    await endpoint('acme', { url: 'https://example.com/idle', eventTypes: ['none'] })
    const idsBy = async (sort: string) => (await get(`/endpoint?sort=${sort}`)).data.map(({ id }: { id: string }) => id)
    assert.deepEqual(await idsBy('waiting'), [many.id, few.id])
    assert.deepEqual(await idsBy('oldest'), [few.id, many.id])
    assert.deepEqual(await idsBy('failing'), [])
  })
})

describe('finding', () => {
  test('an id leads to its thing and the application of that', async () => {
    const { ask, get, acme, endpoint } = await open()
    const made = await endpoint('acme', { url: 'https://example.com/a' })
    const message = (await ask('POST', '/app/acme/msg', { eventType: 'video.up', eventId: 'order-7', payload: {} }))
      .json
    const schedule = (await ask('POST', '/app/acme/schedule', { cron: '0 9 * * *', eventType: 'tick', payload: {} }))
      .json
    const expected = {
      [acme.id]: ['application', acme.id, acme.id, 'Acme Video'],
      [made.id]: ['endpoint', made.id, acme.id, 'https://example.com/a'],
      [message.id]: ['message', message.id, acme.id, 'video.up'],
      [schedule.id]: ['schedule', schedule.id, acme.id, '0 9 * * *'],
      'order-7': ['message', message.id, acme.id, 'video.up'],
      acme: ['application', acme.id, acme.id, 'Acme Video'],
      'https://example.com/a': ['endpoint', made.id, acme.id, 'https://example.com/a'],
    }
    for (const [text, found] of Object.entries(expected)) {
      const { data } = await get(`/find?text=${encodeURIComponent(text)}`)
      const [{ kind, id, appId, name }] = data
      assert.deepEqual([kind, id, appId, name], found, text)
    }
  })

  test('a text that names nothing finds nothing, however it is written', async () => {
    const { ask, get } = await open()
    for (const text of ['nothing', `msg_${'0'.repeat(27)}`, `ep_${'z'.repeat(27)}`, '%_\\', "'; --", '\u0000']) {
      assert.deepEqual((await get(`/find?text=${encodeURIComponent(text)}`)).data, [], text)
    }
    assert.equal((await ask('GET', '/api/v1/find?text=')).status, 422)
  })
})

test('the schedules of all applications are listed without their messages', async () => {
  const { ask, get, acme, other } = await open()
  for (const app of [acme, other]) {
    await ask('POST', `/app/${app.id}/schedule`, { cron: '0 9 * * *', eventType: 'tick', payload: { big: 'x' } })
  }
  const { data } = await get('/schedule')
  assert.deepEqual(
    data.map(({ appId }: { appId: string }) => appId),
    [other.id, acme.id],
  )
  assert.equal(data[0].nextRuns.length, 1)
  assert.equal('payload' in data[0], false)
})

test('the next runs of an expression are shown while it is written, or why it is none', async () => {
  const { ask, get } = await open()
  const { nextRuns } = await get(`/schedule/preview?cron=${encodeURIComponent('30 6 * * *')}&timezone=UTC`)
  assert.equal(nextRuns.length, 10)
  for (const at of nextRuns) assert.match(at, /T06:30:00/)
  const refused = await ask('GET', '/api/v1/schedule/preview?cron=nonsense')
  assert.equal(refused.status, 422)
  assert.deepEqual(refused.json.detail[0].loc, ['query', 'cron'])
})

test('settings are shown with their origin, and secrets are masked', async () => {
  const { get } = await open()
  const { data } = await get('/setting')
  const named = new Map(data.map((each: { name: string }) => [each.name, each]))
  assert.deepEqual(named.get('inFlight'), {
    name: 'inFlight',
    value: '1024',
    origin: 'option',
    flag: '--in-flight',
    variable: 'SLUICE_IN_FLIGHT',
    help: 'concurrent attempts of this process',
  })
})
