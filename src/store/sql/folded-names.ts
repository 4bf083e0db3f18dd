import type { FoldedName, FoldedNames } from '../configuration.ts'
import type { Methods, Port } from './port.ts'
import { statement } from './statement.ts'

/** The words of the indexes of such rows: no others match them. */
const folded = `uid in ('.', '..')`

// Leans on application_uid, endpoint_folded, schedule_folded, source_named and the primary key of event_type.
const selectFolded = statement<FoldedName>('folded-names')`
  select 'application' as noun, id, uid as name, key as app from application
   where ${folded} and uid is not null and deleted_at is null
  union all
  select 'endpoint' as noun, id, uid as name, app from endpoint where ${folded} and deleted_at is null
  union all
  select 'schedule' as noun, id, uid as name, app from schedule where ${folded}
  union all
  select 'source' as noun, id, uid as name, app from source where ${folded} and uid is not null
  union all
  select 'event type' as noun, name as id, name, null as app from event_type where name in ('.', '..')
   limit :limit`

/** Names that no client can write into a URL. */
export function foldedNames(port: Port): Methods<FoldedNames> {
  return { foldedNames: (limit) => port.all(selectFolded, { limit }) }
}
