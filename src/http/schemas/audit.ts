import { type Static, Type } from 'typebox'
import type { AuditRow } from '../../domain/audit.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { PageQuery } from '../pagination.ts'
import { instantPattern } from './pattern.ts'

const instant = Type.String({
  pattern: instantPattern,
})

/** A page of the audit log, and which rows of it. */
export const AuditQuery = Type.Object({
  ...PageQuery.properties,
  actor: Type.Optional(Type.String({ maxLength: 256 })),
  action: Type.Optional(Type.String({ maxLength: 256 })),
  app_id: Type.Optional(Type.String({ maxLength: 256 })),
  before: Type.Optional(instant),
  after: Type.Optional(instant),
})
export type AuditQuery = Static<typeof AuditQuery>

/** A row of the audit log as admins see it. */
export function toAuditOut(row: AuditRow) {
  return {
    id: row.id,
    number: row.n,
    timestamp: new Date(row.at).toISOString(),
    actor: row.actor,
    ip: row.ip,
    action: row.action,
    appId: row.app,
    target: row.target,
    before: row.before === null ? null : JSON.parse(row.before),
    after: row.after === null ? null : JSON.parse(row.after),
    hash: row.hash,
  }
}

export function instantOrNull(at: EpochMs | null): string | null {
  return at === null ? null : new Date(at).toISOString()
}
