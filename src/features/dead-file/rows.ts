import { type DeliveryKey, expungedResponse } from '../../store/messages.ts'
import { among, bytes } from '../../store/sql/dialect.ts'
import { deadColumns, deadSummaryColumns } from '../../store/sql/message-rows.ts'
import type { Methods, Port, Sql, Work } from '../../store/sql/port.ts'
import { statement } from '../../store/sql/statement.ts'
import type { DeadFiling, FilePosition, UnfiledLetter, UnfiledSummary } from '../dead-letters/store.ts'
import { defaultRegion } from '../regions/rules.ts'

/** The columns of a dead letter, in `dead` and in `unfiled`. */
export const letterColumns = 'endpoint, message, app, reason, attempts, died_at, since, status, code, error, response'

/** The id of the row that says that letters are kept for a file. */
const anyFile = ''

/** Keeps the letters of a query named `dead`, or of a statement that returns letters, for the dead-letter file, if there is one. */
export function keepForFile(letters: string): string {
  return `insert into unfiled (${letterColumns}, region)
    select ${letterColumns}, coalesce((select region from lane where lane.endpoint = dead.endpoint limit 1), '${defaultRegion}')
      from ${letters} and exists (select 1 from dead_file where id = '${anyFile}')`
}

const beginFiling = statement('begin-dead-filing')`
  insert into dead_file (id, part, bytes, reserved) values ('${anyFile}', 0, 0, 0) on conflict do nothing returning id`
const endFiling = statement('end-dead-filing')`delete from dead_file where id >= '' returning id`
// All that waits is forgotten, once, by an operator's order.
const forgetUnfiled = statement('forget-unfiled')`delete from unfiled where key > 0 returning key`
const addFile = statement('add-dead-file')`insert into dead_file (id, part, bytes, reserved) values (:id, :part, 0, 0)`
const selectFile = statement<FilePosition>('dead-file')`select part, bytes, reserved from dead_file where id = :id`
const moveFile = statement('move-dead-file')`
  update dead_file set part = :to_part, bytes = :to_bytes, reserved = :to_reserved
   where id = :id and part = :part and bytes = :bytes and reserved = :reserved
  returning id`
const listUnfiled = statement<UnfiledSummary>('unfiled')`
  select key, ${deadSummaryColumns} from unfiled as dead where key > 0 order by key limit :limit`
// Leans on unfiled_region.
const listUnfiledOf = statement<UnfiledSummary>('unfiled-of-region')`
  select key, ${deadSummaryColumns} from unfiled as dead where region = :region order by key limit :limit`
const loadUnfiled = statement<UnfiledLetter>('some-unfiled')`
  select key, ${deadColumns} from unfiled as dead where ${among('key', ':keys')} order by key`
const deleteFiled = statement('delete-filed')`
  delete from unfiled where ${among('key', ':keys')} returning key`

const copyWithout = (name: string, error: 'error' | 'null') =>
  statement<DeliveryKey>(name)`
    insert into unfiled (${letterColumns}, region)
    select endpoint, message, app, reason, attempts, died_at, since, status, code, ${error},
           case when response is not null then ${bytes(':response')} end, region
      from unfiled where ${among('key', ':keys')} order by key
    returning endpoint, message`
const copies = { answer: copyWithout('erase-unfiled', 'null'), response: copyWithout('expunge-unfiled', 'error') }

/**
 * Erases answers, or only their bodies, from letters that wait for a file and are locked. The letters get new keys: a
 * process that has written their lines already finds that they are gone, cuts the lines off and writes them again.
 */
export function* eraseUnfiled(
  sql: Sql,
  letters: readonly { readonly key: number }[],
  what: keyof typeof copies,
): Work<DeliveryKey[]> {
  if (letters.length === 0) return []
  const keys = letters.map(({ key }) => key)
  const erased = yield* sql.all(copies[what], { keys, response: expungedResponse })
  yield* sql.run(deleteFiled, { keys })
  return erased
}

/** Undoes a transaction in which another process was faster. */
class Outrun extends Error {}

/** Keeps dead letters until a file holds them. */
export function deadFiling(port: Port): Methods<DeadFiling> {
  return {
    beginDeadFiling: () => port.transaction((sql) => sql.any(beginFiling)),

    *endDeadFiling() {
      return yield* port.transaction(function* (sql) {
        yield* sql.run(endFiling)
        return yield* sql.count(forgetUnfiled)
      })
    },

    *findDeadFile(id) {
      return id === anyFile ? undefined : yield* port.first(selectFile, { id })
    },

    addDeadFile: (id, part) => port.transaction((sql) => sql.run(addFile, { id, part })),

    *moveDeadFile(id, from, to, filed) {
      const values = { id, ...from, to_part: to.part, to_bytes: to.bytes, to_reserved: to.reserved }
      try {
        return yield* port.transaction(function* (sql) {
          if (!(yield* sql.any(moveFile, values))) return false
          if (filed.length === 0) return true
          if ((yield* sql.count(deleteFiled, { keys: filed })) < filed.length) throw new Outrun()
          return true
        })
      } catch (error) {
        if (error instanceof Outrun) return false
        throw error
      }
    },

    *listUnfiled(limit, regions = null) {
      if (regions === null) return yield* port.all(listUnfiled, { limit })
      const found: UnfiledSummary[] = []
      for (const region of regions) found.push(...(yield* port.all(listUnfiledOf, { region, limit })))
      return found.toSorted((a, b) => a.key - b.key).slice(0, limit)
    },

    *loadUnfiled(keys) {
      return keys.length === 0 ? [] : yield* port.all(loadUnfiled, { keys })
    },

    *forgetUnfiled(keptMs, limit) {
      const before = (yield* port.now()) - keptMs
      const old = (yield* port.all(listUnfiled, { limit })).filter(({ diedAt }) => diedAt < before)
      const keys = old.map(({ key }) => key)
      return keys.length === 0 ? 0 : yield* port.relaxed.count(deleteFiled, { keys })
    },
  }
}
