import { closeSync, openSync, rmSync, statSync } from 'node:fs'
import { type FileHandle, open, rename, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Clock, SteadyMs } from '../../domain/clock.ts'
import { type Store, StoreTrouble } from '../../store/store.ts'
import type { DeadPosition, LetterForFile } from '../dead-letters/store.ts'
import { type Regions, serves } from '../regions/rules.ts'

/** Trouble that lasts is logged this often. */
const repeatMs = 10 * 60_000
/** A step takes much less than this, also on a slow disk. A process that dies in a step delays the next lines by it. */
const stepMs = 30_000
/** Letters that one step looks at. */
const lettersPerStep = 500
const lineFeed = 0x0a

/** Dead letters as lines with their line breaks, and the last of the letters. */
export interface DeadLines {
  readonly bytes: Buffer
  readonly last: DeadPosition
}

export interface DeadFileDeps {
  readonly path: string
  /** A file that would become larger gets a number, and a new one begins. */
  readonly limitBytes: number
  /** The name of the machine, for the log: each machine has files of its own. */
  readonly machine: string
  /** Tells this process from the others that write dead letters. */
  readonly writer: string
  readonly store: Pick<Store, 'beginDeadFile' | 'listLettersForFile' | 'takeDeadFile' | 'moveDeadFile'>
  readonly clock: Clock
  /** The regions whose letters it holds; all by default. */
  readonly regions?: Regions
  /** The first of these letters as lines, as many as may be in memory at once. Letters that are gone have none. */
  linesOf(letters: readonly LetterForFile[]): Promise<DeadLines>
  readonly log: Record<'info' | 'error', (sentence: string) => void>
}

/**
 * A file that dead letters are appended to, each at least once. The store keeps the position: the last letter that a file
 * holds. A step reads the letters behind it, appends them, waits for the disk and moves the position. After a crash in
 * between, the same lines are appended again; readers tell them by `msgId`, `endpointId` and `diedAt`.
 */
export class DeadFile {
  readonly #deps: DeadFileDeps
  #trouble: { readonly text: string; readonly saidAt: SteadyMs } | undefined

  constructor(deps: DeadFileDeps) {
    this.#deps = deps
  }

  /** Has the file hold every letter from now on, or go on where an earlier process stopped. */
  async open(): Promise<void> {
    const { store, path, machine, log } = this.#deps
    let isFirst = false
    for (const region of this.#regions) isFirst = (await store.beginDeadFile(region)) || isFirst
    const when = this.#deps.regions == null ? 'while this process leads' : 'by this process'
    log.info(`dead letters are appended to ${path} on ${machine} ${when}`)
    if (isFirst) log.info(`${path} begins with the next dead letter; \`sluice dead export\` writes earlier ones`)
  }

  /** Appends the next letters. Answers whether there may be more. */
  async step(): Promise<boolean> {
    let hasMore = false
    for (const region of this.#regions) hasMore = (await this.#stepOf(region)) || hasMore
    return hasMore
  }

  get #regions(): readonly (string | null)[] {
    return this.#deps.regions ?? [null]
  }

  async #stepOf(region: string | null): Promise<boolean> {
    const { store, writer, linesOf } = this.#deps
    if ((await store.listLettersForFile(region, 1)).length === 0) return false
    if (!(await store.takeDeadFile(region, writer, stepMs))) return false
    // Read once more: another process may have moved the position before this one had the file.
    const letters = await store.listLettersForFile(region, lettersPerStep)
    const own = letters.filter((letter) => serves(region === null ? null : [region], letter.region))
    const end = letters.at(-1)
    if (end === undefined) return false
    if (own.length === 0) {
      await store.moveDeadFile(region, writer, end)
      return letters.length === lettersPerStep
    }
    const { bytes, last } = await linesOf(own)
    if (!(await this.#write(bytes))) return false
    const isAll = last === own.at(-1)
    await store.moveDeadFile(region, writer, isAll ? end : last)
    return !isAll || letters.length === lettersPerStep
  }

  /** Appends lines. Trouble with the file is logged, and answers false. */
  async #write(lines: Buffer): Promise<boolean> {
    const { path, log } = this.#deps
    if (lines.length === 0) return true
    try {
      await this.#append(lines)
    } catch (error) {
      if (!isFileTrouble(error)) throw error
      this.#complain(`${explain(path, error)} They wait in the store and are appended then`)
      return false
    }
    if (this.#trouble !== undefined) log.info(`dead letters are appended to ${path} again`)
    this.#trouble = undefined
    return true
  }

  async #append(lines: Buffer): Promise<void> {
    const { path, limitBytes } = this.#deps
    const size = await sizeOf(path)
    if (size > 0 && size + lines.length > limitBytes) await this.#rotate()
    await onHandle(path, 'a+', async (file) => {
      const { size: before } = await file.stat()
      const bytes = (await endsInLine(file, before)) ? lines : Buffer.concat([Buffer.of(lineFeed), lines])
      try {
        await file.appendFile(bytes)
        await file.sync()
      } catch (error) {
        // The disk is full, perhaps: half a line is worse than none.
        await file.truncate(before).catch(() => {})
        throw error
      }
      if (before === 0) await syncFolder(path)
    })
  }

  /** Renames the full file to the next number that is free. */
  async #rotate(): Promise<void> {
    const { path, log, machine } = this.#deps
    let number = 1
    while ((await sizeOf(`${path}.${number}`)) > 0) number++
    await rename(path, `${path}.${number}`)
    await syncFolder(path)
    log.info(`${path} on ${machine} is full and is ${path}.${number} now`)
  }

