import type { Intake } from '../intake.ts'
import { noRegions, openRegions } from '../regions.ts'
import { type SubscriptionRow, toSubscription } from '../rows/endpoint.ts'
import type { Database } from './database.ts'
import { statement } from './sessions.ts'

const selectSubscriptions = statement(
  'subscriptions',
  `
    select a.version, a.dedupe_s, e.key, e.id, e.event_types, e.channels, e.disabled, e.flow,
           case when e.flow is not null then e.secrets end as secrets
      from application a left join endpoint e on e.app = a.key and e.deleted_at is null
     where a.key = $1 and a.deleted_at is null
     order by e.key`,
)

const selectRegions = statement('regions-of', 'select name, secret from region where app = $1')

interface VersionRow {
  readonly version: number
  readonly dedupe_s: number | null
  readonly key: null
}

type Row = VersionRow | (Omit<VersionRow, 'key'> & SubscriptionRow)

/** Makes what reads who gets an application's messages. */
export function subscriptionReader({ durable, context }: Database): Intake['subscriptions'] {
  return async (app) => {
    const rows = await durable.run<Row>(selectSubscriptions, [app])
    const [first] = rows
    if (first === undefined) return undefined
    const endpoints = rows.flatMap((row) => (row.key === null ? [] : [row]))
    const regions = endpoints.some(({ flow }) => flow?.region != null)
      ? openRegions(await durable.run(selectRegions, [app]), app, context)
      : noRegions
    const list = endpoints.map((row) => toSubscription(row, app, context, regions))
    return { version: first.version, list, dedupeSeconds: first.dedupe_s }
  }
}
