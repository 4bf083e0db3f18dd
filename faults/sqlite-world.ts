import { copyFileSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Published } from './histories.ts'
import type { Unsynced } from './power-cut.ts'
import { World } from './world.ts'

const unsyncedFates: readonly Unsynced[] = ['dropped', 'torn', 'kept']

/** One `sluice serve` on a file. Nothing opens the file for writing from outside, because that would not be traced. */
export class SqliteWorld extends World {
  readonly kind = 'sqlite'

  override get store(): string {
    return `sqlite:${join(this.folder, 'disk', 'sluice.db')}`
  }

  override async open(): Promise<void> {
    this.lookBefore(join(this.folder, 'disk'))
    await this.start('serve')
  }

  override async pending(): Promise<number> {
    const [row] = rowsOf(join(this.folder, 'disk'), 'select count(*) as pending from pending')
    return Number(row?.pending)
  }

  override async damage(): Promise<string | undefined> {
    const [row] = rowsOf(join(this.folder, 'disk'), 'pragma integrity_check')
    return row?.integrity_check === 'ok' ? undefined : String(row?.integrity_check)
  }

  /** Ends the program and leaves on the disk what a power cut does. */
  async cut(unsynced: Unsynced): Promise<Record<string, number>> {
    await this.server.kill()
    const disk = join(this.folder, 'disk')
    const next = join(this.folder, 'next')
    const cut = this.image(this.trace(), unsynced, next)
    rmSync(disk, { recursive: true })
    renameSync(next, disk)
    this.lookBefore(disk)
    return { ...cut }
  }

  /**
   * Looks at the disks that power cuts at earlier instants would have left: each is whole, and has every message accepted by
   * then. Answers the sentences about those that are not. Call it when the program has ended and before its disk is cut.
   */
  earlierCuts(published: readonly Published[], count: number): string[] {
    const records = this.trace()
    const folder = join(this.folder, 'image')
    const broken: string[] = []
    for (let i = 0; i < count && records.length > 0; i++) {
      const upTo = this.chance.below(records.length)
      const unsynced = unsyncedFates[i % unsyncedFates.length] as Unsynced
      const atMs = records[upTo]?.atMs as number
      this.image(records.slice(0, upTo + 1), unsynced, folder)
      const known = published.filter(({ outcome, knownAt }) => outcome === 'accepted' && knownAt < atMs)
      const name = `the disk after record ${upTo} of ${records.length}, unsynced writes ${unsynced},`
      broken.push(...troubleWith(folder, known).map((trouble) => `${name} ${trouble}`))
    }
    rmSync(folder, { recursive: true, force: true })
    return broken
  }
}

function troubleWith(folder: string, known: readonly Published[]): string[] {
  try {
    const [row] = rowsOf(folder, 'pragma integrity_check', false)
    if (row?.integrity_check !== 'ok') return [`is damaged: ${row?.integrity_check}`]
    const ids = new Set(rowsOf(folder, 'select id from message', false).map(({ id }) => id))
    const missing = known.filter(({ id }) => !ids.has(id))
    return missing.length === 0 ? [] : [`lacks ${missing.length} of ${known.length} accepted messages`]
  } catch (error) {
    return [`cannot be read: ${(error as Error).message}`]
  }
}

function rowsOf(folder: string, sql: string, readOnly = true): Record<string, unknown>[] {
  using db = new DatabaseSync(join(folder, 'sluice.db'), { timeout: 5000, readOnly })
  return db
    .prepare(sql)
    .all()
    .map((row) => ({ ...row }))
}

/** Puts a file with all tables where the store will be. */
export function placeTemplate(world: SqliteWorld, template: string): void {
  const disk = join(world.folder, 'disk')
  mkdirSync(disk, { recursive: true })
  copyFileSync(template, join(disk, 'sluice.db'))
}
