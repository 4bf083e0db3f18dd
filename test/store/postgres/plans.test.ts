import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { firstKeyAt } from '../../../src/domain/ids.ts'
import '../../../src/store/postgres/open.ts'
import { dayMs, partitionedTables } from '../../../src/store/postgres/partitions.ts'
import { sessionSettings } from '../../../src/store/postgres/sessions.ts'
import { registeredStatements } from '../../../src/store/sql/statement.ts'
import { newDatabase } from '../postgres-harness.ts'

// Every hot statement, with the index and the condition each scan of a table that can grow must have.
const hot: [name: string, conditions: RegExp[]][] = [
  ['read-due', [/endpoint = \S+ AND class = \S+ AND .*due_at, message > .* AND due_at <= /, /due_at > \S+\.now/]],
  [
    'read-named',
    [/endpoint = wanted\.endpoint AND class = 0 AND due_at = \S+ AND message = /, /key = wanted\.message/],
  ],
  ['load-messages', [/key = ANY/]],
  ['load-variants', [/message = w\S*\.message AND n = w\S*\.n/, /key = w\S*\.message/]],
  ['cancel-pending', [/endpoint = \$1/]],
  ['due-removal', [/due_at <= /]],
  ['lock-rows', [/endpoint = l\.endpoint AND class = l\.class AND due_at = \S+ AND message = /]],
  ['hold-rows', [/endpoint = h\.endpoint AND class = h\.class AND due_at = \S+ AND message = /]],
  ['settle', [/endpoint = \S+ AND class = \S+ AND due_at = \S+ AND message = /]],
  ['claim', [/due_at <= \S+/, /endpoint = ANY/, /key = lane_\d\.endpoint|key = \S*endpoint/]],
  ['claim-regions', [/due_at <= \S+/, /region = served\.region AND .*due_at <= /, /endpoint = ANY/]],
  ['claim-named', [/endpoint = ANY/, /key = lane_\d\.endpoint|key = \S*endpoint/]],
  ['find-due', [/app, region > /, /app = walk\S*\.app AND .*region = walk\S*\.region/]],
  ['endpoints-to-move', [/app = \$1 AND key > \$2/]],
  ['move-lanes', [/endpoint = ANY/]],
  ['release', [/endpoint = ANY/]],
  ['renew', [/id = \$3/]],
  ['count-owned', [/owner = ANY/]],
  ['list-workers', [/owner = worker\.id/]],
  ['orphan-lanes', [/owner = ANY/]],
  ['wake-lanes', [/endpoint = ANY/]],
  ['rouse-lanes', [/class = 0/, /class = 2/, /class = 1/, /endpoint = ANY/]],
  ['find-oversleepers', [/endpoint > \$1/, /class = 0/, /class = 2/, /class = 1/]],
  ['repair-lanes', [/class = 0/, /class = 2/, /class = 1/, /endpoint = ANY/]],
  ['find-resting', [/endpoint > \$1/, /endpoint = walk\S*\.endpoint/, /key = walk\S*\.endpoint/, /class = c\.class/]],
  ['read-fronts', [/endpoint = \$1 AND class = c\.class/]],
  ['find-expired', [/expires_at >= \$1 AND expires_at <= /, /endpoint = pending\.endpoint/]],
  ['end-resting', [/endpoint = ANY/, /endpoint = w\S*\.endpoint AND class = \S+ AND due_at = \S+ AND message = /]],
  ['dead-among', [/endpoint = w\S*\.endpoint AND message = w\S*\.message/]],
  ['publish', [/key = m\.app/]],
  ['publish-event-ids', [/key = m\.app/]],
  ['publish-once', [/key = m\.app/, /hash = o\S*\.hash/]],
  ['publish-once-event-ids', [/key = m\.app/, /hash = o\S*\.hash/]],
  ['publish-planned', [/key = m\.app/, /hash = o\S*\.hash/]],
  ['queue-planned', [/endpoint = p\.endpoint AND class = 0/]],
  ['head-of-lane', [/endpoint = \$1 AND class = 0/, /endpoint = \$1 AND class = 1 AND due_at <= /]],
  ['taken-hashes', [/hash = o\S*\.hash/, /key = idempotency\.message|key = i\.message/]],
  ['take-hashes', []],
  ['sweep-idempotency', [/expires_at <= /]],
  ['join-windows', []],
  ['join-windows-late', []],
  ['replace-waiting', [/endpoint = r\S*\.endpoint AND class = 1 AND due_at = \S+ AND message = /]],
  ['find-waiting', [/endpoint = w\.endpoint AND class = 1 AND due_at = \S+ AND message = /]],
  ['find-coalesced', [/message = wanted\.message AND endpoint = wanted\.endpoint/, /key = \S*successor/]],
  ['sweep-windows', [/due_at <= /]],
  ['expand', [/key = wide\.message/, /key = c\.endpoint/, /message = /]],
  ['count-waiting', [/endpoint, class, due_at, message > /, /endpoint = p\w+\.endpoint/]],
  ['by-event-ids', [/app = wanted\.app AND event_id = wanted\.event_id/, /key = event_id\.message/]],
  ['api-key', [/hash = \$1/, /key = api_key\.app/]],
  ['any-api-key', [/hash = \$1/]],
  ['app-token', [/hash = \$1/, /key = app_token\.app/]],
  ['web-session', [/hash = \$1/]],
  ['use-sign-in-link', [/hash = \$1/]],
  ['owned-web-sessions', [/owner_kind = \$1 AND owner = \$2/]],
  ['audit-down', [/n < \$1/]],
  ['messages', [/app = \$1 AND key >= \$2 AND key < \$3 AND key > \$4/]],
  ['messages-down', [/app = \$1 AND key >= \$2 AND key < \$3 AND key < \$4/]],
  ['message-summaries', [/key = ANY/]],
  ['accepted-for', [/key = ANY/]],
  ['message-destinations', [/key = ANY/]],
  ['count-destinations', [/app = \$1 AND key >= \$2 AND key < \$3 AND key > \$4/]],
  ['attempts-of-endpoint', [/endpoint = \$1 AND at >= \$2 AND at < \$3 AND at >= \$4/]],
  ['attempts-of-endpoint-down', [/endpoint = \$1 AND at >= \$2 AND at < \$3 AND at <= \$4/]],
  ['some-attempts', [/message = wanted\.message AND endpoint = wanted\.endpoint AND n <= wanted\.n/]],
  ['some-dead', [/endpoint = wanted\.endpoint AND message = wanted\.message/]],
  ['latest-attempts', [/message = wanted\.message AND endpoint = wanted\.endpoint/]],
  ['dead-of-app-down', [/app = \$1 AND died_at >= \$2 AND died_at < \$3 AND died_at <= \$4/]],
  ['all-dead-down', [/died_at \+ 0 >= \$1 AND died_at \+ 0 < \$2 AND died_at \+ 0 <= \$3/]],
  ['count-messages', [/app = \$1 AND key >= \$2 AND key < \$3/]],
  ['count-dead', [/died_at \+ 0 >= \$1 AND died_at \+ 0 < \$2/]],
  ['count-dead-of-app', [/app = \$1 AND died_at >= \$2 AND died_at < \$3/]],
  ['count-dead-of-endpoint', [/endpoint \+ 0 = \$1 AND died_at >= \$2 AND died_at < \$3/]],
  ['count-dead-by-message', [/endpoint = \$1 AND message >= \$2 AND message < \$3/]],
  ['dead-of-endpoint-down', [/endpoint \+ 0 = \$1 AND died_at >= \$2 AND died_at < \$3 AND died_at <= \$4/]],
  ['dead-by-message', [/endpoint = \$1 AND message >= \$2 AND message < \$3 AND message > \$4/]],
  ['progress', [/message = w\S*\.message AND endpoint = /, /endpoint = w\S*\.endpoint AND message = /]],
  ['accepted-among', [/key = w\S*\.message/]],
  ['search-queues', [/endpoint = \S+ AND class = \S+ AND due_at >= w\S*\.earliest AND due_at <= w\S*\.latest$/]],
  ['find-queued', [/endpoint = \$1 AND class = \$2 AND due_at = \$3 AND message = \$4/]],
  ['sendable', [/key = ANY/]],
  ['present-endpoints', [/key = ANY/]],
  ['delete-queued', [/endpoint = \w+\.endpoint AND class = \w+\.class AND due_at = \w+\.due_at AND message = /]],
  ['insert-replays', [/message = w\S*\.message AND endpoint = /]],
  ['delete-dead', [/endpoint = \w+\.endpoint AND message = \w+\.message/]],
  ['lock-messages', [/key = ANY/]],
  ['weigh-messages', [/key = ANY/, /message = message\S*\.key/]],
  ['erase-messages', [/key = ANY/]],
  ['erase-subject-messages', [/key = ANY/]],
  ['erase-attempts', [/message = ANY \S+ AND message >= \$\d AND message <= \$\d$/]],
  ['attempted-of', [/message = ANY/]],
  ['letters-for-file', [/died_at \+ 0 >= \$1 AND died_at \+ 0 < \$2/]],
  ['erase-dead', [/endpoint = listed\.endpoint AND message = listed\.message/]],
  ['lane', [/endpoint = \$1/, /key = \$1|key = \S*endpoint/]],
  ['save-snapshots', [/endpoint = ANY/]],
  ['lane-snapshots', [/endpoint = ANY/]],
  ['lane-states', [/endpoint = ANY/]],
  ['first-endpoints', [/app = asked\.app/, /key = /]],
  ['endpoint-briefs', [/app = \$1 AND key > \$2/]],
  ['endpoint-keys', [/app = \$1 AND key > \$2/]],
  ['all-endpoint-keys', [/key > \$1/]],
  ['queue-rungs', [/endpoint, class, due_at, message > .*endpoint = /]],
  ['count-range', [/endpoint, class, due_at, message > .*endpoint, class, due_at, message < /]],
  ['count-range-of-key', [/endpoint, class, due_at, message > .*endpoint, class, due_at, message < /]],
  ['pending-row', [/endpoint = \$1 AND class = \$2 AND due_at = \$3 AND message = \$4/]],
  ['front-of-lane', [/endpoint = \$1 AND class = 0 AND /, /endpoint = \$1 AND class = 1 AND /, /key = \S+\.message/]],
  ['tasks-down', [/key < \$1/]],
  ['due-schedules', [/due_at <= \$1/, /key = schedule\.app/]],
  ['next-schedule', [/due_at > EXTRACT/]],
  ['delete-old-dead', [/died_at (\+ 0 )?< /]],
  ['delete-old-tasks', [/updated_at < /]],
  ['payload-ends', [/at <= /]],
  ['lease-task', [/key = /]],
  ['write-history', [/key = \S+\.scope/]],
  ['history', [/scope = \$1 AND span = \$2 AND at < \$3 AND .*at, writer > /]],
  ['history-outcomes', [/scope = ANY .* AND span = 3600000 AND at >= \$2 AND at < \$3/]],
  ['unfolded-history', [/at < /]],
  ['folded-history', [/scope = listed\.scope AND span = listed\.span AND at = listed\.at AND writer = ''::text/]],
  ['delete-history', [/scope = \S+ AND span = \S+ AND at = \S+ AND writer = /]],
  ['delete-old-history', [/span \+ 0 = \$\d AND at \+ 0 < /]],
  ['delete-history-of', [/scope = \$1/]],
  ['inbox-apps', [/app > \$1/]],
  ['inbox-sizes', [/app = \$1/]],
  ['inbox-rows', [/id = ANY/]],
  ['lock-inbox-rows', [/id = ANY/]],
  ['lock-dead', [/endpoint = \w+\.endpoint AND message = \w+\.message/]],
]

