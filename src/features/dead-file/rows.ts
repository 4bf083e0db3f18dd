import type { EpochMs } from '../../domain/clock.ts'
import type { Methods, Port, Sql, Work } from '../../store/sql/port.ts'
import { columnsOf, snakeCase, statement } from '../../store/sql/statement.ts'
import { indexed } from '../dead-letters/rows.ts'
import type { DeadFiling, DeadPosition, LetterForFile } from '../dead-letters/store.ts'
import { defaultRegion } from '../regions/rules.ts'

/**
 * On Postgres a letter becomes visible when its transaction commits, which is at most this long after the instant at which it
 * died by its row: a statement is cut off after 10 seconds.
 */
const commitMs = 15_000
/** After the store's clock was set back, letters of this long before are read again. */
const overlapMs = 60_000

/** The row of the processes that write the letters of all regions. */
const allRegions = ''
const nameOf = (region: string | null) => region ?? allRegions

const begin = statement('begin-dead-file')`
  insert into dead_file (region, began_at, died_at, endpoint, message) values (:region, :now, :now, 0, 0)
  on conflict do nothing returning region`
const selectPosition = statement<DeadPosition>('dead-file')`
  select died_at as "diedAt", endpoint, message from dead_file where region = :region`
const take = statement('take-dead-file')`
  update dead_file set writer = :writer, taken_until = :now + cast(:lease_ms as bigint)
   where region = :region and (writer = :writer or taken_until <= :now)
  returning region`
const move = statement('move-dead-file')`
  update dead_file set died_at = :died_at, endpoint = :endpoint, message = :message, taken_until = 0
   where region = :region and writer = :writer`
const letterRegion = `coalesce((select region from lane where lane.endpoint = dead.endpoint limit 1), '${defaultRegion}')`
const letterFields = { ...snakeCase('diedAt', 'endpoint', 'message'), bytes: 'coalesce(length(response), 0)' }
// Leans on dead_died. Nothing in it is a payload, which only a process of the letter's region may read.
const selectLettersForFile = statement<LetterForFile>('letters-for-file')`
  select ${columnsOf<LetterForFile>({ ...letterFields, region: letterRegion })} from dead
   where ${indexed('died_at')} >= :died_at and ${indexed('died_at')} < :until
     and (died_at, endpoint, message) > (:died_at, :endpoint, :message)
   order by ${indexed('died_at')}, endpoint, message limit :limit`
const selectFiles = statement<FiledSpan>('dead-files')`
  select began_at as "beganAt", died_at as "diedAt", taken_until as "takenUntil" from dead_file where region >= ''`

/** A file holds the letters that died in this span, and perhaps later ones while a process writes. */
interface FiledSpan {
  readonly beganAt: EpochMs
  readonly diedAt: EpochMs
  readonly takenUntil: EpochMs
}

/** Tells whether a letter that died at an instant may be in a dead-letter file. */
export function* filedBy(sql: Sql): Work<(diedAt: EpochMs) => boolean> {
  const now = yield* sql.now()
  const files = yield* sql.all(selectFiles)
  return (at) => files.some(({ beganAt, diedAt, takenUntil }) => at >= beganAt && (at <= diedAt || takenUntil > now))
}

/** Keeps the positions of dead-letter files. */
export function deadFiling(port: Port): Methods<DeadFiling> {
  return {
    beginDeadFile: (region) => port.transaction((sql) => sql.any(begin, { region: nameOf(region) })),

    *listLettersForFile(region, limit) {
      const position = yield* port.first(selectPosition, { region: nameOf(region) })
      if (position === undefined) return []
      const until = (yield* port.now()) - (port.hasOneWriter ? 0 : commitMs)
      const { diedAt, endpoint, message } = position
      const after =
        diedAt > until
          ? { died_at: until - overlapMs, endpoint: 0, message: 0 }
          : { died_at: diedAt, endpoint, message }
      return yield* port.all(selectLettersForFile, { ...after, until, limit })
    },

    takeDeadFile: (region, writer, leaseMs) =>
      port.transaction((sql) => sql.any(take, { region: nameOf(region), writer, lease_ms: leaseMs })),

    *moveDeadFile(region, writer, { diedAt, endpoint, message }) {
      const values = { region: nameOf(region), writer, died_at: diedAt, endpoint, message }
      yield* port.transaction((sql) => sql.run(move, values))
    },
  }
}
