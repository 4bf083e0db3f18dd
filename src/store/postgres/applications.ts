import type { Application } from '../../domain/endpoint.ts'
import { given } from '../../domain/given.ts'
import { decodeKey } from '../../domain/ids.ts'
import type { Configuration } from '../configuration.ts'
import { type ApplicationRow, toApplication } from '../rows/endpoint.ts'
import { toJson } from '../rows/json.ts'
import { type Database, withNewIdentity } from './database.ts'
import { paged, pageOf } from './paging.ts'
import { sqlNow } from './server-time.ts'
import type { Statement } from './sessions.ts'
import { conflictOnUid } from './trouble.ts'

const applicationColumns =
  'key, id, uid, name, throttle_rate, metadata, dedupe_s, settings, version, created_at, updated_at'
const insertApplication: Statement = {
  name: 'insert-application',
  text: `
    insert into application (key, id, uid, name, throttle_rate, metadata, dedupe_s, settings, created_at, updated_at)
    select $1, $2, $3, $4, $5, $6, $7, $8, now, now from (select ${sqlNow} as now) as clock
    returning ${applicationColumns}`,
}
const selectApplication: Statement = {
  name: 'application',
  text: `select ${applicationColumns} from application where key = $1 and deleted_at is null`,
}
const selectApplicationByUid: Statement = {
  name: 'application-by-uid',
  text: `select ${applicationColumns} from application where uid = $1 and deleted_at is null`,
}
const selectApplications = paged('applications', `select ${applicationColumns} from application`)
const updateApplicationRow: Statement = {
  name: 'update-application',
  text: `
    update application set uid = $2, name = $3, throttle_rate = $4, metadata = $5, dedupe_s = $6, settings = $7,
           version = version + 1, updated_at = greatest(${sqlNow}, updated_at)
     where key = $1
    returning ${applicationColumns}`,
}
// Also the lock that makes changes of one application's endpoints and regions take turns.
export const bumpVersion: Statement = {
  name: 'bump-version',
  text: 'update application set version = version + 1 where key = $1 and deleted_at is null returning key',
}

export type Applications = 'createApplication' | 'findApplication' | 'listApplications' | 'updateApplication'

/** Applications. */
export function applications(database: Database): Pick<Configuration, Applications> {
  const { durable, signals } = database
  return {
    async createApplication({ uid, name, throttleRate, metadata, dedupeSeconds = null, settings = {} }) {
      const fields = [uid, name, throttleRate, toJson(metadata), dedupeSeconds, toJson(settings)]
      const rows = await conflictOnUid(uid, () =>
        withNewIdentity(database, 'app', ({ key, id }) =>
          durable.transaction((run) => run<ApplicationRow>(insertApplication, [key, id, ...fields])),
        ),
      )
      return toApplication(rows[0] as ApplicationRow)
    },

    async findApplication(ref) {
      const key = decodeKey('app', ref)
      const [named] = key === undefined ? [] : await durable.run<ApplicationRow>(selectApplication, [key])
      const [row] = named?.id === ref ? [named] : await durable.run<ApplicationRow>(selectApplicationByUid, [ref])
      return row && toApplication(row)
    },

    listApplications: (page) =>
      pageOf<ApplicationRow, Application>(durable, selectApplications, page, [], toApplication),

    async updateApplication(key, change) {
      let changed = false
      const application = await conflictOnUid(change.uid ?? null, () =>
        durable.transaction(async (run) => {
          // The lock comes first, so that what somebody else changed meanwhile is not undone.
          if ((await run(bumpVersion, [key])).length === 0) return undefined
          const [row] = await run<ApplicationRow>(selectApplication, [key])
          const before = toApplication(row as ApplicationRow)
          const { uid, name, throttleRate, metadata, dedupeSeconds, settings } = { ...before, ...given(change) }
          changed = toJson(settings) !== toJson(before.settings) || throttleRate !== before.throttleRate
          if (changed) await signals.notify(run, 's', [])
          const values = [key, uid, name, throttleRate, toJson(metadata), dedupeSeconds, toJson(settings)]
          const [updated] = await run<ApplicationRow>(updateApplicationRow, values)
          return toApplication(updated as ApplicationRow)
        }),
      )
      if (changed) signals.settings()
      return application
    },
  }
}
