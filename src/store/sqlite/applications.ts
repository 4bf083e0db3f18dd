import type { Application } from '../../domain/endpoint.ts'
import { given } from '../../domain/given.ts'
import { decodeKey } from '../../domain/ids.ts'
import type { Configuration } from '../configuration.ts'
import type { Page } from '../page.ts'
import type { Connection, Synchronous } from './connection.ts'
import { pageOf } from './paging.ts'
import { type ApplicationRow, toApplication } from './rows.ts'
import { conflictOnUid } from './trouble.ts'

const insertApplication = `
  insert into application (key, id, uid, name, throttle_rate, metadata, dedupe_s, settings, created_at, updated_at)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (key) do nothing`
const selectApplication = 'select * from application where key = ? and deleted_at is null'
const selectApplicationByUid = 'select * from application where uid = ? and deleted_at is null'
const selectApplicationsUp = 'select * from application where key > ? and deleted_at is null order by key limit ?'
const selectApplicationsDown =
  'select * from application where key < ? and key > 0 and deleted_at is null order by key desc limit ?'
const updateApplicationRow = `
  update application set uid = ?2, name = ?3, throttle_rate = ?4, metadata = ?5, dedupe_s = ?6,
    settings = ?7, version = version + 1, updated_at = ?8
  where key = ?1`

export type Applications = 'createApplication' | 'findApplication' | 'listApplications' | 'updateApplication'

/** Applications. */
export function applications(connection: Connection): Synchronous<Pick<Configuration, Applications>> {
  const insert = connection.prepare(insertApplication)
  const byKey = connection.prepare<ApplicationRow>(selectApplication)
  const byUid = connection.prepare<ApplicationRow>(selectApplicationByUid)
  const up = connection.prepare<ApplicationRow>(selectApplicationsUp)
  const down = connection.prepare<ApplicationRow>(selectApplicationsDown)
  const update = connection.prepare(updateApplicationRow)

  return {
    createApplication(input): Application {
      const now = connection.now()
      const metadata = JSON.stringify(input.metadata)
      const { dedupeSeconds = null, settings = {} } = input
      const identity = conflictOnUid(input.uid, () =>
        connection.transaction(() =>
          connection.insertNew('app', now, ({ key, id }) => {
            const head = [key, id, input.uid, input.name, input.throttleRate, metadata, dedupeSeconds] as const
            return insert.run(...head, JSON.stringify(settings), now, now).changes
          }),
        ),
      )
      return { ...input, ...identity, dedupeSeconds, settings, createdAt: now, updatedAt: now }
    },

    findApplication(ref): Application | undefined {
      const key = decodeKey('app', ref)
      const named = key === undefined ? undefined : byKey.get(key)
      const row = named?.id === ref ? named : byUid.get(ref)
      return row && toApplication(row)
    },

    listApplications(page): Page<Application> {
      return pageOf(page, page.order === 'ascending' ? up : down, [], toApplication)
    },

    updateApplication(key, change): Application | undefined {
      let changed = false
      const updated = conflictOnUid(change.uid ?? null, () =>
        connection.transaction(() => {
          const row = byKey.get(key)
          if (row === undefined) return undefined
          const now = connection.now()
          const after = { ...toApplication(row), ...given(change), updatedAt: now }
          const { uid, name, throttleRate, dedupeSeconds } = after
          const [metadata, settings] = [JSON.stringify(after.metadata), JSON.stringify(after.settings)]
          update.run(key, uid, name, throttleRate, metadata, dedupeSeconds, settings, now)
          const before = toApplication(row)
          changed = settings !== JSON.stringify(before.settings) || throttleRate !== before.throttleRate
          return after
        }),
      )
      if (changed) connection.watcher?.settings()
      return updated
    },
  }
}
