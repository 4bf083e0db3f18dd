import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { after, before, test } from 'node:test'
import { registeredStatements } from '../../../src/store/sql/statement.ts'
import { openSqliteStore } from '../../../src/store/sqlite/open.ts'
import type { Store } from '../../../src/store/store.ts'
import { VirtualClock } from '../../virtual-clock.ts'
import { contextWith } from '../sqlite-harness.ts'

/** Every statement of the store: those that it prepares when it opens, and those that are registered. */
const statements = new Set<string>()
let db: DatabaseSync
let store: Store

after(() => store.close())

before(async () => {
  const { prepare } = DatabaseSync.prototype
  DatabaseSync.prototype.prepare = function (this: DatabaseSync, sql: string) {
    db = this
    if (/^\s*(select|insert|update|delete|with)\b/.test(sql)) statements.add(sql)
    return prepare.call(this, sql)
  }
  try {
    store = await openSqliteStore(contextWith(new VirtualClock()), { path: ':memory:', role: 'owner' })
  } finally {
    DatabaseSync.prototype.prepare = prepare
  }
  for (const sql of registeredStatements('sqlite').values()) statements.add(sql)
})

/** SQLite plans a statement again at each use whose limit is a bare parameter. */
test('no statement is planned at each use because of its limit', () => {
  assert.deepEqual(
    [...statements].filter((sql) => /\blimit\s+[:?]/.test(sql)),
    [],
  )
})

function planOf(sql: string): string[] {
  const rows = db.prepare(`explain query plan ${sql}`).all()
  return rows.map((row) => String(row.detail))
}

/** The statement of that name, or one that has all of these words. */
function statement(...words: string[]): string {
  const named = registeredStatements('sqlite').get(words[0] ?? '')
  if (named !== undefined) return named
  const found = [...statements].filter((sql) => words.every((word) => sql.replaceAll(/\s+/g, ' ').includes(word)))
  assert(found[0] !== undefined, `no statement has ${words}`)
  return found[0]
}

// When the clock was set, all lanes are looked at once. Counting is for operators and tests; worker is a handful of rows,
// event types are a few hundred at most, and of the messages being expanded the first is wanted. What is counted in pages
// is read in pages.
const mayScan = [
  'select key from message limit 1',
  'from sqlite_schema',
  // A row for each migration.
  'as since from migration',
  "from pragma_table_info('migration')",
  // The two rows that are first of their class.
  ') as fronts',
  ') as heads',
  'update lane set bucket_full_at = bucket_full_at + iif(bucket_full_at > 0, :by, 0)',
  'update lane set health_at = health_at + ?',
  'from sealing_key',
  // One row for each region with a dead-letter file.
  "from dead_file where region >= ''",
  // Up to 500 views of a server.
  'select count(*) as count from saved_view',
  // One key, as a rule.
  'from signing_key',
  // Two pages by key, merged.
  ') as unread) as found',
  'select key from message limit 1',
  'from notice order by key limit',
  'select (select count(*) from pending)',
  'from worker',
  'update worker',
  'from api_key where revoked',
  'delete from web_session where key <> :except',
  'from alert',
  'from event_type',
  'from fan_out',
  'from audit order by n desc limit 1',
  'as page join lane',
  // A page of lanes is sorted by the way they look.
  'group by owned, stopped, due',
  // A few places of one queue are put in their order.
  'as numbered where n %',
  // Of a fleet with regions, a few times per lease.
  'group by owner, region',
  'group by region',
  'update event_type',
  'update leader',
]

