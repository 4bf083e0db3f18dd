import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { StoreTrouble } from '../../src/store/store.ts'
import { openPostgresHarness } from '../store/postgres-harness.ts'
import { openSqliteHarness } from '../store/sqlite-harness.ts'
import { adminKey, openApi } from './api.ts'

const api = '/api/v1'

describe('the audit log', () => {
  test('has one row for each change that succeeded and each secret shown, and none for what was read, refused or published', async () => {
    const { ask } = await openApi()
    const made = await ask('POST', '/app', { name: 'A', uid: 'a' })
    await ask('POST', '/app', { name: 'A', uid: 'a' })
    await ask('POST', '/app', {})
    await ask('GET', '/app/a')
    await ask('GET', '/app/a/endpoint')
    await ask('POST', '/app/a/endpoint', { uid: 'one', url: 'https://example.com/' })
    await ask('POST', '/app/a/msg', { eventType: 'x', payload: {} })
    await ask('PATCH', '/app/a/endpoint/one', { description: 'new' })
    await ask('PATCH', '/app/a/endpoint/two', { description: 'new' })
    await ask('GET', '/app/a/endpoint/one/secret')
    await ask('DELETE', '/app/a')
    const { json } = await ask('GET', `${api}/audit?order=ascending`)
    assert.deepEqual(
      json.data.map(({ number, action, appId, target }: Record<string, unknown>) => [number, action, appId, target]),
      [
        [1, 'POST /app', null, '/api/v1/app'],
        [2, 'POST /app/:app/endpoint', made.json.id, '/api/v1/app/a/endpoint'],
        [3, 'PATCH /app/:app/endpoint/:endpoint', made.json.id, '/api/v1/app/a/endpoint/one'],
        [4, 'GET /app/:app/endpoint/:endpoint/secret', made.json.id, '/api/v1/app/a/endpoint/one/secret'],
        [5, 'DELETE /app/:app', made.json.id, '/api/v1/app/a'],
      ],
    )
    const [created, , patched, , deleted] = json.data
    assert.deepEqual([created.before, created.after], [null, { name: 'A', uid: 'a' }])
    assert.deepEqual([patched.before.description, patched.after], ['', { description: 'new' }])
    assert.deepEqual([deleted.before.name, deleted.after], ['A', null])
    assert.deepEqual([created.actor, created.ip], ['fixed', '127.0.0.1'])
  })

  for (const [dialect, open] of Object.entries({ sqlite: openSqliteHarness, postgres: openPostgresHarness })) {
    test(`has no row for a PATCH that changes nothing (${dialect})`, async (t) => {
      const harness = await open()
      t.after(() => harness.close())
      const { ask } = await openApi({ store: harness.store })
      await ask('POST', '/app', { name: 'A', uid: 'a', metadata: { x: '1', y: '2' }, defaultRate: 5 })
      const endpoint = { uid: 'one', url: 'https://example.com/', headers: { 'X-Own': 'v' }, filterTypes: ['x.y'] }
      await ask('POST', `${api}/event-type`, { name: 'x.y', description: 'D' })
      await ask('POST', '/app/a/endpoint', endpoint)
      const schedule = { uid: 's', cron: '0 7 * * *', eventType: 'x.y', payload: { a: 1 }, tags: ['t'] }
      assert.equal((await ask('POST', '/app/a/schedule', schedule)).status, 201)
      const before = (await ask('GET', `${api}/audit`)).json.data.length
      const same: [string, object][] = [
        ['/app/a', { name: 'A', metadata: { y: '2', x: '1' }, defaultRate: 5 }],
        ['/app/a/endpoint/one', { url: endpoint.url, filterTypes: ['x.y'], disabled: false, throttleRate: null }],
        ['/app/a/endpoint/one/headers', { headers: { 'X-Own': 'v' } }],
        ['/app/a/schedule/s', { cron: schedule.cron, payload: schedule.payload, tags: ['t'], paused: false }],
        [`${api}/event-type/x.y`, { description: 'D', archived: false }],
      ]
      for (const [path, body] of same) {
        const { updatedAt } = (await ask('GET', path)).json
        for (const each of path.endsWith('/headers') ? [body] : [{}, body]) {
          const { status, json, text } = await ask('PATCH', path, each)
          assert.ok(status === 200 || status === 204, text)
          assert.equal(json?.updatedAt, path.endsWith('/headers') ? undefined : updatedAt, path)
        }
      }
      assert.equal((await ask('GET', `${api}/audit`)).json.data.length, before)
      await ask('PATCH', '/app/a/schedule/s', { tags: ['u'] })
      await ask('PATCH', '/app/a/endpoint/one/headers', { headers: { 'X-Own': 'w' } })
      assert.equal((await ask('GET', `${api}/audit`)).json.data.length, before + 2)
    })
  }

  test('names who did it, and is filtered by that and more', async () => {
    const { ask } = await openApi()
    const key = (await ask('POST', `${api}/api-key`, { name: 'k', scopes: ['admin'] })).json
    const asKey = { authorization: `Bearer ${key.token}` }
    const app = (await ask('POST', '/app', { name: 'A', uid: 'a' }, asKey)).json
    await ask('PATCH', '/app/a', { name: 'B' })
    const numbers = async (query: string) => {
      const { json } = await ask('GET', `${api}/audit?order=ascending&${query}`)
      return json.data.map(({ number }: { number: number }) => number)
    }
    assert.deepEqual(await numbers(`actor=${key.id}`), [2])
    assert.deepEqual(await numbers('actor=fixed'), [1, 3])
    assert.deepEqual(await numbers(`app_id=${app.id}`), [3])
    assert.deepEqual(await numbers('app_id=a'), [3], 'by uid')
    assert.equal((await ask('GET', `${api}/audit?app_id=nobody`)).status, 404)
    assert.deepEqual(await numbers(`action=${encodeURIComponent('POST /app')}`), [2])
    assert.deepEqual(await numbers('after=2001-01-01T00:00:00Z'), [1, 2, 3])
    assert.deepEqual(await numbers('before=2001-01-01T00:00:00Z'), [])
    const first = (await ask('GET', `${api}/audit?limit=2`)).json
    assert.deepEqual([first.data.map(({ number }: { number: number }) => number), first.done], [[3, 2], false])
    const second = (await ask('GET', `${api}/audit?limit=2&iterator=${first.iterator}`)).json
    assert.deepEqual([second.data.map(({ number }: { number: number }) => number), second.done], [[1], true])
    assert.equal((await ask('GET', `${api}/audit?before=yesterday`)).status, 422)
    await ask('DELETE', '/app/a')
    assert.deepEqual(await numbers(`app_id=${app.id}`), [3, 4], 'by id, also when it is gone')
  })

  test('holds no secret: not of an endpoint, a header, a key or a token', async () => {
    const { ask } = await openApi()
    const secret = `whsec_${Buffer.from('canary-canary-canary-canary').toString('base64')}`
    await ask('POST', '/app', { name: 'A', uid: 'a' })
    const headers = { authorization: 'canary-header' }
    await ask('POST', '/app/a/endpoint', { uid: 'one', url: 'https://example.com/', secret, headers })
    await ask('PATCH', '/app/a/endpoint/one', { headers: { 'x-api-key': 'canary-header' } })
    await ask('POST', '/app/a/endpoint/one/secret/rotate', { key: secret })
    const tokens = [
      (await ask('POST', `${api}/api-key`, { name: 'k', scopes: ['read'] })).json.token,
      (await ask('POST', `${api}/auth/app-portal-access/a`, {})).json.token,
    ]
    const { text, json } = await ask('GET', `${api}/audit`)
    assert.ok(json.data.length >= 5)
    assert.doesNotMatch(text, /Y2FuYXJ5|canary/)
    for (const token of [...tokens, adminKey]) assert.ok(!text.includes(token))
  })

  test('is checked hash by hash', async () => {
    const { ask, store } = await openApi()
    const empty = await ask('GET', `${api}/audit/verify`)
    assert.deepEqual(empty.json, { whole: true, rows: 0, trimmed: 0, head: '0'.repeat(64), brokenAt: null })
    for (let i = 0; i < 3; i++) await ask('POST', '/app', { name: `${i}` })
    const last = (await ask('GET', `${api}/audit?limit=1`)).json.data[0]
    const { json } = await ask('GET', `${api}/audit/verify`)
    assert.deepEqual(json, { whole: true, rows: 3, trimmed: 0, head: last.hash, brokenAt: null })
    const tampered = await openApi({
      store: {
        ...store,
        async listAudit(page, filter) {
          const { items, done } = await store.listAudit(page, filter)
          return { items: items.map((row) => (row.n === 2 ? { ...row, ip: '10.0.0.1' } : row)), done }
        },
      },
    })
    const broken = await tampered.ask('GET', `${api}/audit/verify`)
    assert.deepEqual([broken.json.whole, broken.json.rows, broken.json.brokenAt], [false, 0, 2])
  })

  test('that cannot be written lets no change be answered as done', async () => {
    const { store } = await openApi()
    const fail = async () => {
      throw new StoreTrouble('disk full')
    }
    const { ask, bugs } = await openApi({
      store: { ...store, appendAudit: fail, trailing: (_trail, work) => work() },
    })
    const answer = await ask('POST', '/app', { name: 'A', uid: 'a' })
    assert.deepEqual([answer.status, answer.json.code, bugs], [503, 'unavailable', []])
  })
})

