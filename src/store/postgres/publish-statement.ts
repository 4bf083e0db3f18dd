import type { Identity } from '../../domain/ids.ts'
import { delayOf, isPlain, keptPlan } from '../plan.ts'
import type { Publication } from '../publishing.ts'
import { toJson } from '../sql/statement.ts'
import { isAmong, withClock } from './database.ts'
import {
  booleans,
  integers,
  type PostgresStatement,
  packed,
  postgresStatement,
  provesDurable,
  texts,
} from './sessions.ts'

/**
 * A whole group in one statement, and so in one transaction and one round trip. A publication whose version is outdated
 * drops out in `current`; a publication with a hash that is taken, in `open`; a publication whose event id is taken, by a
 * stored message or an earlier one of the group, in `accepted`. Every group takes event ids and hashes in one order, so
 * that no two deadlock. Deliveries that are not plain are queued by further statements of the same transaction.
 */
function publishStatement(name: string, { hasEventIds = false, hasOnce = false, hasPlans = false }): PostgresStatement {
  return postgresStatement(name)`
    ${withClock}, current as materialized (
      select m.*
        from unnest(
               $1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[],
               $9::text[], $10::bigint[], $11::integer[], $12::integer[], $14::text[], $15::text[], $16::boolean[],
               $17::text[], $18::text[]
               ${hasPlans ? ', $23::bigint[], $24::text[], $25::text[], $26::text[]' : ''}
             ) as m (key, id, app, version, event_type, event_id, channels, content_type, endpoints, delay_ms, start, length,
                     tags, headers, wide, trace, arrived ${hasPlans ? ', expires_in_ms, ordering_key, plan, plain' : ''})
       cross join lateral (
               select from application where key = m.app and version = m.version and deleted_at is null limit 1
             ) as unchanged
    ), ${hasOnce ? sqlOpen : ''} ${hasEventIds ? sqlReserved(hasOnce) : ''} accepted as materialized (
      select * from ${hasOnce ? 'open' : 'current'}
       where ${hasEventIds ? 'event_id is null or key in (select message from reserved)' : 'true'}
    ), stored as (
      insert into message
             (key, id, app, event_type, event_id, channels, content_type, endpoints, body, tags, headers, trace, arrived_headers,
              deliver_at
              ${hasPlans ? ', expires_at, ordering_key, plan' : ''})
      select key, id, app, event_type, event_id, channels::json, content_type, endpoints::bigint[],
             substring($13::bytea from start for length), tags::json, headers::json, trace, arrived::json,
             case when delay_ms > 0 then now + delay_ms end
             ${hasPlans ? ', now + expires_in_ms, ordering_key, plan::json' : ''}
        from clock, accepted
    ), queued as (
      insert into pending
             (endpoint, class, due_at, message, since, attempts, prior_attempts ${hasPlans ? ', expires_at' : ''})
      select endpoint, case when delay_ms > 0 then 1 else 0 end, now + delay_ms, key, now + delay_ms, 0, 0
             ${hasPlans ? ', now + expires_in_ms' : ''}
        from clock, accepted, unnest(${hasPlans ? 'plain' : 'endpoints'}::bigint[]) as endpoint
       where not wide
    ), spread as (
      insert into fan_out (message, since, next) select key, now + delay_ms, 0 from clock, accepted where wide
    )${hasOnce ? sqlTaken : ''}
    select now, (select array_agg(key) from current) as current, (select array_agg(key) from accepted) as accepted,
           ${provesDurable} as is_durable
           ${hasOnce ? sqlAllTaken : ''}
      from clock`
}

// Without the sum, the planner prefers the index over expires_at, and reads every row that has not expired.
const sqlOpen = `
  once as materialized (
    select * from unnest($19::bigint[], $20::text[], $21::text[], $22::bigint[]) as o (key, hash, fingerprint, ttl_ms)
  ), used as materialized (
    select o.key from clock, once o
     cross join lateral (select from idempotency where hash = o.hash and expires_at + 0 > now limit 1) as i
  ), open as materialized (
    select * from current where key not in (select key from used)
  ),`

function sqlReserved(hasOnce: boolean): string {
  return `
    reserved as (
      insert into event_id (app, event_id, message)
      select app, event_id, key from ${hasOnce ? 'open' : 'current'}
       where event_id is not null order by app, event_id, key
      on conflict do nothing
      returning message
    ),`
}

const sqlTaken = `
  , taking as materialized (
    select once.* from once where ${isAmong('key', 'select key from accepted')}
  ), taken as (
    insert into idempotency (hash, fingerprint, expires_at, message)
    select hash, fingerprint, now + ttl_ms, key from clock, taking order by hash
    on conflict (hash) do update
      set fingerprint = excluded.fingerprint, expires_at = excluded.expires_at, message = excluded.message,
          status = null, answer = null
      where idempotency.expires_at <= (select now from clock)
    returning 1
  )`