test('no statement scans a table or sorts, but those that must', () => {
  assert(statements.size > 40)
  for (const sql of statements) {
    if (mayScan.some((words) => sql.includes(words))) continue
    for (const detail of planOf(sql)) {
      // A covering scan of the partial index over owned lanes is the count of owned lanes; few tasks run at a time. The inbox is read
      // from its first rows.
      if (/USING (COVERING )?INDEX (lane_(owner|due)|task_running|sluice_inbox_(waiting|refused))/.test(detail))
        continue
      const [, scanned = ''] = /^SCAN (\w+)/.exec(detail) ?? []
      // A table that the statement itself made, of rows that it found.
      if (scanned !== '' && sql.includes(`) as ${scanned}`)) continue
      assert.doesNotMatch(detail, /^SCAN (?!CONSTANT ROW|json_each|walk|\(subquery)|TEMP B-TREE/, `${sql}\n${detail}`)
    }
  }
})

const pins: [what: string, words: string[], plan: string[]][] = [
  [
    'names that stand for another path are found without reading the names of others',
    ['folded-names'],
    [
      'COMPOUND QUERY',
      'LEFT-MOST SUBQUERY',
      'SEARCH application USING INDEX application_uid (uid=?)',
      'UNION ALL',
      'SEARCH endpoint USING INDEX endpoint_folded (uid=?)',
      'UNION ALL',
      'SEARCH schedule USING INDEX schedule_folded (uid=?)',
      'UNION ALL',
      'SEARCH source USING INDEX source_named (uid=?)',
      'UNION ALL',
      'SEARCH event_type USING PRIMARY KEY (name=?)',
    ],
  ],
  [
    'schedules are taken in the order they are due',
    ['from schedule where due_at <= :at'],
    [
      'SEARCH schedule USING INDEX schedule_due (due_at<?)',
      'CORRELATED SCALAR SUBQUERY 1',
      'SEARCH application USING INTEGER PRIMARY KEY (rowid=?)',
    ],
  ],
  [
    'old messages are a range of their keys',
    ['from message where key > ? and key < ?', 'event_id, endpoints'],
    ['SEARCH message USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)'],
  ],
  [
    'new rows of taken hashes are the end of a range of their primary key',
    ['select seq, mark, hash from taken_hash'],
    ['SEARCH taken_hash USING PRIMARY KEY (day=? AND seq>?)'],
  ],
  [
    'a slice of a run is found by its place',
    ['select entries from taken_run'],
    ['SEARCH taken_run USING INDEX sqlite_autoindex_taken_run_1 (day=? AND level=? AND run=? AND slice=?)'],
  ],
  [
    'waiting deliveries are counted by a range of their primary key',
    ['last-waiting'],
    ['SEARCH pending USING PRIMARY KEY ((endpoint,class,due_at,message)>(?,?,?,?))'],
  ],
  [
    'a delivery is sought in a range of its queue',
    ['search-queues'],
    [
      'SCAN json_each VIRTUAL TABLE INDEX 1:',
      'SEARCH pending USING PRIMARY KEY (endpoint=? AND class=? AND due_at>? AND due_at<?)',
      'LIST SUBQUERY 2',
      'SCAN json_each VIRTUAL TABLE INDEX 1:',
      'CREATE BLOOM FILTER',
    ],
  ],
  [
    'the first endpoint of an application is one seek of its index',
    ['first.key from endpoint'],
    [
      'SCAN json_each VIRTUAL TABLE INDEX 1:',
      'SEARCH endpoint USING INTEGER PRIMARY KEY (rowid=?)',
      'CORRELATED SCALAR SUBQUERY 2',
      'SEARCH first USING INDEX endpoint_app (app=?)',
    ],
  ],
  [
    'rows are deleted by their whole key',
    ['delete-queued'],
    [
      'SEARCH pending USING PRIMARY KEY (endpoint=? AND class=? AND due_at=? AND message=?)',
      'LIST SUBQUERY 2',
      'SCAN json_each VIRTUAL TABLE INDEX 1:',
    ],
  ],
  [
    "a chunk of a deleted endpoint's queue is a range of its primary key",
    ['cancel-pending'],
    [
      'SEARCH pending USING PRIMARY KEY (endpoint=? AND class=? AND due_at=? AND message=?)',
      'LIST SUBQUERY 2',
      'SEARCH pending USING PRIMARY KEY (endpoint=?)',
    ],
  ],
  [
    'what was deleted is taken in the order it is due',
    ['due-removal'],
    ['SEARCH removal USING INDEX removal_due (due_at<?)'],
  ],
  [
    'an API key is found by its hash',
    ['from api_key where hash = :hash'],
    [
      'SEARCH api_key USING INDEX sqlite_autoindex_api_key_1 (hash=?)',
      'CORRELATED SCALAR SUBQUERY 3',
      'SEARCH application USING INTEGER PRIMARY KEY (rowid=?)',
      'CORRELATED SCALAR SUBQUERY 1',
      'SEARCH application USING INTEGER PRIMARY KEY (rowid=?)',
      'CORRELATED SCALAR SUBQUERY 2',
      'SEARCH application USING INTEGER PRIMARY KEY (rowid=?)',
    ],
  ],
  [
    'a page of the audit log is a range of its numbers',
    ['from audit', 'n < :after'],
    ['SEARCH audit USING INTEGER PRIMARY KEY (rowid<?)'],
  ],
  [
    'the head of a queue is a range of its primary key',
    ['as "ageMs"', 'class = ?3 and', '(?4, ?5) order by'],
    ['SEARCH pending USING PRIMARY KEY (endpoint=? AND class=? AND (due_at,message)>(?,?))'],
  ],
  [
    'what is due of the timed class is a range of the same key',
    ['as "ageMs"', 'class = ?3 and', 'due_at <= ?1'],
    ['SEARCH pending USING PRIMARY KEY (endpoint=? AND class=? AND (due_at,message)>(?,?) AND due_at<?)'],
  ],
  [
    'a short queue is read in the order of its range of the primary key',
    ['select class, pending.message', 'from pending where endpoint = ?2'],
    ['SEARCH pending USING PRIMARY KEY (endpoint=?)'],
  ],
  [
    'when the next timed row is due is one seek',
    ['select min(due_at)', 'due_at > ?'],
    ['SEARCH pending USING PRIMARY KEY (endpoint=? AND class=? AND due_at>?)'],
  ],
  [
    'a row is settled by its whole key',
    ['delete from pending'],
    ['SEARCH pending USING PRIMARY KEY (endpoint=? AND class=? AND due_at=? AND message=?)'],
  ],
  [
    'lanes are claimed in the order of the index over those that are due',
    ['lane.due_at <= :now', "lane.region = 'default'"],
    [
      'SEARCH lane USING INDEX lane_due (due_at<?)',
      'SEARCH endpoint USING INTEGER PRIMARY KEY (rowid=?)',
      'CORRELATED SCALAR SUBQUERY 1',
      'SEARCH application USING INTEGER PRIMARY KEY (rowid=?)',
      'CORRELATED SCALAR SUBQUERY 2',
      'SEARCH application USING INTEGER PRIMARY KEY (rowid=?)',
      'CORRELATED SCALAR SUBQUERY 3',
      'SEARCH application USING INTEGER PRIMARY KEY (rowid=?)',
      'CORRELATED SCALAR SUBQUERY 4',
      'SEARCH region USING PRIMARY KEY (app=? AND name=?)',
    ],
  ],
  [
    'lanes of a region are claimed in the order of its range of an index',
    ['lane.due_at <= :now', 'lane.region = +:region'],
    [
      'SEARCH lane USING INDEX lane_region_due (region=? AND due_at<?)',
      'SEARCH endpoint USING INTEGER PRIMARY KEY (rowid=?)',
      'CORRELATED SCALAR SUBQUERY 1',
      'SEARCH application USING INTEGER PRIMARY KEY (rowid=?)',
      'CORRELATED SCALAR SUBQUERY 2',
      'SEARCH application USING INTEGER PRIMARY KEY (rowid=?)',
      'CORRELATED SCALAR SUBQUERY 3',
      'SEARCH application USING INTEGER PRIMARY KEY (rowid=?)',
      'CORRELATED SCALAR SUBQUERY 4',
      'SEARCH region USING PRIMARY KEY (app=? AND name=?)',
    ],
  ],
  [
    'the next application with unowned lanes is one seek',
    ['(app, region) > (:app, +:region)'],
    ['SEARCH lane USING INDEX lane_app_due ((app,region)>(?,?))'],
  ],
  [
    'the due lanes of an application are a range of an index',
    ['due_at <= +:now and app = :app and region = +:region'],
    ['SEARCH lane USING INDEX lane_app_due (app=? AND region=? AND due_at<?)'],
  ],
  [
    'the next lane of a region is one seek',
    ['select min(due_at)', 'lane.region = +:region'],
    ['SEARCH lane USING INDEX lane_region_due (region=? AND due_at>?)'],
  ],
  [
    "a dead worker's lanes are found by their owner",
    ['orphan-lanes'],
    [
      'SEARCH lane USING COVERING INDEX lane_owner (owner=?)',
      'LIST SUBQUERY 1',
      'SCAN json_each VIRTUAL TABLE INDEX 1:',
    ],
  ],
  [
    'the sweep seeks from one endpoint to the next',
    ['select min(endpoint)'],
    ['SEARCH pending USING PRIMARY KEY (endpoint>?)'],
  ],
  [
    'what has expired is a range of the index over what can',
    ['find-expired'],
    [
      'SEARCH pending USING INDEX pending_expires (expires_at>? AND expires_at<?)',
      'CORRELATED SCALAR SUBQUERY 1',
      'SEARCH lane USING INTEGER PRIMARY KEY (rowid=?)',
    ],
  ],
  [
    'the head of a class, due or not, is a range of its primary key',
    ['as "ageMs"', 'class = :class order by'],
    ['SEARCH pending USING PRIMARY KEY (endpoint=? AND class=?)'],
  ],
  [
    'a woken lane is found by its key',
    ['update lane set due_at = max(?2'],
    ['SEARCH lane USING INTEGER PRIMARY KEY (rowid=?)'],
  ],
  [
    "a page of endpoints is a range of its application's",
    ['endpoints'],
    ['SEARCH endpoint USING INDEX endpoint_app (app=? AND key>?)'],
  ],
  [
    'the next endpoints of a deleted application are a range of its own',
    ['endpoints-to-remove'],
    ['SEARCH endpoint USING INDEX endpoint_app (app=? AND key>?)'],
  ],
  [
    'dead letters that are too old are a range of those by their end',
    ['delete-old-dead'],
    [
      'SEARCH dead USING PRIMARY KEY (endpoint=? AND message=?)',
      'LIST SUBQUERY 2',
      'SEARCH dead USING COVERING INDEX dead_died (died_at<?)',
    ],
  ],
  [
    'coalescing windows that have ended are a range of their index',
    ['sweep-windows'],
    [
      'SEARCH coalescing USING PRIMARY KEY (endpoint=? AND key=?)',
      'LIST SUBQUERY 2',
      'SEARCH coalescing USING COVERING INDEX coalescing_due (due_at<?)',
    ],
  ],
  [
    'an event id is looked up by key',
    ['select message.id from event_id'],
    ['SEARCH event_id USING PRIMARY KEY (app=? AND event_id=?)', 'SEARCH message USING INTEGER PRIMARY KEY (rowid=?)'],
  ],
  [
    "a page of an application's messages is a range of theirs",
    ['messages-down'],
    ['SEARCH message USING INDEX message_app (app=? AND rowid>? AND rowid<?)'],
  ],
  [
    "a page of an endpoint's attempts is a range of theirs",
    ['from attempt', 'order by at desc, message desc, n desc'],
    [
      'SEARCH attempt USING INDEX attempt_endpoint (endpoint=? AND at>? AND at<?)',
      'CORRELATED SCALAR SUBQUERY 1',
      'SEARCH later USING PRIMARY KEY (message=? AND endpoint=? AND n>?)',
    ],
  ],
  [
    "a page of an application's dead letters is a range of theirs",
    ['dead-of-app'],
    ['SEARCH dead USING INDEX dead_app (app=? AND died_at>? AND died_at<?)'],
  ],
  [
    "a page of an endpoint's dead letters is a range of theirs",
    ['dead-of-endpoint-down'],
    ['SEARCH dead USING INDEX dead_endpoint (endpoint=? AND died_at>? AND died_at<?)'],
  ],
  [
    'a page of all dead letters is a range of them',
    ['all-dead'],
    ['SEARCH dead USING INDEX dead_died (died_at>? AND died_at<?)'],
  ],
  [
    "an endpoint's dead letters of some time are counted without reading them",
    ['count-dead-of-endpoint'],
    [
      'CO-ROUTINE listed',
      'SEARCH dead USING COVERING INDEX dead_endpoint (endpoint=? AND died_at>? AND died_at<?)',
      'SCAN listed',
    ],
  ],
  [
    "a page of a scope's history is a range of its primary key",
    ['history'],
    ['SEARCH history USING PRIMARY KEY (scope=? AND span=? AND (at,writer)>(?,?) AND at<?)'],
  ],
  [
    'the outcomes of several scopes are one range each',
    ['history-outcomes'],
    [
      'SEARCH history USING PRIMARY KEY (scope=? AND span=? AND at>? AND at<?)',
      'LIST SUBQUERY 1',
      'SCAN json_each VIRTUAL TABLE INDEX 1:',
    ],
  ],
  [
    'history that is not folded yet is a range of the index over it',
    ['unfolded-history'],
    ['SEARCH history USING INDEX history_unfolded (at<?)'],
  ],
  [
    'a task to take is sought among those that run',
    ['select key from task', 'order by lease_until'],
    ['SCAN task USING COVERING INDEX task_running'],
  ],
]

for (const [what, words, plan] of pins) {
  test(what, () => assert.deepEqual(planOf(statement(...words)), plan))
}
