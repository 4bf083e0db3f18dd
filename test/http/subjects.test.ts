import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { TaskRunner } from '../../src/engine/worker-jobs.ts'
import { isSigned } from '../../src/features/audit/store.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { type Api, openApi } from './api.ts'

const person = 'ann@example.com'

async function openAcme(pointers: string[] | null = ['/user/mail', '/to/*/mail']): Promise<Api> {
  const api = await openApi()
  const made = await api.ask('POST', '/app', { name: 'Acme', uid: 'acme', subjectPointers: pointers })
  assert.equal(made.status, 201, made.text)
  await api.ask('POST', '/app/acme/endpoint', { uid: 'crm', url: 'https://crm.example.com/' })
  return api
}

async function publish({ ask }: Api, payload: object): Promise<string> {
  const { status, json, text } = await ask('POST', '/app/acme/msg', { eventType: 'x', payload })
  assert.equal(status, 202, text)
  return json.id
}

/** Runs the tasks to their end, and gives the erasure. */
async function ended({ store, ask }: Api, id: string) {
  const runner = new TaskRunner(store, systemClock)
  for (;;) {
    while (await runner.step());
    const { json } = await ask('GET', `/app/acme/erasure/${id}`)
    if (json.state !== 'running') return json
    await new Promise<void>((resolve) => void systemClock.after(50, resolve))
  }
}

function linesOf(text: string) {
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
}

