import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import pg from 'pg'
import { selectApiKey, selectAppToken } from '../../../src/store/postgres/access.ts'
import { selectAudit } from '../../../src/store/postgres/auditing.ts'
import { endRows, findExpired, findResting, readHeads } from '../../../src/store/postgres/bounding.ts'
import {
  countAllDead,
  countDeadByMessage,
  countDeadOfApp,
  countDeadOfEndpoint,
  countEndpoints,
  countMessages,
  selectAccepted,
  selectAllDead,
  selectAttempts,
  selectDeadByMessage,
  selectDeadOfApp,
  selectDeadOfEndpoint,
  selectHeads,
  selectLatest,
  selectMessages,
  selectOwnAttempts,
} from '../../../src/store/postgres/browsing.ts'
import {
  deleteEnded,
  findWaiting,
  joinWindows,
  joinWindowsLate,
  replaceWaiting,
  selectCoalesced,
} from '../../../src/store/postgres/coalescing.ts'
import { loadOutgoing, loadOutgoingVariants, readPending } from '../../../src/store/postgres/delivering.ts'
import { expandOldest } from '../../../src/store/postgres/fan-out.ts'
import { selectFirst } from '../../../src/store/postgres/heads.ts'
import { selectDeadAmong } from '../../../src/store/postgres/history.ts'
import { deleteExpired, selectTaken, takeHashes } from '../../../src/store/postgres/idempotency.ts'
import { rouseLanes, wakeLanes } from '../../../src/store/postgres/lane-wakes.ts'
import { claimLanes, releaseLanes, renewLease } from '../../../src/store/postgres/ownership.ts'
import { queuePlanned } from '../../../src/store/postgres/planned.ts'
import {
  publishOnce,
  publishOnceWithEventIds,
  publishPlain,
  publishPlanned,
  publishWithEventIds,
} from '../../../src/store/postgres/publish-statement.ts'
import { findOversleepers, repairLanes } from '../../../src/store/postgres/reconcile.ts'
import { cancelPending, selectDueRemoval } from '../../../src/store/postgres/removals.ts'
import { selectByEventIds } from '../../../src/store/postgres/repeats.ts'
import {
  cancelQueued,
  findQueuedRow,
  findReplayed,
  replayDeliveries,
  selectLane,
  selectPlans,
} from '../../../src/store/postgres/replaying.ts'
import { deleteOldDead, deleteOldTasks, selectPayloadEnds } from '../../../src/store/postgres/retention.ts'
import { selectDueSchedules, selectNextSchedule } from '../../../src/store/postgres/schedules.ts'
import { type Statement, sessionSettings } from '../../../src/store/postgres/sessions.ts'
import { holdRows, lockRows, settleBatch } from '../../../src/store/postgres/settling.ts'
import {
  firstOfLine,
  saveAnswers,
  selectAnswers,
  selectRow,
  selectWaiting,
} from '../../../src/store/postgres/standing.ts'
import { lockDead, purgeDead, selectTasks, takeFree } from '../../../src/store/postgres/tasks.ts'
import { countPage } from '../../../src/store/postgres/waiting.ts'
import { newDatabase } from '../postgres-harness.ts'