// These read all of a table, which is small or is to be counted, or the first rows of one in the order of its key.
const readsWhole = new Set([
  'any-message',
  'count-admin-keys',
  'oldest-admin-key',
  'delete-web-sessions',
  'alerts',
  'alert-silences',
  'count-alert-silences',
  'sweep-alert-silences',
  'event-types',
  'event-types-down',
  'any-event-type',
  'event-type-names',
  'archive-event-types',
  'last-audit',
  'list-notices',
  'expand',
  'migrations',
  'counts',
  'sealing-keys',
  // Up to 500 views of a server.
  'count-saved_views',
  'signing-keys',
  'insert-signing-key',
  'any-dead-file',
  'any-message',
  // Of the server's catalogs: as many rows as there are tables, settings and sessions.
  'condition-settings',
  'condition-connections',
  'condition-transaction',
  'condition-dead-rows',
])

// These count, or end at the first row of an index that is already in the wanted order.
const mayScanWhole = new Set([
  // They hold no other rows than those that are wanted.
  'endpoint_folded',
  'schedule_folded',
  'fan_out_pkey',
  'lane_owner',
  'lane_due',
  'lane_due_elsewhere',
  'pending_pkey',
  'sluice_inbox_refused',
  'sluice_inbox_waiting',
  'task_running',
])

