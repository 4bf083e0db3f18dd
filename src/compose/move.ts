import { DatabaseSync } from 'node:sqlite'
import { firstKeyAt, keyTime } from '../domain/ids.ts'
import { systemClock } from '../runtime/clock.ts'
import { loadEncryptionKeys } from '../runtime/encryption-keys.ts'
import { systemRandom, systemRandomBytes, systemRandomText } from '../runtime/random.ts'
import type { Config } from '../runtime/settings.ts'
import { storePassword } from '../runtime/store-password.ts'
import { hashOf, type MovedTable, type TableProgress } from '../store/moving.ts'
import { migrate } from '../store/postgres/migrate.ts'
import { dayMs, MoveTarget, partitionedColumns } from '../store/postgres/moving.ts'
import { openPostgresStore } from '../store/postgres/open.ts'
import { Servers } from '../store/postgres/servers.ts'
import { markMoved, markMoving, moveMarkOf, unmarkMoved } from '../store/sqlite/moved.ts'
import {
  columnsOf,
  countRows,
  gatherHashes,
  hasKeysWithin,
  keyRange,
  TableReader,
  tablesOf,
} from '../store/sqlite/moving.ts'
import { openSqliteStore } from '../store/sqlite/open.ts'
import type { StoreContext } from '../store/store.ts'
import { openVault } from '../store/vault.ts'

/** Rows of one page: some milliseconds of SQLite's time. */
const pageRows = 1000

export interface Move {
  readonly path: string
  readonly url: string
  /** The target as it is shown, without its password. */
  readonly target: string
}

export interface MoveReport {
  readonly tables: Readonly<Record<string, number>>
  readonly rows: number
  readonly seconds: number
  /** Whether an earlier call had moved a part. */
  readonly resumed: boolean
}

/**
 * Copies a SQLite file into an empty Postgres database, and compares counts and hashes of all tables. The file must have no owner. It is
 * marked first, so that nothing delivers from it meanwhile or afterwards; a move that was interrupted goes on where it was.
 */
export async function moveStore(
  config: Config,
  { path, url, target: shown }: Move,
  progress: (moved: number, all: number) => void,
): Promise<MoveReport> {
  const since = systemClock.steady()
  const keys = loadEncryptionKeys({ ...config, store: { kind: 'sqlite', path } }, systemRandomBytes)
  const context: StoreContext = {
    clock: systemClock,
    random: systemRandom,
    randomText: systemRandomText,
    vault: openVault(keys, systemRandomBytes),
  }
  // Owning the file ends the leases of earlier owners, and brings its tables up to date.
  const source = await openSqliteStore(context, { path, role: 'owner', evenMoved: true })
  const db = new DatabaseSync(path, { timeout: 5000, enableForeignKeyConstraints: false })
  const servers = new Servers({ url, clock: systemClock, readPassword: storePassword(config) })
  try {
    const mark = moveMarkOf(db)
    const isOver = mark !== undefined && mark.finishedAt !== null
    if (mark !== undefined && mark.target !== shown) {
      throw new Error(
        isOver ? `${path} was moved to ${mark.target} already` : `${path} is being moved to ${mark.target}`,
      )
    }
    await migrate(servers, undefined, true)
    const client = await servers.connect(async () => {
      const made = servers.newClient({ query_timeout: 0 })
      made.on('error', () => {})
      await made.connect()
      return made
    })
    try {
      const target = new MoveTarget(client)
      if (isOver && !(await target.end(mark.id))) throw new Error(`${path} was moved to ${mark.target} already`)
      if (isOver) return { tables: {}, rows: 0, seconds: 0, resumed: true }
      const tables = tablesOf(db)
      const id = mark?.id ?? systemRandomText(16)
      const known = await target.begin(id, tables)
      const begunAt = mark?.begunAt ?? systemClock.now()
      if (mark === undefined) markMoving(db, { id, target: shown, begunAt })
      // Other programs can neither publish into the file nor insert rows from here on.
      db.exec('begin immediate')
      gatherHashes(db, begunAt)
      const moved = await copyAll(db, target, tables, known, progress)
      await target.finish()
      markMoved(db, systemClock.now())
      db.exec('commit')
      await target.end(id)
      await proveOpens(context, url, config)
      const rows = Object.values(moved).reduce((sum, count) => sum + count, 0)
      const seconds = (systemClock.steady() - since) / 1000
      return { tables: moved, rows, seconds, resumed: known.size > 1 }
    } finally {
      await client.end().catch(() => {})
    }
  } finally {
    db.close()
    await source.close()
  }
}

