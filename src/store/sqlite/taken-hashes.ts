import type { EpochMs } from '../../domain/clock.ts'
import type { Once } from '../publishing.ts'
import type { Connection } from './connection.ts'
import { type FilterRoom, HashRuns, type RunStatements, runStatements } from './hash-runs.ts'
import { entriesFor, prefixOf } from './hash-slices.ts'

const dayMs = 24 * 60 * 60 * 1000
/** How many rows of a day are found by their hash in memory, before a run is made of them. */
const rowsPerRun = 16_384
/** Room for the filters of 16 million hashes. */
const filterRoomBytes = 32 * 1024 * 1024
/** Days whose rows a caller's transaction remembers. */
const daysAtOnce = 64
/** Runs that one tidying of all days makes: each takes about 3 ms. */
const runsAtOnce = 4

/** The row of a hash that was taken. */
export interface Taken {
  readonly day: number
  readonly seq: number
  readonly fingerprint: string
  readonly expires_at: EpochMs
  /** The message of a publish; of a batch, the first. */
  readonly message: number | null
  readonly status: number | null
  readonly answer: Uint8Array | null
}

/** The hashes that are taken. Each method but `tidy` runs inside the caller's transaction. */
export interface TakenHashes {
  /** Makes a run when many rows are in none. */
  tidy(): void
  find(once: Once, now: EpochMs): Taken | undefined
  take(once: Once, message: number | null, answer: Uint8Array | null, now: EpochMs, status?: number): void
  /** Frees the hash of a row. */
  free(row: Taken): void
  /** The newest row of a hash among those that expire on that day, expired or not; undefined when it was freed. */
  newest(day: number, hash: string): Taken | undefined
}

/** The rows of a day that are in no run yet, as one connection sees them. */
interface Tail {
  /** All rows up to here were read. The mark is null before the first row. */
  seq: number
  mark: number | null
  /** The newest row of each hash. It may be missing: a row that was undone. */
  readonly newest: Map<string, number>
}

interface Day extends Tail {
  readonly runs: HashRuns
  /** The transaction in which the tail was last brought up to date. */
  readIn: number
}

type Row = readonly [seq: number, mark: number, hash: string]

function statementsOf(connection: Connection) {
  return {
    // The end of the day's range of the primary key.
    from: connection.prepareLists<Row>(
      'select seq, mark, hash from taken_hash where day = ? and seq >= ? order by seq',
    ),
    row: connection.prepare<Taken & { readonly hash: string }>(`
      select day, seq, hash, fingerprint, expires_at, message, status, answer from taken_hash where day = ? and seq = ?`),
    insert: connection.prepare(`
      insert into taken_hash (day, seq, mark, hash, fingerprint, expires_at, message, status, answer)
      values (?, ?, ?, ?, ?, ?, ?, ?, ?)`),
    free: connection.prepare('update taken_hash set expires_at = 0 where day = ? and seq = ?'),
  }
}

/**
 * Hashes are stored in the order in which they are taken, by the day on which they expire: a new one goes to the end of that
 * day's rows. The newest rows of a day are found by a map in memory, the others by sorted runs.
 *
 * Memory only says where to look, and the row decides: a row that was undone, freed or replaced shows that itself. Memory must
 * never miss a row. So each transaction first reads the rows behind the last one that it knows, those of other processes
 * included, and makes sure that this one is still there: each row has a mark, a random number that no other row gets. When it
 * was undone, the tail is read once more.
 *
 * Rows are never removed before their day is over, because a number that is used twice would hide a row.
 */
abstract class Hashes implements TakenHashes {
  readonly connection: Connection
  protected readonly sql: ReturnType<typeof statementsOf>

  constructor(connection: Connection) {
    this.connection = connection
    this.sql = statementsOf(connection)
  }

  /** The tail of a day, up to date. */
  protected abstract tailOf(day: number): Tail

  abstract newest(day: number, hash: string): Taken | undefined

  abstract tidy(): void

