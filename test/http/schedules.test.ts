import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Schedule } from '../../src/features/schedules/noun.ts'
import { openApi } from './api.ts'

const plain = { cron: '30 7 * * *', timezone: 'Europe/Berlin', eventType: 'report.due' }

async function openWithApp() {
  const api = await openApi()
  await api.ask('POST', '/app', { name: 'Acme', uid: 'acme' })
  await api.ask('POST', '/app', { name: 'Other', uid: 'other' })
  return api
}

test('a schedule keeps its payload byte for byte, and its answer has the next runs', async () => {
  const { ask, store } = await openWithApp()
  const head = JSON.stringify({ ...plain, uid: 'daily', channels: ['c'], tags: ['t'], metadata: { team: 'x' } })
  const made = await ask(
    'POST',
    '/app/acme/schedule?next_runs=3',
    `${head.slice(0, -1)}, "payload": {"total":  1.0, "total2":1e2}}`,
  )
  assert.equal(made.status, 201)
  assert.match(made.json.id, /^sch_/)
  assert.match(made.text, /"payload":\{"total": {2}1\.0, "total2":1e2\}/)
  assert.equal(made.json.nextRuns.length, 3)
  for (const at of made.json.nextRuns) assert.match(at, /T0[56]:30:00\.000Z$/)
  const { missed, missedLimit, paused, failures, lastRuns, timezone } = made.json
  assert.deepEqual(
    { missed, missedLimit, paused, failures, lastRuns, timezone },
    { missed: 'once', missedLimit: 10, paused: false, failures: 0, lastRuns: [], timezone: 'Europe/Berlin' },
  )
  const got = await ask('GET', '/app/acme/schedule/daily')
  assert.deepEqual([got.status, got.json.nextRuns.length, got.json.id], [200, 5, made.json.id])
  const app = await store.findApplication('acme')
  const kept = await store.findSchedule(app?.key as number, 'daily')
  assert.equal(Buffer.from(kept?.body ?? []).toString(), '{"total":  1.0, "total2":1e2}')
  assert.equal((await ask('GET', `/app/other/schedule/${made.json.id}`)).status, 404)
  assert.equal((await ask('POST', '/app/acme/schedule', { ...plain, uid: 'daily', payload: {} })).status, 409)
})

test('a body that is no schedule is refused with its problem', async () => {
  const { ask } = await openWithApp()
  const refusal = async (change: object) => {
    const { status, json } = await ask('POST', '/app/acme/schedule', { ...plain, payload: {}, ...change })
    assert.equal(status, 422, JSON.stringify(json))
    return json.detail.map((error: { loc: string[]; msg: string }) => `${error.loc.join('.')} ${error.msg}`).join('; ')
  }
  assert.match(await refusal({ cron: '0 0 30 2 *' }), /body\.cron never comes/)
  assert.match(await refusal({ cron: '* * * * * * *' }), /body\.cron must have five fields/)
  assert.match(await refusal({ cron: '@after 1s' }), /body\.cron must be @after with 5s to 30d/)
  assert.match(await refusal({ headers: { 'webhook-id': 'x' } }), /body\.headers\.webhook-id is a reserved header/)
  assert.match(await refusal({ contentType: 'text/plain\r\nx: y' }), /body\.contentType is not a content type/)
  assert.match(await refusal({ bodyBase64: 'AAAA' }), /body\.bodyBase64 cannot be combined with payload/)
  assert.match(await refusal({ payload: undefined, bodyBase64: '%%' }), /body\.bodyBase64 is not base64/)
  assert.match(await refusal({ cron: '@hourly is it' }), /body\.cron must have five fields/)
  assert.match(
    await refusal({ cron: '61 * * * *' }),
    /body\.cron is not a cron expression: Invalid value for minute: 61/,
  )
  assert.match(await refusal({ cron: '? * * * * ' }), /body\.cron must not contain a question mark/)
  assert.match(await refusal({ timezone: 'Mars/Base' }), /body\.timezone is not an IANA time zone/)
  assert.match(await refusal({ timezone: '+02:00' }), /body\.timezone is not an IANA time zone/)
  assert.match(await refusal({ payload: 1 }), /body\.payload must be an object, a list or a text/)
  assert.match(await refusal({ payload: undefined }), /body\.payload is required/)
  assert.match(await refusal({ missed: 'twice' }), /body\.missed/)
  assert.match(await refusal({ missedLimit: 101 }), /body\.missedLimit/)
  assert.match(await refusal({ metadata: { long: 'x'.repeat(5000) } }), /body\.metadata/)
  assert.equal((await ask('POST', '/app/nobody/schedule', { ...plain, payload: {} })).status, 404)
  assert.equal((await ask('GET', '/app/acme/schedule/none')).status, 404)
  assert.equal((await ask('GET', '/app/acme/schedule?next_runs=11')).status, 422)
})

