import { fairShares, shareHeld, wholeShares } from '../../domain/app-shares.ts'
import type { EpochMs } from '../../domain/clock.ts'
import type { AppShares, OfBoth, ShareAnswer, ShareAsk } from '../app-shares.ts'
import { among, deleteListed, forKeyShare, forUpdate, rowsOf } from './dialect.ts'
import type { Methods, Port, Sql, Work } from './port.ts'
import { statement } from './statement.ts'

/** Where there are more workers than slots, the next ones have their turn after this long. */
const turnMs = 1000

// Leans on the primary keys of application and worker, and reads the range of app_share's that belongs to each application.
const selectLimits = statement<LimitRow>('app-limits')`
  select key as app, throttle_rate as rate, cast(settings ->> 'maxInFlight' as integer) as slots, :now as now
    from application where ${among('key', ':apps')} and deleted_at is null`
const selectShares = statement<ShareRow>('app-shares')`
  select app, worker, rate, slots, rate_wanted as "rateWanted", slots_wanted as "slotsWanted"
    from app_share
   where ${among('app', ':apps')}
     and (select 1 from worker where id = app_share.worker and ended_at is null limit 1) is not null
   order by app, worker`
// A row of worker 0 stands for the application: limits are divided under its lock.
const addLocks = statement('add-app-share-locks')`
  insert into app_share (app, worker, rate, slots, rate_wanted, slots_wanted)
  select app, 0, 0, 0, 0, 0 from ${rowsOf(':apps', 'asked', { app: 'bigint' })} where true
  on conflict do nothing`
const lockShares = statement<{ app: number }>('lock-app-shares')`
  select app from app_share where worker = 0 and ${among('app', ':apps')} order by app ${forUpdate}`
const selectLiving = statement('living-for-shares')`
  select 1 from worker where id = :worker and ended_at is null ${forKeyShare}`
const saveShares = statement('save-app-shares')`
  insert into app_share (app, worker, rate, slots, rate_wanted, slots_wanted)
  select app, cast(:worker as bigint), rate, slots, rate_wanted, slots_wanted
    from ${rowsOf(':shares', 'given', {
      ...{ app: 'bigint', rate: 'bigint', slots: 'bigint', rate_wanted: 'bigint', slots_wanted: 'bigint' },
    })} where true
  on conflict (app, worker) do update
  set rate = excluded.rate, slots = excluded.slots, rate_wanted = excluded.rate_wanted, slots_wanted = excluded.slots_wanted`
const dropShares = statement('drop-app-shares')`
  ${deleteListed('app_share', ':shares', { app: 'bigint', worker: 'bigint' })}`

interface LimitRow {
  readonly app: number
  readonly rate: number | null
  readonly slots: number | null
  readonly now: EpochMs
}

interface ShareRow {
  readonly app: number
  readonly worker: number
  readonly rate: number
  readonly slots: number
  readonly rateWanted: number
  readonly slotsWanted: number
}

/** Divides the limits of applications among workers. */
export function appShares(port: Port): Methods<AppShares> {
  return {
    *shareLimits(worker, asks) {
      if (asks.length === 0) return []
      // A worker that asks again usually gets the same answer, which takes no lock and no write.
      const before = yield* divided(port, worker, asks)
      if (before.every(({ changes }) => !changes)) return before.map(({ answer }) => answer)
      return yield* port.transaction(function* (sql) {
        if (!(yield* sql.any(selectLiving, { worker }))) return undefined
        const apps = asks.map(({ app }) => app)
        if ((yield* sql.count(lockShares, { apps })) < apps.length) {
          yield* sql.run(addLocks, { apps: apps.map((app) => ({ app })) })
          yield* sql.run(lockShares, { apps })
        }
        const found = yield* divided(sql, worker, asks)
        const saved = found.filter(({ changes, ask }) => changes && !ask.leaves)
        const dropped = found.filter(({ changes, ask }) => changes && ask.leaves)
        if (saved.length > 0) yield* sql.run(saveShares, { worker, shares: saved.map(rowOf) })
        if (dropped.length > 0) {
          yield* sql.run(dropShares, { shares: dropped.map(({ ask: { app } }) => ({ app, worker })) })
        }
        return found.map(({ answer }) => answer)
      })
    },
  }
}

/** An ask with its answer, and whether that differs from what is stored. */
interface Divided {
  readonly ask: ShareAsk
  readonly answer: ShareAnswer
  readonly changes: boolean
}

function* divided(sql: Sql, worker: number, asks: readonly ShareAsk[]): Work<Divided[]> {
  const apps = asks.map(({ app }) => app)
  const limits = new Map((yield* sql.all(selectLimits, { apps })).map((row) => [row.app, row]))
  const rows = Map.groupBy(yield* sql.all(selectShares, { apps }), ({ app }) => app)
  return asks.map((ask) => {
    const { rate = null, slots = null, now = 0 } = limits.get(ask.app) ?? {}
    return divide(ask, worker, { rate: rate === null ? null : rate * 1000, slots }, rows.get(ask.app) ?? [], now)
  })
}

function divide(
  ask: ShareAsk,
  worker: number,
  limits: OfBoth<number | null>,
  rows: readonly ShareRow[],
  now: EpochMs,
): Divided {
  const own = rows.find((row) => row.worker === worker)
  const others = rows.filter((row) => row.worker !== worker)
  const isShared = others.length > 0
  if (ask.leaves) {
    const none = { held: 0, target: 0 }
    return { ask, answer: { app: ask.app, shares: { rate: none, slots: none }, isShared }, changes: own !== undefined }
  }
  const { wants, uses } = ask
  // In the order of the workers, so that all of them divide alike.
  const place = others.filter((row) => row.worker < worker).length
  const wantsOf = (own: number, of: (row: ShareRow) => number) => others.map(of).toSpliced(place, 0, own)
  const sum = (of: (row: ShareRow) => number) => others.reduce((sum, row) => sum + of(row), 0)
  const shareOf = (of: keyof OfBoth<unknown>, limit: number | null) => {
    if (limit === null) return null
    const all = wantsOf(wants[of], (row) => row[`${of}Wanted`])
    const shares =
      of === 'rate' ? fairShares(limit, all).map(Math.floor) : wholeShares(limit, all, Math.floor(now / turnMs))
    return shareHeld(
      uses[of],
      shares[place] as number,
      limit,
      sum((row) => row[of]),
    )
  }
  const shares = { rate: shareOf('rate', limits.rate), slots: shareOf('slots', limits.slots) }
  const changes =
    own === undefined ||
    own.rate !== (shares.rate?.held ?? 0) ||
    own.slots !== (shares.slots?.held ?? 0) ||
    own.rateWanted !== wants.rate ||
    own.slotsWanted !== wants.slots
  return { ask, answer: { app: ask.app, shares, isShared }, changes }
}

function rowOf({ ask: { app, wants }, answer: { shares } }: Divided): Record<string, number> {
  return {
    app,
    rate: shares.rate?.held ?? 0,
    slots: shares.slots?.held ?? 0,
    rate_wanted: wants.rate,
    slots_wanted: wants.slots,
  }
}
