import { AsyncLocalStorage } from 'node:async_hooks'
import { encodeId } from '../../domain/ids.ts'
import { appendAudit } from '../../features/audit/rows.ts'
import type { Trail, Trailing } from '../../features/audit/store.ts'
import {
  atOnce,
  finishLater,
  type Methods,
  type Port,
  type Sql,
  sqlBy,
  type Transaction,
  type Work,
  waitFor,
} from '../sql/port.ts'
import { type List, type SealedValue, type Statement, statement, toJson, type Values } from '../sql/statement.ts'
import type { Database } from './database.ts'
import { integers, postgresStatement, type Run, type Sessions, texts } from './sessions.ts'
import { isUidTaken } from './trouble.ts'

const readClock = statement<{ now: number }>('now')`select :now as now`

/** Postgres as methods that are written once see it. */
export function postgresPort(database: Database): Port {
  const { context, durable, relaxed } = database
  return {
    ...sqlOver(durable.run),
    context,
    hasOneWriter: false,
    transaction: transactionsOn(database, durable),
    erase: transactionsOn(database, durable),
    relaxed: { ...sqlOver(relaxed.run), transaction: transactionsOn(database, relaxed) },
    *askOwners(endpoints) {
      database.signals.asked(endpoints)
      yield* waitFor(database.signals.notify(relaxed.run, 'a', endpoints))
      return true
    },
    isUidTaken,
  }
}

/** Statements by `run`: each in a transaction of its own, or all in the one that `run` belongs to. */
export function sqlOver(run: Run): Sql {
  function* all<Row>(each: Statement<Row>, values: Values = {}) {
    const { text, parameters } = each.in('postgres')
    const bound = parameters.map((name) => toSent(name, values))
    return yield* waitFor(run<Row>({ name: each.name, text }, bound))
  }
  return sqlBy(all, function* () {
    const [row] = yield* all(readClock)
    return row?.now as number
  })
}

function transactionsOn(database: Database, sessions: Sessions): Port['transaction'] {
  const { context, keys, signals, wakes } = database
  return function* <T>(work: (sql: Transaction) => Work<T>) {
    const afterwards: (() => unknown)[] = []
    const answer = yield* waitFor(
      sessions.transaction((run) => {
        const within: Transaction = {
          ...sqlOver(run),
          *newIdentity(prefix) {
            const key = yield* waitFor(keys.next(run))
            return { key, id: encodeId(prefix, key, context.randomText) }
          },
          changeKeySeries: () => keys.changeNode(),
          wakeLane: (endpoint) => atOnce(() => void afterwards.push(() => wakes.rouse([endpoint]))),
          queued: (endpoints, itsClass) =>
            atOnce(() => {
              afterwards.push(() => wakes.request(endpoints, 0, false))
              afterwards.push(() => signals.rows(endpoints, itsClass))
            }),
          *expunged(messages) {
            yield* waitFor(signals.notify(run, 'x', messages))
            afterwards.push(() => signals.expunged(messages))
          },
          *lanesFreed() {
            yield* waitFor(signals.notify(run, 'w', []))
            afterwards.push(() => signals.lanes())
          },
          *workersChanged() {
            yield* waitFor(signals.notify(run, 'm', []))
            afterwards.push(() => signals.workers())
          },
          *taskAdded() {
            yield* waitFor(signals.notify(run, 't', []))
            afterwards.push(() => signals.tasks())
          },
          *inboxFilled() {
            yield* waitFor(signals.notify(run, 'i', []))
            afterwards.push(() => signals.inbox())
          },
          *settingsChanged(endpoints) {
            yield* waitFor(signals.notify(run, 's', endpoints ?? []))
            afterwards.push(() => signals.settings(endpoints))
          },
        }
        return finishLater(work(within))
      }),
    )
    for (const each of afterwards) yield* waitFor(Promise.resolve(each()))
    return answer
  }
}

/** Turns methods that are written once into those of the store. */
export function onPostgres<T>(methods: Methods<T>): T {
  const promised: Record<string, unknown> = {}
  for (const [name, method] of Object.entries<(...args: never[]) => Work<unknown>>(methods)) {
    promised[name] = (...args: never[]) => finishLater(method(...args))
  }
  return promised as T
}

function toSent(name: string, values: Values): unknown {
  const [list = '', field] = name.split('.')
  const value = values[list]
  if (value === undefined) throw new Error(`the statement's parameter ${name} has no value`)
  if (field !== undefined)
    return arrayOf((value as readonly Record<string, never>[]).map((each) => each[field] as never))
  if (Array.isArray(value)) return arrayOf(value as List)
  if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  return value !== null && typeof value === 'object' ? toJson((value as SealedValue).sealed) : value
}

function arrayOf(list: List): string {
  const isText = list.some((value) => typeof value === 'string')
  return isText ? texts(list as readonly string[]) : integers(list as readonly number[])
}

// A transaction has an id of its own once it has changed something.
const selectChanged = postgresStatement('has-changed')`select pg_current_xact_id_if_assigned() is not null as changed`

/** Commits the audit entry of a request with the first transaction that changes something for it. */
export function trailing({ context, durable }: Database): Trailing {
  const trails = new AsyncLocalStorage<Trail>()

  async function takeAlong(run: Run, trail: Trail): Promise<() => void> {
    const [row] = await run<{ changed: boolean }>(selectChanged)
    if (row?.changed !== true) return () => {}
    await finishLater(appendAudit(sqlOver(run), context, trail.entry))
    return () => {
      trail.written = true
    }
  }

  durable.beforeCommit = (run) => {
    const trail = trails.getStore()
    return trail === undefined || trail.written ? undefined : takeAlong(run, trail)
  }

  return { trailing: (trail, work) => trails.run(trail, work) }
}
