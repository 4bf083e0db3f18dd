import {
  closeSync,
  cpSync,
  existsSync,
  ftruncateSync,
  globSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import type { Chance } from '../test/attack/chance.ts'
import type { TraceRecord } from './trace.ts'

/** The fate of changes that no sync covers: all lost, all kept, or each sector and each name by chance. */
export type Unsynced = 'dropped' | 'kept' | 'torn'

/** The disk when the trace began: a copy of its files, and the inodes that they had. */
export interface Before {
  readonly folder: string
  readonly copy: string
  readonly inodes: ReadonlyMap<number, string>
}

/** A copy of the folder as it is, in `copy`. No program may be writing to it. */
export function lookBefore(folder: string, copy: string): Before {
  rmSync(copy, { recursive: true, force: true })
  cpSync(folder, copy, { recursive: true, preserveTimestamps: true })
  const names = globSync('**', { cwd: folder, withFileTypes: true }).filter((each) => each.isFile())
  const paths = names.map((each) => relative(folder, join(each.parentPath, each.name)))
  return { folder, copy, inodes: new Map(paths.map((path) => [statSync(join(folder, path)).ino, path])) }
}

/** What a power cut after the last record leaves on the disk, and how much of it was not synced. */
export interface Cut {
  readonly unsyncedWrites: number
  readonly lostWrites: number
}

/** Disks lose power between sectors. */
const sectorBytes = 512

/**
 * Writes the disk to `into` as a power cut after the last of these records leaves it. A change survives if a sync of its file
 * (for a name: of its directory) began after it and ended well before the cut. All others go by `unsynced`. A change before
 * a sync that failed is not saved by a later sync: Linux forgets it (fsyncgate).
 */
export function cutPower(
  before: Before,
  records: readonly TraceRecord[],
  unsynced: Unsynced,
  chance: Chance,
  into: string,
): Cut {
  rmSync(into, { recursive: true, force: true })
  cpSync(before.copy, into, { recursive: true })
  const files = new Files(before, into)
  const durable = durableRecords(records)
  // A journal of names is kept up to a point of it.
  const names = records.filter((record) => isName(record) && !durable.has(record))
  const keptNames = new Set(
    names.slice(0, unsynced === 'kept' ? names.length : unsynced === 'dropped' ? 0 : chance.below(names.length + 1)),
  )
  let unsyncedWrites = 0
  let lostWrites = 0
  for (const record of records) {
    const isDurable = durable.has(record)
    if (isName(record)) {
      files.rename(record, isDurable || keptNames.has(record))
    } else if (isChange(record)) {
      if (!isDurable) unsyncedWrites++
      const kept = isDurable || unsynced === 'kept' ? record.data.length : 0
      if (isDurable || unsynced === 'kept') files.change(record, 0, kept)
      else if (unsynced === 'dropped') lostWrites++
      else if (!tear(files, record, chance)) lostWrites++
    }
  }
  files.finish()
  return { unsyncedWrites, lostWrites }
}

/** Keeps each sector of an unsynced change by chance. Answers whether it kept all. */
function tear(files: Files, record: TraceRecord, chance: Chance): boolean {
  if (record.operation !== 'write') {
    const kept = chance.once(2)
    if (kept) files.change(record, 0, 0)
    return kept
  }
  // Half of the writes survive whole or not at all, as most of them do in life.
  const whole = chance.of([true, false, undefined, undefined])
  let all = true
  const ends = record.offset + record.data.length
  for (let from = record.offset; from < ends; ) {
    const to = Math.min(ends, (Math.floor(from / sectorBytes) + 1) * sectorBytes)
    const kept = whole ?? chance.once(2)
    if (kept) files.change(record, from - record.offset, to - record.offset)
    else all = false
    from = to
  }
  return all
}

const isChange = ({ operation }: TraceRecord) =>
  operation === 'write' || operation === 'truncate' || operation === 'extend'
const isName = ({ operation }: TraceRecord) => /^(create|unlink|rename|mkdir|rmdir)$/.test(operation)

/** The records whose change is on the disk for certain. */
function durableRecords(records: readonly TraceRecord[]): Set<TraceRecord> {
  const durable = new Set<TraceRecord>()
  /** Not yet synced: the changes of a file by its inode, and those of names by their directory. */
  const changes = new Map<number, Numbered[]>()
  const names = new Map<string, Numbered[]>()
  const begun = new Map<bigint, { readonly number: number; readonly path: string }>()
  for (const [number, record] of records.entries()) {
    const { inode, token, operation } = record
    if (isChange(record)) {
      listOf(changes, inode).push({ number, record })
    } else if (isName(record)) {
      // A new file may have the inode of one that is gone.
      if (operation === 'create') changes.delete(inode)
      listOf(names, dirname(operation === 'rename' ? record.to : record.path)).push({ number, record })
    } else if (operation === 'sync begun') {
      begun.set(token, { number, path: record.path })
    } else {
      const sync = begun.get(token)
      begun.delete(token)
      if (sync === undefined) continue
      const lists =
        inode === everything
          ? [...changes.values(), ...names.values()]
          : [changes.get(inode) ?? [], names.get(sync.path) ?? []]
      for (const list of lists) {
        const since = list.findIndex((each) => each.number > sync.number)
        const settled = list.splice(0, since < 0 ? list.length : since)
        if (operation === 'sync ended') for (const each of settled) durable.add(each.record)
      }
    }
  }
  return durable
}

interface Numbered {
  readonly number: number
  readonly record: TraceRecord
}

/** The inode of a sync of the whole file system. */
const everything = 0

function listOf<K>(lists: Map<K, Numbered[]>, key: K): Numbered[] {
  const list = lists.get(key) ?? []
  lists.set(key, list)
  return list
}

/** The files while they are rebuilt: content by inode, whatever their names become. */
class Files {
  readonly #before: Before
  readonly #into: string
  readonly #content: string
  /** Where the content of each inode is meanwhile, and the handle that writes it. */
  readonly #files = new Map<number, { readonly id: string; readonly fd: number }>()
  /** The names as the disk has them. */
  readonly #names = new Map<string, string>()
  #made = 0

  constructor(before: Before, into: string) {
    this.#before = before
    this.#into = into
    this.#content = `${into}.content`
    rmSync(this.#content, { recursive: true, force: true })
    mkdirSync(this.#content)
    for (const [inode, path] of before.inodes) this.#names.set(path, this.#add(inode, path))
  }

  #add(inode: number, path?: string): string {
    const id = join(this.#content, String(this.#made++))
    if (path !== undefined) renameSync(join(this.#into, path), id)
    const known = this.#files.get(inode)
    if (known !== undefined) closeSync(known.fd)
    this.#files.set(inode, { id, fd: openSync(id, path === undefined ? 'w' : 'r+') })
    return id
  }

  change({ operation, inode, offset, data }: TraceRecord, from: number, to: number): void {
    const file = this.#files.get(inode)
    // A file that was deleted and is still open.
    if (file === undefined) return
    if (operation === 'write') writeSync(file.fd, data, from, to - from, offset + from)
    else if (operation === 'truncate' || statSync(file.id).size < offset) ftruncateSync(file.fd, offset)
  }

  /** A name that is not kept leaves the file without one, or with the one that it had. */
  rename(record: TraceRecord, isKept: boolean): void {
    const path = relative(this.#before.folder, record.path)
    if (record.operation === 'create') {
      const id = this.#add(record.inode)
      if (isKept) this.#names.set(path, id)
    } else if (!isKept) {
      return
    } else if (record.operation === 'unlink') {
      this.#names.delete(path)
    } else if (record.operation === 'mkdir') {
      mkdirSync(join(this.#into, path), { recursive: true })
    } else if (record.operation === 'rmdir') {
      rmSync(join(this.#into, path), { recursive: true, force: true })
    } else {
      const id = this.#names.get(path)
      this.#names.delete(path)
      if (id !== undefined) this.#names.set(relative(this.#before.folder, record.to), id)
    }
  }

  /** Gives the content its names. */
  finish(): void {
    for (const { fd } of this.#files.values()) closeSync(fd)
    for (const [path, id] of this.#names) {
      const to = join(this.#into, path)
      mkdirSync(dirname(to), { recursive: true })
      if (existsSync(id)) renameSync(id, to)
    }
    rmSync(this.#content, { recursive: true, force: true })
  }
}
