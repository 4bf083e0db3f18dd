import { quotaExceeded } from '../../domain/app-error.ts'
import { isSame } from '../../domain/field.ts'
import { type Flow, makesPseudonyms } from '../../domain/flow.ts'
import { decodeKey } from '../../domain/ids.ts'
import {
  attemptsPerCount,
  changedEndpoint,
  type EndpointBrief,
  type EndpointName,
  type Endpoints,
  type ExpiringCertificate,
  endsRest,
  isEnabled,
} from '../../store/configuration.ts'
import { among, greatest, probe, rowsOf } from '../../store/sql/dialect.ts'
import { conflictOnUid, findNamed, listNamed, readPage } from '../../store/sql/named-rows.ts'
import { noApplication } from '../../store/sql/owners.ts'
import { insertNew, type Methods, type Port, type Transaction, type Work } from '../../store/sql/port.ts'
import {
  type EndpointRow,
  endpointColumns,
  endpointShape,
  type SendableRow,
  sendableColumns,
  sendableShape,
  settableColumns,
  settableValues,
  toEndpoint,
  toSendable,
} from '../../store/sql/receiver-rows.ts'
import {
  assignments,
  beyond,
  direction,
  inBothOrders,
  parameters,
  type Shape,
  statement,
} from '../../store/sql/statement.ts'
import { bumpVersion, unknownRegion } from '../applications/rows.ts'
import { writeChangeNotices } from '../notices/rows.ts'
import { changeNotices } from '../notices/rules.ts'
import { regionOf } from '../regions/rules.ts'
import { type Endpoint, isStopped } from './rules.ts'

const insertEndpoint = statement<EndpointRow>('insert-endpoint', endpointShape)`
  insert into endpoint (key, id, app, disabled_reason, ${settableColumns.join(', ')}, created_at, updated_at)
  values (:key, :id, :app, :disabled_reason, ${parameters(settableColumns)}, :now, :now)
  on conflict (key) do nothing returning ${unqualified(endpointColumns)}`
// A range of endpoint_app.
const countEndpoints = statement<{ count: number }>('count-endpoints')`
  select count(*) as count from (
    select 1 as one from endpoint where app = :app and deleted_at is null order by key limit :limit) as listed`
const insertLane = statement('insert-lane')`
  insert into lane (endpoint, app, stopped, region) values (:endpoint, :app, :stopped, :region)`
// Each change is later than the one before it, however the clock is set: a reader of two versions keeps the newer.
const updateEndpointRow = statement<EndpointRow>('update-endpoint', endpointShape)`
  update endpoint set ${assignments(settableColumns)},
         disabled_reason = :disabled_reason, updated_at = ${greatest(':now', 'updated_at + 1')}
   where key = :key
  returning ${unqualified(endpointColumns)}`
const selectEndpoint = statement<EndpointRow>('endpoint', endpointShape)`
  select ${endpointColumns} from endpoint where key = :key and deleted_at is null`
// Leans on endpoint_uid.
const selectByUid = statement<EndpointRow>('endpoint-by-uid', endpointShape)`
  select ${endpointColumns} from endpoint where app = :app and uid = :uid and deleted_at is null`
// Ranges of endpoint_app.
const selectEndpoints = inBothOrders<EndpointRow>('endpoints', endpointShape)`
  select ${endpointColumns} from endpoint where app = :app and key ${beyond} :after and deleted_at is null
   order by key ${direction} limit :limit`
const briefColumns = 'endpoint.app, endpoint.key, endpoint.disabled, endpoint.url'
// A seek of endpoint_app per application, and one of the primary key.
const selectFirst = statement<EndpointBrief>('first-endpoints', { flags: ['disabled'] })`
  select ${briefColumns} from ${rowsOf(':asked', 'asked', { app: 'bigint' })}
  ${probe(
    'endpoint',
    `endpoint.key = (select first.key from endpoint as first
       where first.app = asked.app and first.deleted_at is null order by first.key limit 1)`,
  )}`
// A range of endpoint_app.
const selectBriefs = statement<EndpointBrief>('endpoint-briefs', { flags: ['disabled'] })`
  select ${briefColumns} from endpoint where app = :app and key > :after and deleted_at is null
   order by key limit :limit`