describe('trimming the audit log', () => {
  for (const [dialect, open] of Object.entries({ sqlite: openSqliteHarness, postgres: openPostgresHarness })) {
    test(`keeps a signed checkpoint that proves the rest, and finds tampering (${dialect})`, async (t) => {
      const harness = await open()
      t.after(() => harness.close())
      const { store } = harness
      const { ask } = await openApi({ store })
      for (const uid of ['a', 'b', 'c', 'd']) await ask('POST', '/app', { name: 'A', uid })
      const verify = async () => (await ask('GET', `${api}/audit/verify`)).json
      const numbers = async () =>
        (await ask('GET', `${api}/audit?order=ascending`)).json.data.map(({ number }: { number: number }) => number)
      const none = await ask('POST', `${api}/audit/trim`, { before: '2001-01-01T00:00:00Z' })
      assert.deepEqual([none.status, none.json], [200, { trimmed: 0, checkpoint: null }])
      const whole = await verify()
      await harness.sql(`update audit set at = at - 1000000 where n <= 2`)
      const refused = await ask('POST', `${api}/audit/trim`, { before: '2100-01-01T00:00:00Z' })
      assert.deepEqual([refused.status, refused.json.code], [409, 'conflict'], 'a changed log is not trimmed')
      await harness.sql(`update audit set at = at + 1000000 where n <= 2`)
      assert.equal((await verify()).whole, true)
      const rows = await numbers()
      const done = (await ask('POST', `${api}/audit/trim`, { before: '2100-01-01T00:00:00Z' })).json
      assert.ok(done.trimmed >= rows.length - 1 && whole.rows <= rows.length, JSON.stringify(done))
      assert.deepEqual([done.checkpoint.fromNumber, done.checkpoint.rows], [1, done.trimmed])
      assert.equal((await verify()).whole, true, 'also before the rows are gone')
      while ((await store.removeTrimmed(2)) > 0);
      assert.equal((await numbers())[0], done.trimmed + 1)
      await ask('POST', '/app', { name: 'A', uid: 'e' })
      const after = await verify()
      assert.deepEqual([after.whole, after.trimmed, after.brokenAt], [true, done.trimmed, null])
      assert.deepEqual((await ask('GET', `${api}/audit/checkpoint`)).json.data, [done.checkpoint])

      const tampered = async (sql: string, undo: string) => {
        await harness.sql(sql)
        const found = await verify()
        await harness.sql(undo)
        assert.equal((await verify()).whole, true, undo)
        return found.whole === false && found.brokenAt
      }
      const { toNumber } = done.checkpoint
      const change = (column: string, by: number) =>
        [
          `update audit_checkpoint set ${column} = ${column} + ${by}`,
          `update audit_checkpoint set ${column} = ${column} - ${by}`,
        ] as const
      for (const column of ['to_n', 'first_at', 'last_at', 'at'])
        assert.equal(await tampered(...change(column, 1)), 1, column)
      assert.equal(await tampered(...change('from_n', 1)), 1)
      const swap = (hash: string) => `update audit_checkpoint set hash = '${hash}'`
      assert.equal(await tampered(swap('f'.repeat(64)), swap(done.checkpoint.hash)), 1)
      await harness.sql('create table kept as select * from audit_checkpoint')
      assert.equal(
        await tampered('delete from audit_checkpoint', 'insert into audit_checkpoint select * from kept'),
        1,
        'a checkpoint that is gone is missed',
      )
      const last = `(select max(n) from audit)`
      assert.equal(
        await tampered(`update audit set n = n + 1 where n = ${last}`, `update audit set n = n - 1 where n = ${last}`),
        after.rows,
        'a row behind the checkpoint',
      )
      assert.ok(toNumber < after.rows)
    })
  }

  test('does not trust a key that the server cannot open', async (t) => {
    const harness = await openSqliteHarness()
    t.after(() => harness.close())
    await harness.store.sign('a test', 'text')
    assert.equal((await harness.store.signingKeys()).length, 1)
    await harness.sql(`insert into signing_key (id, public_key, secret, created_at)
      select 'forged', 'AAAA', secret, created_at + 1 from signing_key`)
    assert.deepEqual(
      (await harness.store.signingKeys()).map(({ id }) => id === 'forged'),
      [false],
    )
  })
})
