import type { Intake } from '../publishing.ts'
import { type SubscriptionRow, toSubscription } from './endpoint-rows.ts'
import type { Methods, Port } from './port.ts'
import { noRegions, openRegions } from './region-secrets.ts'
import { type Shape, statement } from './statement.ts'

interface VersionRow {
  readonly version: number
  readonly dedupe_s: number | null
  /** Null for an application without endpoints. */
  readonly key: null
}

type Row = VersionRow | (Omit<VersionRow, 'key'> & SubscriptionRow)

// One statement, so that the version belongs to the endpoints. Leans on endpoint_app.
const selectSubscriptions = statement<Row>(
  'subscriptions',
  `select a.version, a.dedupe_s, e.key, e.id, e.event_types, e.channels, e.disabled, e.flow,
          case when e.flow is not null then e.secrets end as secrets
     from application as a left join endpoint as e on e.app = a.key and e.deleted_at is null
    where a.key = :app and a.deleted_at is null
    order by e.key`,
  { json: ['event_types', 'channels', 'flow'], flags: ['disabled'], sealed: ['secrets'] } as unknown as Shape<Row>,
)
const selectRegions = statement<{ name: string; secret: string }>(
  'regions-of',
  'select name, secret from region where app = :app',
)

/** Reads the endpoints that get an application's messages. */
export function subscriptions(port: Port): Methods<Pick<Intake, 'subscriptions'>> {
  return {
    *subscriptions(app) {
      const rows = yield* port.all(selectSubscriptions, { app })
      const [first] = rows
      if (first === undefined) return undefined
      const endpoints = rows.flatMap((row) => (row.key === null ? [] : [row]))
      const isRegional = endpoints.some(({ flow }) => flow?.region != null)
      const regions = isRegional ? openRegions(yield* port.all(selectRegions, { app }), app, port.context) : noRegions
      const list = endpoints.map((row) => toSubscription(row, app, port.context, regions))
      return { version: first.version, list, dedupeSeconds: first.dedupe_s }
    },
  }
}