// Ranges of endpoint_app, and of the primary key. The management application has the key 0 and is left out.
const selectName = 'select key, id, app, uid, url, description from endpoint where deleted_at is null and'
const names = {
  ofOwner: inBothOrders<EndpointName>('endpoint-names')`
    ${selectName} app = :app and key ${beyond} :after order by key ${direction} limit :limit`,
  ofAll: inBothOrders<EndpointName>('all-endpoint-names')`
    ${selectName} app > 0 and key ${beyond} :after order by key ${direction} limit :limit`,
}
const selectSendable = statement<SendableRow & { readonly region: string }>('load-endpoints', sendableShape)`
  select ${sendableColumns}, (select region from lane where lane.endpoint = endpoint.key limit 1) as region
    from endpoint where ${among('key', ':keys')} and deleted_at is null order by key`
type RecalledRow = EndpointRow & { readonly deleted: boolean }
const recalledShape: Shape<RecalledRow> = { ...endpointShape, flags: [...(endpointShape.flags ?? []), 'deleted'] }
const selectRecalled = statement<RecalledRow>('recall-endpoints', recalledShape)`
  select ${endpointColumns}, deleted_at is not null as deleted from endpoint
   where ${among('key', ':keys')} order by key`
// A range of endpoint_certificate.
const selectExpiring = statement<ExpiringCertificate>('expiring-certificates')`
  select key, id, app, uid, certificate_expires_at as "expiresAt" from endpoint
   where certificate_expires_at < :before and deleted_at is null order by certificate_expires_at limit :limit`
const selectRegion = statement('region')`select name from region where app = :app and name = :name`

const setRegion = statement('set-region')`update lane set region = :region where endpoint = :endpoint`
const setStopped = statement('set-stopped')`
  update lane set stopped = :stopped, due_at = null where endpoint = :endpoint`
// Why a lane rests is not stored. A lane without health was always well, so it rests for want of tokens, and enabling it
// makes none. A negative not_before shows an owner that is releasing the lane that its rest is outdated.
const endRest = statement('end-rest')`
  update lane set not_before = -1, health = case when :forget_health then null else health end
   where endpoint = :endpoint and (health is not null or not :forget_health)`

// Both lean on attempt_endpoint. All attempts of one millisecond are counted together, so that none is missed or counted
// twice where one count ends and the next begins.
const selectReach = statement<{ at: number }>('attempts-reach')`
  select at from attempt where endpoint = :endpoint and at > :after and at <= :until
   order by at limit 1 offset ${attemptsPerCount - 1}`
const countRange = statement<{ delivered: number; failed: number }>('count-attempts')`
  select count(*) filter (where code = 'delivered') as delivered, count(*) filter (where code <> 'delivered') as failed
    from attempt where endpoint = :endpoint and at > :after and at <= :reached`

