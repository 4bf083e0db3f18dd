import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { describe, test } from 'node:test'
import { openPostgresHarness } from '../store/postgres-harness.ts'
import { openSqliteHarness } from '../store/sqlite-harness.ts'
import { type Api, openApi } from './api.ts'

const endpoint = { url: 'https://example.com/' }
const schedule = { cron: '0 7 * * *', eventType: 'x', payload: {} }
const eventType = { name: 'x.y', description: 'd' }

/** A request that meets a key that is taken, and its status. */
type Collision = readonly [method: string, path: string, body: unknown, status: number]

/** The ways by which a caller can meet each unique key. `a`, `a/e`, `a/s` and so on are taken, and `b`, `a/f`, `a/t` exist. */
const collisions: Readonly<Record<string, readonly Collision[]>> = {
  'application (uid)': [
    ['POST', '/app', { name: 'X', uid: 'a' }, 409],
    ['POST', '/app?get_if_exists=true', { name: 'X', uid: 'a' }, 200],
    ['PUT', '/app/b', { name: 'X', uid: 'a' }, 409],
    ['PUT', '/app/new', { name: 'X', uid: 'a' }, 409],
    ['PATCH', '/app/b', { uid: 'a' }, 409],
    ['POST', '/app/new/msg', { eventType: 'x', payload: {}, application: { name: 'X', uid: 'a' } }, 422],
  ],
  'endpoint (app, uid)': [
    ['POST', '/app/a/endpoint', { ...endpoint, uid: 'e' }, 409],
    ['PUT', '/app/a/endpoint/f', { ...endpoint, uid: 'e' }, 409],
    ['PUT', '/app/a/endpoint/new', { ...endpoint, uid: 'e' }, 409],
    ['PATCH', '/app/a/endpoint/f', { uid: 'e' }, 409],
    ['POST', '/operational-webhook/endpoint', { ...endpoint, uid: 'e' }, 409],
    ['PUT', '/operational-webhook/endpoint/f', { ...endpoint, uid: 'e' }, 409],
    ['PATCH', '/operational-webhook/endpoint/f', { uid: 'e' }, 409],
  ],
  'schedule (app, uid)': [
    ['POST', '/app/a/schedule', { ...schedule, uid: 's' }, 409],
    ['PUT', '/app/a/schedule/t', { ...schedule, uid: 's' }, 409],
    ['PUT', '/app/a/schedule/new', { ...schedule, uid: 's' }, 409],
    ['PATCH', '/app/a/schedule/t', { uid: 's' }, 409],
  ],
  'source (app, uid)': [
    ['POST', '/app/a/source', { provider: 'github', uid: 's' }, 409],
    ['PATCH', '/app/a/source/t', { uid: 's' }, 409],
  ],
  'event_id (app, event_id)': [
    ['POST', '/app/a/msg', { eventType: 'x', payload: {}, eventId: 'm' }, 409],
    ['POST', '/app/a/msg/raw?event_type=x&event_id=m', {}, 409],
    ['POST', '/app/a/msg/batch', { messages: [{ eventType: 'x', payload: {}, eventId: 'm' }] }, 409],
    [
      'POST',
      '/app/a/msg/batch',
      {
        messages: [
          { eventType: 'x', payload: {}, eventId: 'twice' },
          { eventType: 'x', payload: {}, eventId: 'twice' },
        ],
      },
      409,
    ],
  ],
  'event_type (name)': [
    ['POST', '/event-type', eventType, 409],
    ['PUT', '/event-type/x.y', { description: 'd' }, 200],
  ],
  'region (app, name)': [['POST', '/app/a/region', { name: 'eu' }, 409]],
  'saved_view (uid)': [
    ['POST', '/view', { name: 'V', of: 'endpoints', uid: 'v' }, 409],
    ['PATCH', '/view/w', { uid: 'v' }, 409],
  ],
}

const made = 'the store makes the value'
const locked = 'the store writes the row in a statement that names the conflict'

/** Unique keys that no caller chooses. A new key of either schema must be added here or above. */
const internal: Readonly<Record<string, string>> = {
  'alert (rule, subject)': locked,
  'api_key (hash)': made,
  'app_token (hash)': made,
  'web_session (hash)': made,
  'attempt (message, endpoint, n)': made,
  'audit_checkpoint (from_n)': made,
  'coalesced (message, endpoint)': locked,
  'coalescing (endpoint, key)': locked,
  'dead (endpoint, message)': locked,
  'app_share (app, worker)': made,
  'dead_file (region)': made,
  'history (scope, span, at, writer)': locked,
  'portal_look (app)': locked,
  'idempotency (hash)': locked,
  'lane (endpoint)': made,
  'pending (endpoint, class, due_at, message)': made,
  'region_move (app)': locked,
  'sealing_key (id)': locked,
  'signing_key (id)': made,
  'sluice_inbox (id)': made,
  'source_arrivals (source)': locked,
  'source_sample (source, slot)': locked,
  'subject (app, hash, message)': locked,
  'subject_key (app)': locked,
  'taken_hash (day, seq)': made,
  'taken_run (day, level, run, slice)': made,
  'variant (message, n)': made,
}