test('a schedule is changed, replaced, made by its name and deleted', async () => {
  const { ask } = await openWithApp()
  const put = await ask('PUT', '/app/acme/schedule/nightly', {
    ...plain,
    payload: { n: 1 },
    missed: 'all',
    missedLimit: 2,
  })
  assert.deepEqual([put.status, put.json.uid, put.json.missed], [201, 'nightly', 'all'])
  const patched = await ask('PATCH', '/app/acme/schedule/nightly', { eventType: 'other', tags: ['x'] })
  assert.deepEqual([patched.status, patched.json.eventType, patched.json.cron], [200, 'other', plain.cron])
  assert.deepEqual(patched.json.payload, { n: 1 })
  assert.deepEqual((await ask('PATCH', '/app/acme/schedule/nightly', { payload: { n: 2 } })).json.payload, { n: 2 })
  assert.equal((await ask('PATCH', '/app/acme/schedule/nightly', { timezone: 'Nowhere' })).status, 422)
  assert.equal((await ask('PATCH', '/app/acme/schedule/nightly', { cron: '0 0 31 4 *' })).status, 422)
  await ask('POST', '/app/acme/schedule/nightly/pause')
  const replaced = await ask('PUT', '/app/acme/schedule/nightly', { ...plain, payload: {} })
  const { status, json } = replaced
  assert.deepEqual([status, json.missed, json.tags, json.uid, json.paused], [200, 'once', null, 'nightly', true])
  assert.equal((await ask('PUT', '/app/acme/schedule/sch_nothere', { ...plain, payload: {} })).status, 404)
  assert.equal((await ask('DELETE', '/app/acme/schedule/nightly')).status, 204)
  assert.equal((await ask('DELETE', '/app/acme/schedule/nightly')).status, 404)
})

test('a schedule takes headers and any bytes with a content type, and its messages have them', async () => {
  const { ask, store } = await openWithApp()
  const bytes = Buffer.from([0xff, 0x00, 0x0a])
  const made = await ask('POST', '/app/acme/schedule', {
    ...plain,
    uid: 'raw',
    bodyBase64: bytes.toString('base64'),
    contentType: 'image/x-odd',
    headers: { 'X-Shop': 'berlin', authorization: 'Bearer open sesame' },
  })
  assert.equal(made.status, 201, made.text)
  const { contentType, headers, sensitiveHeaders, payload } = made.json
  assert.equal(contentType, 'image/x-odd')
  assert.deepEqual(payload, { contentType: 'image/x-odd', base64: bytes.toString('base64') })
  assert.equal(Object.values(headers).join(), 'berlin')
  assert.deepEqual(sensitiveHeaders, ['authorization'])
  assert.doesNotMatch(made.text, /sesame/)

  const ran = await ask('POST', '/app/acme/schedule/raw/run')
  const app = (await store.findApplication('acme'))?.key as number
  const message = await store.findMessage(app, ran.json.msgId)
  assert.deepEqual([message?.contentType, Buffer.from(message?.body ?? [])], ['image/x-odd', bytes])
  assert.equal(message?.headers?.authorization, 'Bearer open sesame')

  const patched = await ask('PATCH', '/app/acme/schedule/raw', { tags: ['t'] })
  assert.deepEqual([patched.json.contentType, patched.json.sensitiveHeaders], ['image/x-odd', ['authorization']])
  const json = await ask('PATCH', '/app/acme/schedule/raw', { payload: { n: 1 }, headers: null })
  assert.deepEqual([json.json.contentType, json.json.payload], ['application/json', { n: 1 }])
  assert.deepEqual([json.json.headers, json.json.sensitiveHeaders], [{}, []])
  const renamed = await ask('PATCH', '/app/acme/schedule/raw', { contentType: 'application/cloudevents+json' })
  assert.deepEqual([renamed.json.contentType, renamed.json.payload], ['application/cloudevents+json', { n: 1 }])
  const audit = (await ask('GET', '/api/v1/audit?limit=50')).text
  assert.match(audit, /x-odd/)
  assert.doesNotMatch(audit, /sesame|\/wAK/, 'neither secrets nor bodies are in the audit log')
})