interface Node {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Index Name'?: string
  readonly 'Index Cond'?: string
  readonly Plans?: readonly Node[]
}

function* nodesOf(node: Node): Generator<Node> {
  yield node
  for (const child of node.Plans ?? []) yield* nodesOf(child)
}

const statements = registeredStatements('postgres')

function textOf(name: string): string {
  const text = statements.get(name)
  assert(text !== undefined, `no statement is named ${name}`)
  return text
}

const park = `
  insert into pending select 1, 1, 9000000000000000 + g, g, 0, 0, 0 from generate_series(1, 100000) g;
  insert into pending select 2, 0, g, g, 0, 0, 0 from generate_series(1, 20000) g`

describe('hot statements', () => {
  let client: pg.Client

  // Each state of the tables that a plan may be made in, the treacherous one first: emptied and vacuumed, a table looks
  // so small that reading all of it seems the best way to find anything.
  const states: [string, string[]][] = [
    ['while the tables are empty', ['vacuum analyze']],
    ['with 100,000 rows parked that no statistics know of', [park]],
    ['with 100,000 rows parked', ['analyze']],
  ]

  before(async () => {
    client = new pg.Client({ connectionString: await newDatabase() })
    await client.connect()
    await client.query(sessionSettings)
  })
  after(() => client.end())

  async function planOf(text: string): Promise<Node[]> {
    const { rows } = await client.query(`explain (generic_plan, format json) ${text}`)
    return [...nodesOf(rows[0]['QUERY PLAN'][0].Plan)]
  }

  for (const [state, preparation] of states) {
    test(`${state} every scan is a probe`, async () => {
      for (const sql of preparation) await client.query(sql)
      for (const [name, text] of statements) {
        if (readsWhole.has(name)) continue
        const nodes = await planOf(text)
        for (const node of nodes) assertProbe(name, node)
      }
      for (const [name, conditions] of hot) {
        const nodes = await planOf(textOf(name))
        const found = nodes.map((node) => (node['Index Cond'] ?? '').replace(/[()]/g, ''))
        for (const condition of conditions) {
          assert(
            found.some((cond) => condition.test(cond)),
            `${name}: no scan with ${condition} in\n${found.join('\n')}`,
          )
        }
      }
    })
  }

  test('with ninety days of history, a probe for one message opens the partitions of its day alone', async () => {
    const today = Math.floor(Date.now() / dayMs)
    for (const table of partitionedTables) {
      for (let day = today - 90; day < today - 1; day++) {
        const range = `from (${firstKeyAt(day * dayMs)}) to (${firstKeyAt((day + 1) * dayMs)})`
        await client.query(`create table ${table}_day${day} partition of ${table} for values ${range}`)
      }
    }
    const key = firstKeyAt((today - 30) * dayMs)
    const names = [
      ...['progress', 'accepted-among', 'delivery-ends', 'latest-attempts', 'some-attempts', 'find-coalesced'],
      ...['lock-messages', 'weigh-messages', 'erase-messages', 'erase-attempts', 'attempted-of', 'delete-subject-of'],
      ...['load-messages', 'load-variants', 'message-summaries', 'message-destinations', 'accepted-for', 'sendable'],
    ]
    for (const name of names) {
      const text = textOf(name)
      // Lists are of one item; the other parameters are the range of the messages.
      const count = Math.max(...[...text.matchAll(/\$(\d+)/g)].map(([, n]) => Number(n)))
      const values = Array.from({ length: count }, (_, i) => {
        const type = new RegExp(`\\$${i + 1}::(\\w+)\\[\\]`).exec(text)?.[1]
        if (type !== undefined) return `'{${type === 'bigint' ? key : 1}}'`
        return text.includes(`$${i + 1}::bytea`) ? `''` : key
      })
      await client.query(`prepare probing as ${text}`)
      const { rows } = await client.query(`explain (format json) execute probing (${values.join(', ')})`)
      await client.query('deallocate probing')
      const opened = [...nodesOf(rows[0]['QUERY PLAN'][0].Plan)].map((node) => node['Relation Name'] ?? '')
      const days = opened.filter((relation) => /_day\d|_\d{8}$/.test(relation))
      // The message that a delivery was coalesced into may be of any day: that list is read only if there is one.
      const own = days.filter((relation) => name !== 'find-coalesced' || relation.startsWith('coalesced'))
      assert.deepEqual(
        [...new Set(own.map((relation) => relation.replace(/^.*_day/, '')))],
        [String(today - 30)],
        `${name} opens ${own.length} partitions`,
      )
    }
  })

  test('with 100,000 rows parked, reading what is due touches a handful of pages', async () => {
    // The head of the parked queue, which is not due, and ten rows of the other.
    const values = [`'{1,2}'`, `'{1,0}'`, `'{-1,-1}'`, `'{-1,-1}'`, `'{10,10}'`]
    await client.query(`prepare reading as ${textOf('read-due')}`)
    const { rows } = await client.query(
      `explain (analyze, buffers, format json) execute reading (${values.join(', ')})`,
    )
    const { Plan: plan } = rows[0]['QUERY PLAN'][0]
    assert.equal(plan['Actual Rows'], 11)
    assert(plan['Shared Hit Blocks'] + plan['Shared Read Blocks'] < 30, JSON.stringify(plan))
  })
})

function assertProbe(name: string, node: Node): void {
  const what = `${name}: ${node['Node Type']} on ${node['Relation Name']} ${node['Index Name'] ?? ''}`
  assert(!/Hash Join|Merge Join|Bitmap/.test(node['Node Type']), what)
  if (node['Relation Name'] === undefined || node['Relation Name'] === 'worker') return
  if (node['Node Type'] === 'Seq Scan') assert.fail(what)
  if (!node['Node Type'].startsWith('Index')) return
  assert(node['Index Cond'] !== undefined || mayScanWhole.has(node['Index Name'] ?? ''), `${what} without a condition`)
}