test('every unique key of both schemas is listed here', () => {
  const schema = (dialect: string) =>
    readFileSync(new URL(`../../src/store/${dialect}/schema.sql`, import.meta.url), 'utf8')
  const known = new Set([...Object.keys(collisions), ...Object.keys(internal)])
  const found = new Set([...uniqueInSqlite(schema('sqlite')), ...uniqueInPostgres(schema('postgres'))])
  assert.deepEqual([...found].filter((key) => !known.has(key)).sort(), [])
  assert.deepEqual([...known].filter((key) => !found.has(key)).sort(), [])
})

for (const [dialect, open] of Object.entries({ sqlite: openSqliteHarness, postgres: openPostgresHarness })) {
  describe(`${dialect}: a key that is taken`, () => {
    for (const [key, requests] of Object.entries(collisions)) {
      test(`${key} is refused with a conflict, alone and many at once`, async (t) => {
        const { store, close } = await open()
        t.after(close)
        const { ask, bugs } = await populated(await openApi({ store }))
        for (const [method, path, body, status] of requests) {
          const answer = await ask(method, `/api/v1${path}`, body)
          assert.equal(answer.status, status, `${method} ${path}: ${answer.text}`)
        }
        const [method, path, body] = requests[0] as Collision
        const fresh = JSON.parse(JSON.stringify(body).replace(/"(a|e|s|m|x\.y|eu|v)"/g, '"fresh"'))
        const answers = await Promise.all(Array.from({ length: 5 }, () => ask(method, `/api/v1${path}`, fresh)))
        assert.deepEqual(answers.map(({ status }) => (status < 300 ? 'made' : status)).sort(), [
          409,
          409,
          409,
          409,
          'made',
        ])
        assert.deepEqual(bugs, [])
      })
    }
  })
}

async function populated(api: Api): Promise<Api> {
  for (const [path, body] of [
    ['/app', { name: 'A', uid: 'a' }],
    ['/app', { name: 'B', uid: 'b' }],
    ['/app/a/endpoint', { ...endpoint, uid: 'e' }],
    ['/app/a/endpoint', { ...endpoint, uid: 'f' }],
    ['/operational-webhook/endpoint', { ...endpoint, uid: 'e' }],
    ['/operational-webhook/endpoint', { ...endpoint, uid: 'f' }],
    ['/app/a/schedule', { ...schedule, uid: 's' }],
    ['/app/a/schedule', { ...schedule, uid: 't' }],
    ['/app/a/source', { provider: 'github', uid: 's' }],
    ['/app/a/source', { provider: 'github', uid: 't' }],
    ['/app/a/msg', { eventType: 'x', payload: {}, eventId: 'm' }],
    ['/app/a/region', { name: 'eu' }],
    ['/event-type', eventType],
    ['/view', { name: 'V', of: 'endpoints', uid: 'v' }],
    ['/view', { name: 'W', of: 'endpoints', uid: 'w' }],
  ] as const) {
    const { status, text } = await api.ask('POST', `/api/v1${path}`, body)
    assert.ok(status < 300, text)
  }
  return api
}

/** Keys by their table and columns; a number that the store counts up itself is no key of this kind. */
function uniqueInSqlite(schema: string): string[] {
  const database = new DatabaseSync(':memory:')
  database.exec(schema)
  const rows = database
    .prepare(
      `select t.name as "table", i.name as "index" from pragma_table_list t, pragma_index_list(t.name) i
       where t.schema = 'main' and i."unique" = 1`,
    )
    .all() as { table: string; index: string }[]
  return rows.flatMap(({ table, index }) => {
    const columns = database.prepare('select name from pragma_index_info(?) order by seqno').all(index)
    return keyOf(
      table,
      columns.map(({ name }) => String(name)),
    )
  })
}

function uniqueInPostgres(schema: string): string[] {
  const indexes = schema.matchAll(/CREATE UNIQUE INDEX \w+ ON (?:ONLY )?public\.(\w+) USING btree \(([^)]*)\)/g)
  return [...indexes].flatMap(([, table = '', columns = '']) => {
    return table.endsWith('_default') ? [] : keyOf(table, columns.split(', '))
  })
}

const counted = new Set(['key', 'n', 'version', 'one', 'message'])

function keyOf(table: string, columns: readonly string[]): string[] {
  const [first = ''] = columns
  if (columns.length === 1 && (counted.has(first) || `${table}.${first}` === 'worker.id')) return []
  return [`${table} (${columns.join(', ')})`]
}