test('a change sets only the fields that a schedule has for its callers', async () => {
  const { ask, store } = await openWithApp()
  const made = await ask('POST', '/app/acme/schedule', { ...plain, uid: 'one', payload: {} })
  const app = (await store.findApplication('acme'))?.key as number
  const before = await store.findSchedule(app, 'one')
  const own = {
    key: 1,
    app: 1,
    id: 'sch_x',
    nextAt: 1,
    reachedAt: 1,
    failures: 9,
    runs: [],
    revision: 70,
    createdAt: 1,
  }
  await ask('PATCH', '/app/acme/schedule/one', { ...own, tags: ['t'] })
  const after = await store.findSchedule(app, made.json.id)
  assert.deepEqual([after?.nextAt, after?.failures, after?.createdAt], [before?.nextAt, 0, before?.createdAt])
})

test('a schedule with @after shows its next run only when it is known', async () => {
  const { ask } = await openWithApp()
  const made = await ask('POST', '/app/acme/schedule', { ...plain, cron: '@after 5m', uid: 'one', payload: {} })
  assert.equal(made.status, 201, made.text)
  assert.equal(made.json.nextRuns.length, 1)
  assert.equal((await ask('GET', '/app/acme/schedule/one?next_runs=0')).json.nextRuns.length, 0)
})

test('schedules are listed a page at a time', async () => {
  const { ask } = await openWithApp()
  for (const uid of ['a', 'b', 'c']) await ask('POST', '/app/acme/schedule', { ...plain, uid, payload: { uid } })
  const first = await ask('GET', '/app/acme/schedule?limit=2&order=ascending')
  assert.deepEqual([first.json.data.map((s: { uid: string }) => s.uid), first.json.done], [['a', 'b'], false])
  assert.equal(first.json.data[0].nextRuns.length, 1)
  const rest = await ask('GET', `/app/acme/schedule?order=ascending&iterator=${first.json.iterator}`)
  assert.deepEqual([rest.json.data.map((s: { uid: string }) => s.uid), rest.json.done], [['c'], true])
  assert.deepEqual((await ask('GET', '/app/other/schedule')).json.data, [])
})

test('a paused schedule shows no runs to come; running it by hand publishes its message and is remembered', async () => {
  const { ask } = await openWithApp()
  await ask('POST', '/app/acme/endpoint', { url: 'https://example.com/' })
  // A dedupe window goes by the content, and every run has the same.
  await ask('PATCH', '/app/acme', { dedupeSeconds: 60 })
  await ask('POST', '/app/acme/schedule', { ...plain, uid: 'daily', payload: { total: 1 } })
  const paused = await ask('POST', '/app/acme/schedule/daily/pause')
  assert.deepEqual([paused.json.paused, paused.json.nextRuns], [true, []])
  const ran = await ask('POST', '/app/acme/schedule/daily/run')
  assert.equal(ran.status, 202)
  const again = await ask('POST', '/app/acme/schedule/daily/run')
  assert.notEqual(again.json.msgId, ran.json.msgId)
  const message = await ask('GET', `/app/acme/msg/${ran.json.msgId}`)
  assert.deepEqual([message.json.eventType, message.json.payload], ['report.due', { total: 1 }])
  const { lastRuns } = (await ask('GET', '/app/acme/schedule/daily')).json
  assert.deepEqual(
    lastRuns.map((run: { msgId: string; state: string; trigger: string }) => [run.msgId, run.state, run.trigger]),
    [again, ran].map(({ json }) => [json.msgId, 'published', 'manual']),
  )
  const resumed = await ask('POST', '/app/acme/schedule/daily/resume')
  assert.deepEqual([resumed.json.paused, resumed.json.nextRuns.length], [false, 5])
})

