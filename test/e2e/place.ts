import { DatabaseSync } from 'node:sqlite'
import type { TestContext } from 'node:test'
import { newDatabase, sharedServer } from '../store/postgres-harness.ts'
import { type Place as Files, migratedPlace } from '../store/sqlite-harness.ts'
import { atEnd } from './at-end.ts'

const writes = /\b(insert|update|delete|create|drop|alter|vacuum)\b/i

/** An empty store for one test, and a way to look into it from outside. */
export interface Place {
  readonly dialect: 'sqlite' | 'postgres'
  /** The setting `store`. */
  readonly store: string
  query(sql: string): Promise<Record<string, unknown>[]>
}

/** A file with all tables in a directory that is removed when the test ends. */
export async function sqlitePlace(t: TestContext): Promise<Place & { readonly files: Files }> {
  const files = await migratedPlace()
  const { path } = files
  atEnd(t, files.remove)
  return {
    dialect: 'sqlite',
    store: `sqlite:${path}`,
    files,
    async query(sql) {
      // Another connection that may write, and is the last to close after a kill, takes the log away.
      using db = new DatabaseSync(path, { timeout: 5000, readOnly: !writes.test(sql) })
      return db
        .prepare(sql)
        .all()
        .map((row) => ({ ...row }))
    },
  }
}

/** A database on the server that the tests of one file share. */
export async function postgresPlace(): Promise<Place> {
  const url = await newDatabase()
  const server = await sharedServer()
  return { dialect: 'postgres', store: url, query: async (sql) => (await server.query(sql, url)).rows }
}

const places = { sqlite: sqlitePlace, postgres: postgresPlace }

/** An empty store of either kind. */
export function openPlace(t: TestContext, dialect: 'sqlite' | 'postgres'): Promise<Place> {
  return places[dialect](t)
}

const selectUnsettled = `
  select endpoint.url, message.id, lane.owner from pending
    join message on message.key = pending.message
    join endpoint on endpoint.key = pending.endpoint
    join lane on lane.endpoint = pending.endpoint`

/** Deliveries in a worker's lanes whose end is not recorded, named as a receiver names them: path and id. */
export async function unsettled(place: Place, worker: number): Promise<Set<string>> {
  const rows = await place.query(selectUnsettled)
  const its = rows.filter(({ owner }) => Number(owner) === worker)
  return new Set(its.map(({ url, id }) => `${new URL(url as string).pathname} ${id}`))
}

const countPending = 'select count(*) as pending from pending'

/** How many deliveries have not ended. */
export async function pendingCount(place: Place): Promise<number> {
  const [row] = await place.query(countPending)
  return Number(row?.pending)
}

/** The owner of a lane: its pid, from the worker's own description. */
export interface Owner {
  readonly path: string
  readonly pid: number
  readonly worker: number
  readonly epoch: number
}

const selectOwners = `
  select endpoint.url, lane.epoch, worker.id, worker.description from lane
    join endpoint on endpoint.key = lane.endpoint join worker on worker.id = lane.owner`

/** Every owned lane. */
export async function owners(place: Place): Promise<Owner[]> {
  const rows = await place.query(selectOwners)
  return rows.map(({ url, epoch, id, description }) => ({
    path: new URL(url as string).pathname,
    pid: Number(/pid (\d+)/.exec(description as string)?.[1]),
    worker: Number(id),
    epoch: Number(epoch),
  }))
}