// Every hot statement, with the index and the condition each scan of a table that can grow must have.
const hot: [Statement, RegExp[]][] = [
  [readPending, [/endpoint = \S+ AND class = \S+ AND .*due_at, message > .* AND due_at <= /, /due_at > \S+\.now/]],
  [loadOutgoing, [/key = ANY/]],
  [loadOutgoingVariants, [/message = w\S*\.message AND n = w\S*\.n/, /key = w\S*\.message/]],
  [cancelPending, [/endpoint = \$1/]],
  [selectDueRemoval, [/due_at <= /]],
  [lockRows, [/endpoint = l\.endpoint AND class = l\.class AND due_at = \S+ AND message = /]],
  [holdRows, [/endpoint = h\.endpoint AND class = h\.class AND due_at = \S+ AND message = /]],
  [settleBatch, [/endpoint = \S+ AND class = \S+ AND due_at = \S+ AND message = /]],
  [claimLanes, [/due_at <= \S+/, /endpoint = ANY/, /key = lane_\d\.endpoint|key = \S*endpoint/]],
  [releaseLanes, [/endpoint = ANY/]],
  [renewLease, [/id = \$1/]],
  [wakeLanes, [/endpoint = ANY/]],
  [rouseLanes, [/class = 0/, /class = 2/, /class = 1/, /endpoint = ANY/]],
  [findOversleepers, [/endpoint > \$1/, /class = 0/, /class = 2/, /class = 1/]],
  [repairLanes, [/class = 0/, /class = 2/, /class = 1/, /endpoint = ANY/]],
  [findResting, [/endpoint > \$1/, /endpoint = walk\S*\.endpoint/, /key = walk\S*\.endpoint/, /class = c\.class/]],
  [readHeads, [/endpoint = \$1 AND class = c\.class/]],
  [findExpired, [/expires_at >= \$1 AND expires_at <= /, /endpoint = p\.endpoint/]],
  [endRows, [/endpoint = ANY/, /endpoint = w\S*\.endpoint AND class = \S+ AND due_at = \S+ AND message = /]],
  [selectDeadAmong, [/endpoint = w\S*\.endpoint AND message = w\S*\.message/]],
  [publishPlain, [/key = m\.app/]],
  [publishWithEventIds, [/key = m\.app/]],
  [publishOnce, [/key = m\.app/, /hash = o\S*\.hash/]],
  [publishOnceWithEventIds, [/key = m\.app/, /hash = o\S*\.hash/]],
  [publishPlanned, [/key = m\.app/, /hash = o\S*\.hash/]],
  [queuePlanned, [/endpoint = p\.endpoint AND class = 0/]],
  [selectFirst, [/endpoint = \$1 AND class = 0/, /endpoint = \$1 AND class = 1 AND due_at <= /]],
  [selectTaken, [/hash = o\S*\.hash/, /key = idempotency\.message|key = i\.message/]],
  [takeHashes, []],
  [deleteExpired, [/expires_at <= /]],
  [joinWindows, []],
  [joinWindowsLate, []],
  [replaceWaiting, [/endpoint = r\S*\.endpoint AND class = 1 AND due_at = \S+ AND message = /]],
  [findWaiting, [/endpoint = w\.endpoint AND class = 1 AND due_at = \S+ AND message = /]],
  [selectCoalesced, [/message = w\.message AND endpoint = w\.endpoint/, /key = \S*successor/]],
  [deleteEnded, [/due_at <= /]],
  [expandOldest, [/key = wide\.message/, /key = c\.endpoint/, /message = /]],
  [countPage, [/endpoint, class, due_at, message > /, /endpoint = page\.endpoint/]],
  [selectByEventIds, [/app = wanted\.app AND event_id = wanted\.event_id/, /key = event_id\.message/]],
  [selectApiKey, [/hash = \$1/, /key = k\.app/]],
  [selectAppToken, [/hash = \$1/, /key = t\.app/]],
  [selectAudit.descending, [/n < \$1/]],
  [selectMessages.ascending, [/app = \$1 AND key >= \$2 AND key < \$3 AND key > \$4/]],
  [selectMessages.descending, [/app = \$1 AND key >= \$2 AND key < \$3 AND key < \$4/]],
  [selectHeads, [/key = ANY/]],
  [selectAccepted, [/key = ANY/]],
  [countEndpoints, [/app = \$1 AND key >= \$2 AND key < \$3 AND key > \$4/]],
  [selectAttempts.ascending, [/endpoint = \$1 AND at >= \$2 AND at < \$3 AND at >= \$4/]],
  [selectAttempts.descending, [/endpoint = \$1 AND at >= \$2 AND at < \$3 AND at <= \$4/]],
  [selectOwnAttempts, [/message = \$1 AND endpoint = wanted\.endpoint AND n <= wanted\.n/]],
  [selectLatest, [/message = wanted\.message AND endpoint = wanted\.endpoint/]],
  [selectDeadOfApp.descending, [/app = \$1 AND died_at >= \$2 AND died_at < \$3 AND died_at <= \$4/]],
  [selectAllDead.descending, [/died_at \+ 0 >= \$1 AND died_at \+ 0 < \$2 AND died_at \+ 0 <= \$3/]],
  [countMessages, [/app = \$1 AND key >= \$2 AND key < \$3/]],
  [countAllDead, [/died_at \+ 0 >= \$1 AND died_at \+ 0 < \$2/]],
  [countDeadOfApp, [/app = \$1 AND died_at >= \$2 AND died_at < \$3/]],
  [countDeadOfEndpoint, [/endpoint \+ 0 = \$1 AND died_at >= \$2 AND died_at < \$3/]],
  [countDeadByMessage, [/endpoint = \$1 AND message >= \$2 AND message < \$3/]],
  [selectDeadOfEndpoint.descending, [/endpoint \+ 0 = \$1 AND died_at >= \$2 AND died_at < \$3 AND died_at <= \$4/]],
  [selectDeadByMessage.ascending, [/endpoint = \$1 AND message >= \$2 AND message < \$3 AND message > \$4/]],
  [
    replayDeliveries,
    [/class = 2 AND due_at = w\S*\.made_at AND message = /, /class = 1 AND due_at = w\S*\.next_at AND message = /],
  ],
  [selectPlans, [/key = ANY/]],
  [findQueuedRow, [/class = 2 AND due_at = w\S*\.made_at AND message = /]],
  [cancelQueued, [/class = 2 AND due_at = w\S*\.made_at AND message = /]],
  [findReplayed, [/class = 2 AND due_at = w\S*\.made_at AND message = /]],
  [selectLane, [/endpoint = \$1/, /key = \$1|key = l\.endpoint/]],
  [saveAnswers, [/endpoint = ANY/]],
  [selectAnswers, [/endpoint = ANY/]],
  [selectWaiting, [/endpoint = asked\.endpoint/]],
  [selectRow, [/endpoint = \$1 AND class = \$2 AND due_at = \$3 AND message = \$4/]],
  [firstOfLine, [/endpoint = \$1 AND class = 0 AND /, /endpoint = \$1 AND class = 1 AND /, /key = firsts\.message/]],
  [selectTasks.descending, [/key < \$1/]],
  [selectDueSchedules, [/due_at <= \$1/, /key = schedule\.app/]],
  [selectNextSchedule, [/due_at > clock\.now/]],
  [deleteOldDead, [/died_at (\+ 0 )?< /]],
  [deleteOldTasks, [/updated_at < /, /key = ANY/]],
  [selectPayloadEnds, [/at <= /]],
  [takeFree, [/key = ANY/]],
  [lockDead, [/endpoint = w\S*\.endpoint AND message = w\S*\.message/]],
  [purgeDead, [/endpoint = w\S*\.endpoint AND message = w\S*\.message/]],
]