  find({ hash, ttlMs }: Once, now: EpochMs): Taken | undefined {
    // A hash that was taken for at most `ttlMs` expires on one of these days: two, for the 24 hours of a request.
    for (let day = dayOf(now); day <= dayOf(now + ttlMs); day++) {
      const found = this.newest(day, hash)
      if (found !== undefined && found.expires_at > now) return found
    }
    return undefined
  }

  take(
    { hash, fingerprint, ttlMs }: Once,
    message: number | null,
    answer: Uint8Array | null,
    now: EpochMs,
    status?: number,
  ): void {
    const expiresAt = now + Math.ceil(ttlMs)
    const day = dayOf(expiresAt)
    const tail = this.tailOf(day)
    const [seq, mark] = [tail.seq + 1, Math.floor(this.connection.context.random() * 2 ** 53)]
    this.sql.insert.run(day, seq, mark, hash, fingerprint, expiresAt, message, status ?? null, answer)
    tail.newest.set(hash, seq)
    tail.seq = seq
    tail.mark = mark
  }

  free({ day, seq }: Taken): void {
    this.sql.free.run(day, seq)
  }

  /** The row, if it has this hash. */
  protected row(day: number, seq: number, hash: string): Taken | undefined {
    const row = this.sql.row.get(day, seq)
    return row?.hash === hash && row.expires_at > 0 ? row : undefined
  }

  /** Reads on behind the last row that is known; answers false, and reads nothing, when that row is gone. */
  protected readOn(tail: Tail, day: number): boolean {
    const rows = this.sql.from.all(day, tail.seq)
    const [first] = rows
    if (tail.mark !== null && (first?.[0] !== tail.seq || first[1] !== tail.mark)) return false
    if (tail.seq > 0 && first === undefined) return false
    for (const [seq, , hash] of rows) tail.newest.set(hash, seq)
    const last = rows.at(-1)
    if (last !== undefined) {
      tail.seq = last[0]
      tail.mark = last[1]
    }
    return true
  }
}

/** The hashes of a store. Its memory is shared with connections that publish in their callers' transactions. */
export class StoreHashes extends Hashes {
  readonly #days = new Map<number, Day>()
  readonly #runSql: RunStatements
  readonly #room: FilterRoom = { bytes: filterRoomBytes }
  readonly #rowsPerRun: number
  /** A day whose tail is long enough for a run. */
  #long: number | undefined

  constructor(connection: Connection, perRun = rowsPerRun) {
    super(connection)
    this.#rowsPerRun = perRun
    this.#runSql = runStatements(connection)
  }

  /** The day, with all rows that this connection sees. */
  day(number: number): Day {
    const day = this.#days.get(number) ?? this.#open(number)
    const { transactions } = this.connection
    if (day.readIn === transactions) return day
    day.readIn = transactions
    this.#bringUpToDate(day, number)
    return day
  }

  /** As `day`, outside a transaction: all rows that are committed. */
  committed(number: number): Day {
    const day = this.day(number)
    this.#bringUpToDate(day, number)
    return day
  }

  protected tailOf(day: number): Tail {
    return this.day(day)
  }

  newest(day: number, hash: string): Taken | undefined {
    return this.seek(day, hash, (seq) => this.row(day, seq, hash))
  }

  /** `read` is given the rows of a day that may have the hash, newest first, until it answers one. */
  seek(number: number, hash: string, read: (seq: number) => Taken | undefined): Taken | undefined {
    const { newest, runs } = this.day(number)
    const seq = newest.get(hash)
    return (seq === undefined ? undefined : read(seq)) ?? runs.find(prefixOf(hash), read)
  }

