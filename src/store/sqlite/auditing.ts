import { type AuditEntry, type AuditRow, auditHash, auditStart } from '../../domain/audit.ts'
import { encodeId } from '../../domain/ids.ts'
import { type Auditing, hashText } from '../auditing.ts'
import { type Page, toPage } from '../page.ts'
import type { Connection, Synchronous } from './connection.ts'

const selectLast = 'select n, hash from audit order by n desc limit 1'
const insertAudit = `
  insert into audit (n, id, at, actor, ip, action, app, target, before, after, hash)
  values (:n, :id, :at, :actor, :ip, :action, :app, :target, :before, :after, :hash)`
const matching = `
  (:actor is null or actor = :actor) and (:action is null or action = :action) and (:app is null or app = :app)
  and (:since is null or at > :since) and (:until is null or at < :until)`
// A range of the primary key in its order; the filters are checked row by row.
const selectUp = `select * from audit where n > :start and ${matching} order by n limit :limit`
const selectDown = `select * from audit where n < :start and ${matching} order by n desc limit :limit`

/** The audit log. */
export function auditing(connection: Connection): Synchronous<Auditing> {
  const last = connection.prepare<{ n: number; hash: string }>(selectLast)
  const insert = connection.prepare(insertAudit)
  const up = connection.prepare<AuditRow>(selectUp)
  const down = connection.prepare<AuditRow>(selectDown)

  function append(entry: AuditEntry): AuditRow {
    const { n: before = 0, hash: previous = auditStart } = last.get() ?? {}
    const n = before + 1
    const row = { ...entry, n, id: encodeId('audit', n, connection.context.randomText), at: connection.now() }
    const whole = { ...row, hash: auditHash(row, previous, hashText) }
    insert.run(whole)
    return whole
  }
  connection.appendAudit = append

  return {
    appendAudit: (entry) => connection.transaction(() => append(entry)),

    listAudit({ limit, order, after }, filter): Page<AuditRow> {
      const start = after ?? (order === 'ascending' ? 0 : Number.MAX_SAFE_INTEGER)
      const rows = (order === 'ascending' ? up : down).all({ ...filter, start, limit: limit + 1 })
      return toPage(rows, limit, (row) => ({ ...row }))
    },
  }
}
