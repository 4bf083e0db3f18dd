import { AsyncLocalStorage } from 'node:async_hooks'
import { type AuditEntry, type AuditRow, auditHash, auditStart } from '../../domain/audit.ts'
import { encodeId } from '../../domain/ids.ts'
import { type Auditing, hashText, type Trail, type Trailing } from '../auditing.ts'
import { toPage } from '../page.ts'
import type { StoreContext } from '../store.ts'
import type { Database } from './database.ts'
import { locks } from './migrate.ts'
import { sqlNow } from './server-time.ts'
import type { Run, Statement } from './sessions.ts'

// Rows are appended one after the other, over all processes: each needs the hash of the one before it. The next statement
// sees what was committed while this one waited. It is the last lock a transaction takes, so that nobody waits in a ring.
const lockAudit: Statement = { name: 'lock-audit', text: `select pg_advisory_xact_lock(${locks.audit})` }
// A transaction has an id of its own once it has changed something.
const selectChanged: Statement = {
  name: 'has-changed',
  text: 'select pg_current_xact_id_if_assigned() is not null as changed',
}
const selectLast: Statement = {
  name: 'last-audit',
  text: `
    select ${sqlNow} as now, last.n, last.hash
      from (select) as one left join lateral (select n, hash from audit order by n desc limit 1) as last on true`,
}
const insertAudit: Statement = {
  name: 'insert-audit',
  text: `
    insert into audit (n, id, at, actor, ip, action, app, target, before, after, hash)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
}

const columns = 'n, id, at, actor, ip, action, app, target, before, after, hash'
const matching = `
  ($3::text is null or actor = $3) and ($4::text is null or action = $4) and ($5::text is null or app = $5)
  and ($6::bigint is null or at > $6) and ($7::bigint is null or at < $7)`
// A range of the primary key in its order; the filters are checked row by row.
export const selectAudit: Readonly<Record<'ascending' | 'descending', Statement>> = {
  ascending: {
    name: 'audit-up',
    text: `select ${columns} from audit where n > $1 and ${matching} order by n limit $2`,
  },
  descending: {
    name: 'audit-down',
    text: `select ${columns} from audit where n < $1 and ${matching} order by n desc limit $2`,
  },
}

/** The audit log. */
export function auditing({ context, durable }: Database): Auditing & Trailing {
  const trails = new AsyncLocalStorage<Trail>()
  const append = auditAppender(context)

  async function takeAlong(run: Run, trail: Trail): Promise<() => void> {
    const [row] = await run<{ changed: boolean }>(selectChanged)
    if (row?.changed !== true) return () => {}
    await append(run, trail.entry)
    return () => {
      trail.written = true
    }
  }

  durable.beforeCommit = (run) => {
    const trail = trails.getStore()
    return trail === undefined || trail.written ? undefined : takeAlong(run, trail)
  }

  return {
    appendAudit: (entry) => durable.transaction((run) => append(run, entry)),
    trailing: (trail, work) => trails.run(trail, work),

    async listAudit({ limit, order, after }, { actor, action, app, since, until }) {
      const start = after ?? (order === 'ascending' ? 0 : Number.MAX_SAFE_INTEGER)
      const values = [start, limit + 1, actor, action, app, since, until]
      const rows = await durable.run<AuditRow>(selectAudit[order], values)
      return toPage(rows, limit, (row) => row)
    },
  }
}

/** Makes what appends an entry within the transaction that is open. */
export function auditAppender(context: StoreContext): (run: Run, entry: AuditEntry) => Promise<AuditRow> {
  return async (run, entry) => {
    await run(lockAudit)
    const [last] = await run<{ now: number; n: number | null; hash: string | null }>(selectLast)
    const n = (last?.n ?? 0) + 1
    const row = { ...entry, n, id: encodeId('audit', n, context.randomText), at: last?.now as number }
    const hash = auditHash(row, last?.hash ?? auditStart, hashText)
    const { id, at, actor, ip, action, app, target, before, after } = row
    await run(insertAudit, [n, id, at, actor, ip, action, app, target, before, after, hash])
    return { ...row, hash }
  }
}