describe('a data subject', () => {
  test('is found where the pointers name it, and erased with a signed report', async () => {
    const api = await openAcme()
    const { ask } = api
    const own = await publish(api, { user: { mail: person } })
    const listed = await publish(api, { to: [{ mail: 'bob@example.com' }, { mail: person }] })
    const other = await publish(api, { user: { mail: 'bob@example.com' }, about: person })
    const started = await ask('POST', '/app/acme/subject/erase', { subject: person })
    assert.equal(started.status, 202, started.text)
    assert.doesNotMatch(started.text, /ann@/)
    const erasure = await ended(api, started.json.id)
    assert.equal(erasure.state, 'finished', JSON.stringify(erasure))
    assert.deepEqual([erasure.report.erased.messages, erasure.report.erased.cancelled], [2, 2])
    assert.equal(isSigned('erasure', JSON.stringify(erasure.report), erasure.signature), true)
    const keys = await ask('GET', '/api/v1/signing-key')
    assert.deepEqual(
      keys.json.data.map(({ publicKey }: { publicKey: string }) => publicKey),
      [erasure.signature.publicKey],
    )
    for (const id of [own, listed]) {
      const shown = await ask('GET', `/app/acme/msg/${id}`)
      assert.doesNotMatch(shown.text, /example\.com/)
      const again = await ask('POST', `/app/acme/msg/${id}/endpoint/crm/resend`)
      assert.deepEqual([again.status, again.json.code], [400, 'missing_payload'])
      assert.match(again.text, /named a data subject/)
    }
    assert.match((await ask('GET', `/app/acme/msg/${other}`)).text, /bob@example/)
    const list = await ask('GET', '/app/acme/erasure')
    assert.deepEqual(
      list.json.data.map(({ id }: { id: string }) => id),
      [started.json.id],
    )
  })

  test('is in no audit row: neither in the requests nor in the report', async () => {
    const api = await openAcme()
    await publish(api, { user: { mail: person } })
    const { json } = await api.ask('POST', '/app/acme/subject/erase', { subject: person, waiting: 'deliver-without' })
    const erasure = await ended(api, json.id)
    await api.ask('POST', '/app/acme/subject/export', { subject: person })
    const log = await api.ask('GET', '/api/v1/audit')
    assert.doesNotMatch(log.text, /ann@/)
    const rows = log.json.data as { action: string; after: Record<string, unknown> | null; actor: string }[]
    const erased = rows.find(({ action }) => action === 'POST /app/:app/subject/erase')
    assert.deepEqual(erased?.after, { subject: '***', waiting: 'deliver-without' })
    assert.ok(rows.some(({ action }) => action === 'POST /app/:app/subject/export'))
    const report = rows.find(({ action }) => action === 'REPORT /app/:app/subject/erase')
    assert.deepEqual((report?.after as { report?: object } | undefined)?.report, erasure.report)
    assert.equal(report?.actor, erased?.actor)
    assert.equal((await api.ask('GET', '/api/v1/audit/verify')).json.whole, true)
  })

  test('is exported message by message, and the export continues behind a message', async () => {
    const api = await openAcme()
    const ids = [
      await publish(api, { user: { mail: person }, text: 'line\nbreak' }),
      await publish(api, { user: { mail: person }, big: 1 }),
    ]
    await publish(api, { user: { mail: 'bob@example.com' } })
    const { status, text } = await api.ask('POST', '/app/acme/subject/export', { subject: person })
    assert.equal(status, 200)
    const lines = linesOf(text)
    const kinds = lines.map(({ type, id, msgId }) => [type, id ?? msgId ?? null])
    assert.deepEqual(kinds, [
      ['message', ids[0]],
      ['delivery', ids[0]],
      ['message', ids[1]],
      ['delivery', ids[1]],
      ['end', null],
    ])
    assert.deepEqual([lines[0].payload.text, lines[1].status, lines[4].messages], ['line\nbreak', 'pending', 2])
    const rest = await api.ask('POST', '/app/acme/subject/export', { subject: person, after: ids[0] })
    assert.deepEqual(
      linesOf(rest.text).map(({ type }) => type),
      ['message', 'delivery', 'end'],
    )
    const none = await api.ask('POST', '/app/acme/subject/export', { subject: 'eve@example.com' })
    assert.deepEqual(linesOf(none.text), [{ type: 'end', messages: 0, last: null }])
    const wrong = await api.ask('POST', '/app/acme/subject/export', { subject: person, after: 'msg_x' })
    assert.deepEqual([wrong.status, wrong.json.detail[0].loc], [422, ['body', 'after']])
  })

  test('is exported with every delivery of a message that went to thousands of endpoints', async () => {
    const api = await openAcme()
    const app = await api.store.findApplication('acme')
    assert(app !== undefined)
    const { version = 0 } = (await api.store.subscriptions(app.key)) ?? {}
    // Endpoints that were deleted long ago: the message is as wide as with any others.
    const endpoints = Array.from({ length: 1001 }, (_, i) => 1_000_000 + i)
    const none = { eventId: null, channels: null, delayMs: 0 }
    const head = { app: app.key, version, eventType: 'x', contentType: 'application/json', ...none }
    const body = Buffer.from(JSON.stringify({ user: { mail: person } }))
    await api.store.publish([{ ...head, endpoints, body }])
    const { text } = await api.ask('POST', '/app/acme/subject/export', { subject: person })
    const kinds = Map.groupBy(linesOf(text), ({ type }) => type)
    assert.deepEqual(
      [...kinds].map(([type, { length }]) => [type, length]),
      [
        ['message', 1],
        ['delivery', 1001],
        ['end', 1],
      ],
    )
  })

  test('is refused where the application names no pointers, and pointers must be pointers', async () => {
    const api = await openAcme(null)
    for (const what of ['erase', 'export']) {
      const { status, json } = await api.ask('POST', `/app/acme/subject/${what}`, { subject: person })
      assert.deepEqual([status, json.code], [409, 'conflict'])
      assert.match(json.detail, /names no data subjects. Set subjectPointers/)
    }
    for (const pointers of [['user/id'], [''], ['/a~2'], [`/a${'/b'.repeat(40)}`], [], Array(17).fill('/a')]) {
      const { status } = await api.ask('PATCH', '/app/acme', { subjectPointers: pointers })
      assert.equal(status, 422, JSON.stringify(pointers).slice(0, 40))
    }
    assert.equal((await api.ask('PATCH', '/app/acme', { subjectPointers: ['/user/id'] })).status, 200)
    for (const body of [
      {},
      { subject: '' },
      { subject: 7 },
      { subject: 'x'.repeat(1025) },
      { subject: 'a', waiting: 'x' },
    ]) {
      assert.equal(
        (await api.ask('POST', '/app/acme/subject/erase', body)).status,
        422,
        JSON.stringify(body).slice(0, 40),
      )
    }
    for (const subject of ["'; drop table subject; --", '💥'.repeat(200)]) {
      assert.equal((await api.ask('POST', '/app/acme/subject/erase', { subject })).status, 202)
    }
  })

  test('takes an admin key of its application, and no other', async () => {
    const api = await openAcme()
    await api.ask('POST', '/app', { name: 'B', uid: 'b', subjectPointers: ['/x'] })
    const keyOf = async (body: object) => {
      const { json } = await api.ask('POST', '/api/v1/api-key', { name: 'k', ...body })
      return { authorization: `Bearer ${json.token}` }
    }
    const { json: erasure } = await api.ask('POST', '/app/acme/subject/erase', { subject: person })
    const own = await keyOf({ scopes: ['admin'], app: 'acme' })
    const others = [
      await keyOf({ scopes: ['read'] }),
      await keyOf({ scopes: ['publish'] }),
      await keyOf({ scopes: ['admin'], app: 'b' }),
      { authorization: `Bearer ${(await api.ask('POST', '/api/v1/auth/app-portal-access/acme', {})).json.token}` },
    ]
    for (const [method, path, body] of [
      ['POST', '/app/acme/subject/erase', { subject: person }],
      ['POST', '/app/acme/subject/export', { subject: person }],
      ['GET', `/app/acme/erasure/${erasure.id}`, undefined],
      ['GET', '/app/acme/erasure', undefined],
    ] as const) {
      assert.ok((await api.ask(method, path, body, own)).status < 300)
      for (const key of others) assert.ok([403, 404].includes((await api.ask(method, path, body, key)).status), path)
    }
    await ended(api, erasure.id)
    const whole = await api.ask('GET', `/app/acme/background-task/${erasure.id}`, undefined, own)
    assert.equal(whole.json.data.report.task, erasure.id)
    for (const [key, path] of [
      [others[0], `/api/v1/background-task/${erasure.id}`],
      [others[0], `/app/acme/background-task/${erasure.id}`],
      [others[3], `/app/acme/background-task/${erasure.id}`],
    ] as const) {
      const { status, json } = await api.ask('GET', path, undefined, key)
      assert.deepEqual([status, json.state, json.data], [200, 'finished', {}], path)
    }
    const listed = await api.ask('GET', '/api/v1/background-task?task=subject.erase', undefined, others[0])
    for (const { data } of listed.json.data) assert.deepEqual(data, {})
    assert.equal(listed.json.data.length, 2)
    assert.equal((await api.ask('GET', `/app/b/erasure/${erasure.id}`)).status, 404)
    const { json: replay } = await api.ask('POST', '/app/acme/dead/replay', {})
    assert.equal((await api.ask('GET', `/app/acme/erasure/${replay.id}`)).status, 404)
  })
})
