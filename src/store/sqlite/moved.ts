import type { DatabaseSync } from 'node:sqlite'

// The mark of a file whose rows were copied to another store, or are being copied. It is no table of a migration: only a file
// that was moved has it.

const createTable = `
  create table if not exists moved (
    id text not null, -- of this move, which goes on after an interruption
    target text not null,
    begun_at integer not null,
    finished_at integer -- null while it is under way
  ) strict`
const selectTable = `select 1 from sqlite_schema where type = 'table' and name = 'moved'`
const selectMark = 'select id, target, begun_at as "begunAt", finished_at as "finishedAt" from moved'
const insertMark = 'insert into moved (id, target, begun_at) values (?, ?, ?)'
const finishMark = 'update moved set finished_at = ?'

export interface MoveMark {
  readonly id: string
  /** The store that the rows go to, without its password. */
  readonly target: string
  readonly begunAt: number
  readonly finishedAt: number | null
}

/** The rows of the file are in another store, or on their way: a delivery that is made from there must not be made from here. */
export class MovedError extends Error {
  override readonly name = 'MovedError'

  constructor(path: string, { target, finishedAt }: MoveMark) {
    super(
      finishedAt === null
        ? `${path} is being moved to ${target}: run the same \`sluice move\` again to finish it, or \`sluice move --undo --from sqlite:${path}\` to stay with the file`
        : `${path} was moved to ${target}: name that in SLUICE_STORE. To go back to the file, whose deliveries would be made a second time, run \`sluice move --undo --from sqlite:${path}\``,
    )
  }
}

export function moveMarkOf(db: DatabaseSync): MoveMark | undefined {
  if (db.prepare(selectTable).get() === undefined) return undefined
  return db.prepare(selectMark).get() as MoveMark | undefined
}

/** Marks the file as being moved. */
export function markMoving(db: DatabaseSync, { id, target, begunAt }: Omit<MoveMark, 'finishedAt'>): void {
  db.exec(createTable)
  db.prepare(insertMark).run(id, target, begunAt)
}

export function markMoved(db: DatabaseSync, now: number): void {
  db.prepare(finishMark).run(now)
}

/** Takes the mark away. */
export function unmarkMoved(db: DatabaseSync): void {
  db.exec('drop table if exists moved')
}