test('making a schedule twice under one Idempotency-Key makes one', async () => {
  const { ask } = await openWithApp()
  const make = () => ask('POST', '/app/acme/schedule', { ...plain, payload: {} }, { 'idempotency-key': 'k' })
  const [first, second] = [await make(), await make()]
  assert.deepEqual([first.status, second.status, second.json.id], [201, 201, first.json.id])
  assert.equal((await ask('GET', '/app/acme/schedule')).json.data.length, 1)
})

test('deleting an application deletes its schedules', async () => {
  const { ask, store } = await openWithApp()
  await ask('POST', '/app/acme/schedule', { ...plain, cron: '* * * * *', payload: {} })
  const { key } = (await store.findApplication('acme')) as { key: number }
  await ask('DELETE', '/app/acme')
  const left: Schedule[] = (await store.listSchedules(key, { limit: 10, order: 'ascending', after: null })).items
  assert.deepEqual(left, [])
})

test('changes of a schedule are in the audit log, with the values before', async () => {
  const { ask } = await openWithApp()
  await ask('POST', '/app/acme/schedule', { ...plain, uid: 'daily', payload: { total: 1 } })
  await ask('PATCH', '/app/acme/schedule/daily', { cron: '0 8 * * *' })
  const [patched, created] = (await ask('GET', '/api/v1/audit')).json.data
  assert.equal(created.action, 'POST /app/:app/schedule')
  assert.equal(created.after.head.cron, plain.cron)
  assert.deepEqual([patched.before.cron, patched.after.head.cron], [plain.cron, '0 8 * * *'])
})

test('a schedule may name the one endpoint that gets its messages, by id or uid', async () => {
  const { ask } = await openWithApp()
  for (const uid of ['one', 'two']) {
    await ask('POST', '/app/acme/endpoint', { uid, url: `https://example.com/${uid}`, eventTypes: ['other'] })
  }
  const path = '/app/acme/schedule/daily'
  const made = await ask('POST', '/app/acme/schedule', { ...plain, payload: {}, uid: 'daily', endpoint: 'two' })
  assert.deepEqual([made.status, made.json.endpoint], [201, 'two'])
  const gets = async () => {
    const { msgId } = (await ask('POST', `${path}/run`)).json
    const { data } = (await ask('GET', `/app/acme/msg/${msgId}/endpoint`)).json
    return data.map(({ uid }: { uid: string }) => uid)
  }
  assert.deepEqual(await gets(), ['two'])
  const { id } = (await ask('GET', '/app/acme/endpoint/one')).json
  assert.equal((await ask('PATCH', path, { endpoint: id })).json.endpoint, id)
  assert.deepEqual(await gets(), ['one'])
  assert.equal((await ask('PATCH', path, { endpoint: null })).json.endpoint, null)
  assert.deepEqual(await gets(), [])
  for (const endpoint of ['three', 'a b', 'ep_0']) {
    const { status, json } = await ask('PATCH', path, { endpoint })
    assert.deepEqual([status, json.detail[0].loc], [422, ['body', 'endpoint']], endpoint)
  }
  await ask('PATCH', path, { endpoint: 'two' })
  await ask('DELETE', '/app/acme/endpoint/two')
  const late = await ask('POST', `${path}/run`)
  assert.ok(late.status >= 400 && late.status < 500, late.text)
})
