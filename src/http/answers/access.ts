import { Type } from 'typebox'
import { nullable } from '../schemas/field.ts'
import { Instant } from './field.ts'

/** What lets somebody into an application's portal. */
export const AppPortalAccessOut = Type.Object({ url: Type.String(), token: Type.String() })

/** A row of the audit log. */
export const AuditOut = Type.Object({
  id: Type.String(),
  number: Type.Integer(),
  timestamp: Instant,
  actor: Type.String(),
  ip: nullable(Type.String()),
  action: Type.String(),
  appId: nullable(Type.String()),
  target: nullable(Type.String()),
  before: Type.Unknown(),
  after: Type.Unknown(),
  hash: Type.String({ description: 'Over this row and the hash before it' }),
})

/** Whether the audit log is as it was written. */
export const AuditVerifyOut = Type.Object({
  whole: Type.Boolean(),
  rows: Type.Integer(),
  head: Type.String({ description: 'Worth keeping elsewhere: it shows a later cut at the end' }),
  brokenAt: nullable(Type.Integer()),
})