/** Copies and compares all tables; answers the rows of each. */
async function copyAll(
  db: DatabaseSync,
  target: MoveTarget,
  names: readonly string[],
  known: ReadonlyMap<string, TableProgress>,
  progress: (moved: number, all: number) => void,
): Promise<Record<string, number>> {
  const all = names.reduce((sum, name) => sum + countRows(db, name), 0)
  let done = 0
  for (const name of names) done += known.get(name)?.rows ?? 0
  await target.makeDays(daysOf(db))
  const moved: Record<string, number> = {}
  for (const name of names) {
    const table = target.table(name, columnsOf(db, name))
    const ended = await copyTable(db, target, table, known.get(name), (rows) => {
      done += rows
      progress(done, all)
    })
    const stored = await target.sumOf(table)
    const [read, here] = [countRows(db, name), `${name}: ${ended.rows} rows were read`]
    if (read !== ended.rows) throw new Error(`${here}, and the file has ${read}`)
    if (stored.rows !== ended.rows) throw new Error(`${here}, and Postgres has ${stored.rows}`)
    if (stored.sum !== ended.sum) throw new Error(`${name}: the rows in Postgres differ from those of the file`)
    moved[name] = ended.rows
  }
  return moved
}

async function copyTable(
  db: DatabaseSync,
  target: MoveTarget,
  table: MovedTable,
  known: TableProgress | undefined,
  onRows: (rows: number) => void,
): Promise<TableProgress> {
  const reader = new TableReader(db, table, pageRows)
  let progress = known ?? { rows: 0, sum: 0n, cursor: null, done: false }
  while (!progress.done) {
    const page = reader.read(progress.cursor)
    let { sum } = progress
    for (const row of page.rows) sum += hashOf(row)
    progress = { rows: progress.rows + page.rows.length, sum, cursor: page.cursor, done: page.done }
    await target.store(table, page.rows, progress)
    onRows(page.rows.length)
  }
  return progress
}

/** The days that messages and their attempts are of. */
function daysOf(db: DatabaseSync): number[] {
  const days = new Set<number>()
  for (const { table, by } of partitionedColumns) {
    const range = keyRange(db, table, by)
    if (range === undefined) continue
    const [first, last] = range.map((key) => Math.floor(keyTime(key) / dayMs)) as [number, number]
    for (let day = first; day <= last; day++) {
      if (hasKeysWithin(db, table, by, firstKeyAt(day * dayMs), firstKeyAt((day + 1) * dayMs))) days.add(day)
    }
  }
  return [...days].sort((a, b) => a - b)
}

/** Opens the target as a server would: its keys are right, and the start finds nothing wrong. */
async function proveOpens(context: StoreContext, url: string, config: Config): Promise<void> {
  const store = await openPostgresStore(context, { url, readPassword: storePassword(config) })
  await store.close()
}

/** Takes the mark of a move away, so that the file can be used again. Answers the target of that move, if there was one. */
export async function undoMove(config: Config, path: string): Promise<string | undefined> {
  const keys = loadEncryptionKeys({ ...config, store: { kind: 'sqlite', path } }, systemRandomBytes)
  const vault = openVault(keys, systemRandomBytes)
  const context = { clock: systemClock, random: systemRandom, randomText: systemRandomText, vault }
  const source = await openSqliteStore(context, { path, role: 'owner', evenMoved: true })
  using db = new DatabaseSync(path, { timeout: 5000 })
  const mark = moveMarkOf(db)
  unmarkMoved(db)
  await source.close()
  return mark?.target
}
