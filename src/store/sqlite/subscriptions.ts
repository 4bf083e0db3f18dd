import type { Subscriptions } from '../intake.ts'
import { noRegions, openRegions } from '../regions.ts'
import type { Connection } from './connection.ts'
import { type SubscriptionRow, toSubscription } from './rows.ts'

const selectVersion = 'select version, dedupe_s from application where key = ? and deleted_at is null'
const selectSubscriptions = `
  select key, id, event_types, channels, disabled, flow, case when flow is not null then secrets end as secrets
  from endpoint where app = ? and deleted_at is null order by key`
const selectRegions = 'select name, secret from region where app = ?'

/** Makes what reads who gets an application's messages. */
export function subscriptionReader(connection: Connection): (app: number) => Subscriptions | undefined {
  const version = connection.prepare<{ version: number; dedupe_s: number | null }>(selectVersion)
  const subscribed = connection.prepare<SubscriptionRow>(selectSubscriptions)
  const named = connection.prepare<{ name: string; secret: string }>(selectRegions)
  const { context } = connection

  // The version is read first: an endpoint changed in between makes the version too old, which publish refuses.
  return (app) => {
    const found = version.get(app)
    if (found === undefined) return undefined
    const rows = subscribed.all(app)
    const hasRegions = rows.some(({ flow }) => flow?.includes('"region"'))
    const regions = hasRegions ? openRegions(named.all(app), app, context) : noRegions
    const list = rows.map((row) => toSubscription(row, app, context, regions))
    return { version: found.version, list, dedupeSeconds: found.dedupe_s }
  }
}