// These count, or end at the first row of an index that is already in the wanted order.
const mayScanWhole = new Set(['fan_out_pkey', 'lane_owner', 'lane_due', 'pending_pkey', 'task_running'])

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

  for (const [state, preparation] of states) {
    test(`${state} every scan is a probe`, async () => {
      for (const sql of preparation) await client.query(sql)
      for (const [statement, conditions] of hot) {
        const { rows } = await client.query(`explain (generic_plan, format json) ${statement.text}`)
        const nodes = [...nodesOf(rows[0]['QUERY PLAN'][0].Plan)]
        const found = nodes.map((node) => (node['Index Cond'] ?? '').replace(/[()]/g, ''))
        for (const condition of conditions) {
          assert(
            found.some((cond) => condition.test(cond)),
            `${statement.name}: no scan with ${condition} in\n${found.join('\n')}`,
          )
        }
        for (const node of nodes) assertProbe(statement, node)
      }
    })
  }

  test('with 100,000 rows parked, reading what is due touches a handful of pages', async () => {
    // The head of the parked queue, which is not due, and ten rows of the other.
    const values = [`'{1,2}'`, `'{1,0}'`, `'{-1,-1}'`, `'{-1,-1}'`, `'{10,10}'`]
    await client.query(`prepare reading as ${readPending.text}`)
    const { rows } = await client.query(
      `explain (analyze, buffers, format json) execute reading (${values.join(', ')})`,
    )
    const { Plan: plan } = rows[0]['QUERY PLAN'][0]
    assert.equal(plan['Actual Rows'], 11)
    assert(plan['Shared Hit Blocks'] + plan['Shared Read Blocks'] < 30, JSON.stringify(plan))
  })
})

function assertProbe(statement: Statement, node: Node): void {
  const what = `${statement.name}: ${node['Node Type']} on ${node['Relation Name']} ${node['Index Name'] ?? ''}`
  assert(!/Hash Join|Merge Join|Bitmap/.test(node['Node Type']), what)
  if (node['Relation Name'] === undefined || node['Relation Name'] === 'worker') return
  if (node['Node Type'] === 'Seq Scan') assert.fail(what)
  if (!node['Node Type'].startsWith('Index')) return
  assert(node['Index Cond'] !== undefined || mayScanWhole.has(node['Index Name'] ?? ''), `${what} without a condition`)
}