  /** Logs trouble once, when it changes, and every now and then. */
  #complain(text: string): void {
    const now = this.#deps.clock.steady()
    if (this.#trouble?.text === text && now - this.#trouble.saidAt < repeatMs) return
    this.#trouble = { text, saidAt: now }
    this.#deps.log.error(`dead letters are not written: ${text}`)
  }
}

/** Whether a file ends at the end of a line: a crash may have left half of one, which is then ended before the next line. */
async function endsInLine(file: FileHandle, size: number): Promise<boolean> {
  if (size === 0) return true
  const { buffer } = await file.read({ buffer: Buffer.alloc(1), position: size - 1 })
  return buffer[0] === lineFeed
}

/**
 * The reason why a file cannot be written, with the remedy; undefined when it can. Leaves nothing behind. `probe` is a name
 * that no other process uses: a file that is shared must not be removed.
 */
export function fileProblem(path: string, probe: string): string | undefined {
  try {
    const found = statSync(path, { throwIfNoEntry: false })
    if (found !== undefined && !found.isFile()) return `${path} is not a file. Name another one.`
    if (found !== undefined) closeSync(openSync(path, 'a'))
    closeSync(openSync(`${path}.${probe}`, 'wx', 0o600))
    rmSync(`${path}.${probe}`)
    return undefined
  } catch (error) {
    if (!isFileTrouble(error)) throw error
    return explain(path, error)
  }
}

function explain(path: string, error: NodeJS.ErrnoException): string {
  const { code = '' } = error
  const folder = dirname(path)
  const [reason, remedy] = explanations[code] ?? [error.message, `Look at ${folder}`]
  return `${path}: ${reason}${code === '' ? '' : ` (${code})`}. ${remedy.replace('FOLDER', folder)}.`
}

const noSpace = ['there is no space left', 'Free some in FOLDER'] as const
const noAccess = ['this process may not write there', 'Let its user write to FOLDER and the files in it'] as const
const explanations: Readonly<Record<string, readonly [reason: string, remedy: string]>> = {
  ENOSPC: noSpace,
  EDQUOT: noSpace,
  EFBIG: ['the file may not grow any more', 'Raise the limit of the process or set a smaller SLUICE_DEAD_FILE_SIZE'],
  ENOENT: ['the folder does not exist', 'Make the folder FOLDER'],
  ENOTDIR: ['a part of the path is not a folder', 'Make the folder FOLDER'],
  EACCES: noAccess,
  EPERM: noAccess,
  EROFS: ['the disk is read-only', 'Make FOLDER writable'],
}

/** Whether an error is the operating system's, about a file. */
function isFileTrouble(error: unknown): error is NodeJS.ErrnoException {
  if (!(error instanceof Error) || error instanceof StoreTrouble) return false
  return (error as NodeJS.ErrnoException).syscall !== undefined
}

async function onHandle(path: string, flags: string, work: (file: FileHandle) => Promise<void>): Promise<void> {
  const file = await open(path, flags, 0o600)
  try {
    await work(file)
  } finally {
    await file.close()
  }
}

/** A name in a folder survives a power cut once the folder is written. */
async function syncFolder(path: string): Promise<void> {
  await onHandle(dirname(path), 'r', (folder) => folder.sync())
}

/** The size of a file; 0 when there is none. */
async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0
    throw error
  }
}