  /** Outside of transactions, because memory must not forget the rows of a run that is then undone. */
  tidy(): void {
    if (this.#long === undefined) return
    const number = this.#long
    this.#long = undefined
    this.#makeRun(number)
  }

  /** The same for all days that may get rows of other processes; also forgets days that are over. */
  tidyAll(now: EpochMs): void {
    const today = dayOf(now)
    for (const [number, { runs }] of this.#days) {
      if (number >= today) continue
      runs.forget()
      this.#days.delete(number)
    }
    let left = runsAtOnce
    for (const number of new Set([today, today + 1, ...this.#days.keys()])) {
      while (left > 0 && this.#isLong(this.committed(number))) {
        this.#makeRun(number)
        left--
      }
    }
  }

  override take(...args: Parameters<TakenHashes['take']>): void {
    super.take(...args)
    const [{ ttlMs }, , , now] = args
    const number = dayOf(now + Math.ceil(ttlMs))
    if (this.#isLong(this.day(number))) this.#long = number
  }

  #isLong({ seq, runs }: Day): boolean {
    return seq - runs.upTo >= this.#rowsPerRun
  }

  #makeRun(number: number): void {
    const { connection } = this
    // It is no change of the request that happens to be served.
    connection.trails.exit(() => connection.relaxedTransaction(() => this.#writeRun(number)))
    const { runs, newest } = this.day(number)
    runs.load()
    cutOff(newest, runs.upTo)
  }

  #writeRun(number: number): void {
    const day = this.day(number)
    day.runs.load()
    if (!this.#isLong(day)) return
    const end = day.runs.upTo + this.#rowsPerRun
    const rows = [...day.newest].filter(([, seq]) => seq > day.runs.upTo && seq <= end)
    const entries = entriesFor(rows.length)
    for (const [hash, seq] of rows) entries.add(prefixOf(hash), seq)
    day.runs.write(entries)
  }

  #open(number: number): Day {
    const runs = new HashRuns(number, this.#rowsPerRun, this.#runSql, this.#room)
    runs.load()
    const day: Day = { runs, readIn: -1, seq: runs.upTo, mark: null, newest: new Map() }
    this.#days.set(number, day)
    return day
  }

  #bringUpToDate(day: Day, number: number): void {
    if (!this.readOn(day, number)) {
      day.runs.load()
      day.newest.clear()
      day.seq = day.runs.upTo
      day.mark = null
      this.readOn(day, number)
    }
    day.runs.loadFilter()
    // Another process makes the runs.
    if (day.newest.size > 2 * this.#rowsPerRun) {
      day.runs.load()
      cutOff(day.newest, day.runs.upTo)
    }
  }
}

/** The hashes as a transaction sees them that a caller has open on a connection of its own. */
export class GuestHashes extends Hashes {
  readonly #store: StoreHashes
  /** Rows behind those that are committed: the transaction's own. */
  readonly #own = new Map<number, Tail & { readIn: number }>()

  constructor(connection: Connection, store: StoreHashes) {
    super(connection)
    this.#store = store
  }

  protected tailOf(number: number): Tail {
    const committed = this.#store.committed(number)
    const known = this.#own.get(number)
    const { transactions } = this.connection
    if (known?.readIn === transactions) return known
    if (known !== undefined && known.seq > committed.seq && this.readOn(known, number)) {
      known.readIn = transactions
      return known
    }
    const { seq, mark } = committed
    const tail = { seq, mark, newest: new Map<string, number>(), readIn: transactions }
    if (this.#own.size >= daysAtOnce) this.#own.clear()
    this.#own.set(number, tail)
    // It fails in a transaction that began before the store's last one: then it cannot write, either.
    this.readOn(tail, number)
    return tail
  }

  /** The store makes the runs: nothing but the caller's own belongs into this transaction. */
  tidy(): void {}

  newest(number: number, hash: string): Taken | undefined {
    const tail = this.tailOf(number)
    const read = (seq: number) => this.row(number, seq, hash)
    const own = tail.newest.get(hash)
    return (own === undefined ? undefined : read(own)) ?? this.#store.seek(number, hash, read)
  }
}

/** Takes rows that are in a run out of the rows of a tail. */
function cutOff(newest: Map<string, number>, upTo: number): void {
  for (const [hash, seq] of newest) if (seq <= upTo) newest.delete(hash)
}

/** The day, counted from 1970, that an instant belongs to. */
export function dayOf(at: EpochMs): number {
  return Math.floor(at / dayMs)
}