/**
 * Divides by zero when another process took one of the hashes between the read and the insert. The error undoes the
 * statement, and the group is stored once more: then the read finds the hash.
 */
const sqlAllTaken = `
  , 1 / (case when (select count(*) from taken) = (select count(*) from taking) then 1 else 0 end) as all_taken`
/** The SQLSTATE of that error. */
export const overtaken = '22012'

const publishPlain = publishStatement('publish', {})
const publishWithEventIds = publishStatement('publish-event-ids', { hasEventIds: true })
const publishOnce = publishStatement('publish-once', { hasOnce: true })
const publishOnceWithEventIds = publishStatement('publish-once-event-ids', { hasEventIds: true, hasOnce: true })
// With all parts, so that one statement serves every group that is not plain.
const publishPlanned = publishStatement('publish-planned', { hasEventIds: true, hasOnce: true, hasPlans: true })

/** The answer of a publish statement. */
export interface PublishAnswer {
  readonly now: number
  /** The keys of publications at the current version. */
  readonly current: number[] | null
  readonly accepted: number[] | null
}

/** The statement that stores these publications under these identities, and its parameters. */
export function publishing(
  publications: readonly Publication[],
  identities: readonly Identity[],
  wide: readonly boolean[],
): readonly [PostgresStatement, unknown[]] {
  const statement = statementFor(publications)
  const values: unknown[] = [integers(identities.map((i) => i.key)), texts(identities.map((i) => i.id))]
  values.push(...contentsOf(publications, wide))
  if (statement !== publishPlain && statement !== publishWithEventIds) values.push(...onceOf(publications, identities))
  if (statement === publishPlanned) values.push(...plansOf(publications, wide))
  return [statement, values]
}

function statementFor(publications: readonly Publication[]): PostgresStatement {
  if (!publications.every(isPlain)) return publishPlanned
  const hasEventIds = publications.some((p) => p.eventId !== null)
  if (publications.some((p) => p.once !== undefined && p.once.length > 0)) {
    return hasEventIds ? publishOnceWithEventIds : publishOnce
  }
  return hasEventIds ? publishWithEventIds : publishPlain
}

/** Parameters 3 to 18 of a publish statement. */
function contentsOf(publications: readonly Publication[], wide: readonly boolean[]): unknown[] {
  const bodies = packed(publications.map((p) => p.body))
  return [
    integers(publications.map((p) => p.app)),
    integers(publications.map((p) => p.version)),
    texts(publications.map((p) => p.eventType)),
    texts(publications.map((p) => p.eventId)),
    texts(publications.map((p) => toJson(p.channels))),
    texts(publications.map((p) => p.contentType)),
    texts(publications.map((p) => integers(p.endpoints))),
    integers(publications.map(delayOf)),
    bodies.starts,
    bodies.lengths,
    bodies.bytes,
    texts(publications.map((p) => toJson(p.tags ?? null))),
    texts(publications.map((p) => toJson(p.headers ?? null))),
    booleans(wide),
    texts(publications.map((p) => p.trace ?? null)),
    texts(publications.map((p) => toJson(p.arrivedHeaders ?? null))),
  ]
}

/** Parameters 19 to 22. */
function onceOf(publications: readonly Publication[], identities: readonly Identity[]): string[] {
  const list = publications.flatMap(({ once = [] }, i) =>
    once.map((each) => ({ ...each, key: identities[i]?.key as number })),
  )
  return [
    integers(list.map((each) => each.key)),
    texts(list.map((each) => each.hash)),
    texts(list.map((each) => each.fingerprint)),
    integers(list.map((each) => Math.ceil(each.ttlMs))),
  ]
}

/** Parameters 23 to 26. */
function plansOf(publications: readonly Publication[], wide: readonly boolean[]): string[] {
  return [
    integers(publications.map(({ expiresInMs }) => (expiresInMs == null ? null : Math.floor(expiresInMs)))),
    texts(publications.map(({ orderingKey }) => orderingKey ?? null)),
    texts(publications.map(({ special }, i) => keptPlan(special, wide[i] === true))),
    texts(publications.map(plainOnes)),
  ]
}

/** The endpoints whose deliveries the publish statement queues itself. */
function plainOnes({ endpoints, special }: Publication): string {
  if (!special?.length) return integers(endpoints)
  const others = new Set(special.map(({ endpoint }) => endpoint))
  return integers(endpoints.filter((endpoint) => !others.has(endpoint)))
}