/** Endpoints, and with each its lane. */
export function endpoints(port: Port): Methods<Omit<Endpoints, 'deleteEndpoint'>> {
  const { vault, log } = port.context
  const opened = (row: EndpointRow) => toEndpoint(row, vault)

  return {
    *createEndpoint(app, input, atMost) {
      return yield* conflictOnUid(port, input, () =>
        port.transaction(function* (sql) {
          const application = yield* sql.first(bumpVersion, { app })
          if (application === undefined) throw yield* noApplication(sql, app)
          // The application's row is locked, so that no two count at once.
          const counted = atMost === undefined ? undefined : yield* sql.first(countEndpoints, { app, limit: atMost })
          if (atMost !== undefined && (counted?.count ?? 0) >= atMost) {
            throw quotaExceeded('An application', atMost, 'endpoints', 'maxEndpointsPerApp')
          }
          yield* assertSecret(sql, app, input.flow ?? {})
          const reason = input.disabled ? 'operator' : null
          const row = yield* insertNew(sql, 'ep', insertEndpoint, ({ key }) => ({
            ...settableValues(input, { app, key }, vault),
            app,
            disabled_reason: reason,
          }))
          const region = regionOf(input.flow?.region, application.region)
          yield* sql.run(insertLane, { endpoint: row.key, app, stopped: isStopped(input), region })
          yield* sql.settingsChanged([row.key])
          yield* writeChangeNotices(sql, port.context, ['endpoint.created'], app, [row.key])
          return opened(row)
        }),
      )
    },

    *findEndpoint(app, ref) {
      const row = yield* findNamed(port, { byKey: selectEndpoint, byUid: selectByUid }, decodeKey('ep', ref), app, ref)
      return row && opened(row)
    },

    listEndpoints: (app, page) => readPage(port, selectEndpoints, { app }, page, opened),

    *firstEndpoints(apps) {
      return apps.length === 0 ? [] : yield* port.all(selectFirst, { asked: apps.map((app) => ({ app })) })
    },

    endpointBriefs: (app, after, limit) => port.all(selectBriefs, { app, after, limit }),

    nameEndpoints: (app, page) => listNamed(port, names, app, page, (row) => row),

    *updateEndpoint(app, key, change) {
      const named = { uid: null as string | null }
      return yield* conflictOnUid(port, named, () =>
        port.transaction(function* (sql) {
          const found = yield* sql.first(selectEndpoint, { key })
          if (found?.app !== app) return undefined
          // A change of nothing locks and writes nothing, so that it leaves no audit row either.
          const known = opened(found)
          if (isSame(changedEndpoint(known, change, yield* sql.now()), known)) return known
          const application = yield* sql.first(bumpVersion, { app })
          if (application === undefined) return undefined
          // Read again behind the lock, so that a change made meanwhile by another caller is not undone.
          const row = yield* sql.first(selectEndpoint, { key })
          if (row === undefined) return undefined
          const before = opened(row)
          const after = changedEndpoint(before, change, yield* sql.now())
          named.uid = after.uid
          if (needsSecret(after.flow) !== needsSecret(before.flow)) yield* assertSecret(sql, app, after.flow)
          const values = settableValues(after, before, vault, row)
          const updated = yield* sql.first(updateEndpointRow, { ...values, key, disabled_reason: after.disabledReason })
          yield* changeLane(sql, before, after)
          if (after.flow.region !== before.flow.region) {
            yield* sql.run(setRegion, { endpoint: key, region: regionOf(after.flow.region, application.region) })
            yield* sql.lanesFreed()
          }
          yield* sql.settingsChanged([key])
          yield* writeChangeNotices(sql, port.context, changeNotices(before, after), app, [key])
          return opened(updated as EndpointRow)
        }),
      )
    },

    expiringCertificates: (before, limit) => port.all(selectExpiring, { before, limit }),

    *loadEndpoints(keys) {
      if (keys.length === 0) return []
      return (yield* port.all(selectSendable, { keys })).map((row) => ({
        ...toSendable(row, vault, log),
        region: row.region,
      }))
    },

    *recallEndpoints(keys) {
      if (keys.length === 0) return []
      const rows = yield* port.all(selectRecalled, { keys })
      return rows.map((row) => ({ ...opened(row), ...(row.deleted && { deleted: true }) }))
    },

    *countAttempts(endpoint, after, until) {
      const reached = (yield* port.first(selectReach, { endpoint, after, until }))?.at ?? until
      const row = yield* port.first(countRange, { endpoint, after, reached })
      return { delivered: row?.delivered ?? 0, failed: row?.failed ?? 0, reached }
    },
  }
}

function* changeLane(sql: Transaction, before: Endpoint, after: Endpoint): Work<void> {
  const { key: endpoint } = before
  if (isStopped(after) !== isStopped(before)) yield* sql.run(setStopped, { endpoint, stopped: isStopped(after) })
  if (endsRest(before, after)) yield* sql.run(endRest, { endpoint, forget_health: isEnabled(before, after) })
  if (!isStopped(after) && (isStopped(before) || endsRest(before, after))) yield* sql.wakeLane(endpoint)
}

/** The region whose secret makes the pseudonyms of an endpoint; undefined when it has none. */
function needsSecret(flow: Partial<Flow>): string | undefined {
  return makesPseudonyms(flow) ? (flow.region ?? undefined) : undefined
}

/** Behind the lock of the application, so that the secret is not deleted meanwhile. */
function* assertSecret(sql: Transaction, app: number, flow: Partial<Flow>): Work<void> {
  const name = needsSecret(flow)
  if (name !== undefined && !(yield* sql.any(selectRegion, { app, name }))) throw unknownRegion(name)
}

/** `returning` of SQLite takes no qualified names. */
function unqualified(columns: string): string {
  return columns.replaceAll('endpoint.', '')
}
