import type { Connection } from './connection.ts'
import {
  countOf,
  type Entries,
  entriesFor,
  fanIn,
  filterBytes,
  liveRuns,
  type MergeStep,
  mayHave,
  mergeSteps,
  type RunPlace,
  rowsWith,
  type Slice,
  sliceOf,
  slicesOf,
} from './hash-slices.ts'

/** A live run, and its filter while that is in memory. */
interface Run extends RunPlace {
  filters: Uint8Array | undefined
}

/** Bytes of filters that may still be kept in memory. A run without one is sought in its slice each time. */
export interface FilterRoom {
  bytes: number
}

/** The statements about runs, prepared once for all days. */
export type RunStatements = ReturnType<typeof runStatements>

export function runStatements(connection: Connection) {
  return {
    newest: connection.prepareLists<[number | null]>('select max(run) from taken_run where day = ? and level = 0'),
    lastRow: connection.prepareLists<[number | null]>('select max(seq) from taken_hash where day = ?'),
    entries: connection.prepareLists<[Uint8Array]>(
      'select entries from taken_run where day = ? and level = ? and run = ? and slice = ?',
    ),
    filters: connection.prepareLists<[number, Uint8Array]>(
      'select slice, filter from taken_run where day = ? and level = ? and run = ? order by slice',
    ),
    insert: connection.prepare(
      'insert into taken_run (day, level, run, slice, filter, entries) values (?, ?, ?, ?, ?, ?)',
    ),
    remove: connection.prepare('delete from taken_run where day = ? and level = ? and run = ? and slice = ?'),
    removeDay: connection.prepare('delete from taken_run where day = ?'),
  }
}

/**
 * The older hashes of a day, by sorted runs of entries that name their rows. Each run has a filter, so that a hash which was
 * never taken is hardly ever sought in one.
 */
export class HashRuns {
  readonly #day: number
  /** How many rows a run of level 0 has. */
  readonly #rows: number
  readonly #sql: RunStatements
  readonly #room: FilterRoom
  #last = -1
  #live: readonly Run[] = []

  constructor(day: number, rows: number, sql: RunStatements, room: FilterRoom) {
    this.#day = day
    this.#rows = rows
    this.#sql = sql
    this.#room = room
  }

  /** The last row that is in a run. */
  get upTo(): number {
    return (this.#last + 1) * this.#rows
  }

  /** Reads which runs there are: another process may have added some, or merged them. */
  load(): void {
    const { newest, lastRow, removeDay } = this.#sql
    let last = newest.get(this.#day)?.[0] ?? -1
    if (last >= 0 && (lastRow.get(this.#day)?.[0] ?? 0) < (last + 1) * this.#rows) {
      // The rows were swept, and the clock was set back into their day since.
      removeDay.run(this.#day)
      last = -1
    }
    const known = new Map(this.#live.map((run) => [keyOf(run), run]))
    this.#last = last
    this.#live = liveRuns(last).map((place) => {
      const run = known.get(keyOf(place))
      known.delete(keyOf(place))
      return run ?? { ...place, filters: undefined }
    })
    for (const { filters } of known.values()) this.#room.bytes += filters?.byteLength ?? 0
  }

  /** Reads the filter of one more run, if there is room. */
  loadFilter(): void {
    const run = this.#live.find(({ filters }) => filters === undefined)
    if (run === undefined) return
    const bytes = slicesOf(run.level) * filterBytes
    if (bytes > this.#room.bytes) return
    const filters = new Uint8Array(bytes)
    const rows = this.#sql.filters.all(this.#day, run.level, run.run)
    // A run with fewer slices was merged by another process: a hash that is sought in it shows that.
    if (rows.length < slicesOf(run.level)) return
    for (const [slice, filter] of rows) filters.set(filter, slice * filterBytes)
    this.#room.bytes -= bytes
    run.filters = filters
  }

  /** Gives the room of the filters back, because the day is over. */
  forget(): void {
    for (const { filters } of this.#live) this.#room.bytes += filters?.byteLength ?? 0
    this.#live = []
    this.#last = -1
  }

  /** Seeks a prefix; `read` is given rows that may have its hash, newest first, until it answers one. */
  find<Row>(prefix: number, read: (row: number) => Row | undefined, tries = 2): Row | undefined {
    for (const { level, run, filters } of this.#live) {
      const slice = sliceOf(prefix, level)
      if (filters !== undefined && !mayHave(filters, slice, prefix)) continue
      const found = this.#sql.entries.get(this.#day, level, run, slice)
      if (found === undefined) {
        if (tries === 0) throw new Error(`slice ${slice} of run ${level}/${run} of day ${this.#day} is missing`)
        this.load()
        return this.find(prefix, read, tries - 1)
      }
      for (const row of rowsWith(found[0], prefix)) {
        const answer = read(row)
        if (answer !== undefined) return answer
      }
    }
    return undefined
  }

  /** Writes the next run of level 0 and does the merging that is due with it, inside the caller's transaction; call `load` behind it. */
  write(entries: Entries): void {
    const run = this.#last + 1
    this.#insert(0, run, 0, entries.slices(0, 0))
    for (const step of mergeSteps(run)) this.#merge(step)
  }

  #merge({ level, target, slice }: MergeStep): void {
    const sources = Array.from({ length: fanIn }, (_, i) => {
      const [entries] = this.#sql.entries.get(this.#day, level, target * fanIn + i, slice) ?? []
      if (entries === undefined) throw new Error(`slice ${slice} of run ${level}/${target * fanIn + i} is missing`)
      return entries
    })
    const merged = entriesFor(sources.reduce((sum, entries) => sum + countOf(entries), 0))
    for (const entries of sources) merged.addSlice(entries)
    this.#insert(level + 1, target, slice * fanIn, merged.slices(level + 1, slice * fanIn))
    // Runs stay until the one that they were merged into is whole, and are removed while the next is made.
    for (let i = 1; i <= fanIn && target > 0; i++) this.#sql.remove.run(this.#day, level, target * fanIn - i, slice)
  }

  #insert(level: number, run: number, first: number, slices: readonly Slice[]): void {
    for (const [i, { filter, entries }] of slices.entries()) {
      this.#sql.insert.run(this.#day, level, run, first + i, filter, entries)
    }
  }
}

function keyOf({ level, run }: RunPlace): string {
  return `${level}/${run}`
}
