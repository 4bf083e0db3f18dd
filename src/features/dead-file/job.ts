import { closeSync, constants, openSync, rmSync, statSync } from 'node:fs'
import { type FileHandle, open, readFile, rename, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Clock, SteadyMs } from '../../domain/clock.ts'
import type { RandomText } from '../../domain/ids.ts'
import { type Store, StoreTrouble } from '../../store/store.ts'
import type { FilePosition } from '../dead-letters/store.ts'
import type { Regions } from '../regions/rules.ts'

/** Trouble that lasts is logged this often. */
const repeatMs = 10 * 60_000
/** A step of another process takes much less than this. */
const patienceMs = 30_000
/** How soon lines that are not final are looked at again, when the store did not answer whether they are. */
const checkMs = 5000

/** Dead letters as lines, and their keys in the store. */
interface UnfiledLines {
  readonly keys: readonly number[]
  readonly bytes: Buffer
}

export interface DeadFileParts {
  readonly path: string
  /** A file that would become larger gets its number, and a new one begins. */
  readonly limitBytes: number
  /** The name of the machine, for the log: each machine has files of its own. */
  readonly machine: string
  readonly store: Pick<Store, 'beginDeadFiling' | 'findDeadFile' | 'addDeadFile' | 'moveDeadFile' | 'listUnfiled'>
  readonly clock: Clock
  /** The regions whose letters it holds; all by default. */
  readonly regions?: Regions
  readonly randomText: RandomText
  /** The oldest letters that no file holds; undefined when there are none. */
  nextLines(): Promise<UnfiledLines | undefined>
  /** Takes a lock on a file, which ends with the process; undefined while another process has it. */
  lock(path: string): (() => void) | undefined
  readonly log: Record<'info' | 'warn' | 'error', (sentence: string) => void>
}

interface Place {
  readonly id: string
  readonly position: FilePosition
}

/**
 * A file that dead letters are appended to. The store knows how many of its bytes are final. A step cuts the file back to
 * them, appends lines, waits for the disk, and then has the store move the position and forget the letters in one
 * transaction. So a crash at any point leaves at most lines that the next step cuts off and writes again.
 *
 * A process does this under a lock beside the file, and reads the position under it. A process that was paused in a step
 * still has the lock when it goes on, so no other has written meanwhile; the letters wait in the store for so long.
 */
export class DeadFile {
  readonly #parts: DeadFileParts
  /** Whether the file may have lines behind its final ones. */
  #isLoose = true
  #trouble: { readonly text: string; readonly saidAt: SteadyMs } | undefined
  /** Since when another process has the lock. */
  #busySince: SteadyMs | undefined
  #cancel = () => {}
  /** Ends with the last work on the file that was requested: a step, or a check. */
  #turn: Promise<void> = Promise.resolve()
  #underWay: Promise<unknown> = Promise.resolve()

  constructor(parts: DeadFileParts) {
    this.#parts = parts
  }

  /** Has letters kept from now on, and cuts off the lines that a crash of this machine left. */
  async open(): Promise<void> {
    const { store, path, machine, log } = this.#parts
    const isFirst = await store.beginDeadFiling()
    log.info(`dead letters are appended to ${path} on ${machine} while this process leads`)
    if (isFirst) log.info(`${path} begins with the next dead letter; \`sluice dead export\` writes earlier ones`)
    await this.#check()
  }

  /** Appends some letters, if any wait. Answers whether there may be more. */
  async step(): Promise<boolean> {
    const [waiting] = await this.#parts.store.listUnfiled(1, this.#parts.regions)
    return waiting !== undefined && (await this.#exclusively(() => this.#append()))
  }

  /**
   * Appends the letters that wait, for no longer than this, and stops. A step that the store or the disk has not answered by
   * then is left: the next process cuts off its lines.
   */
  async close(limitMs: number): Promise<void> {
    const { clock } = this.#parts
    let isOver = limitMs <= 0
    const { promise: over, resolve } = Promise.withResolvers<void>()
    const cancel = clock.after(limitMs, () => {
      isOver = true
      resolve()
    })
    const work = async () => {
      while (!isOver && (await this.step()));
      this.#cancel()
      await this.#underWay
    }
    await Promise.race([work(), over]).finally(cancel)
    this.#cancel()
  }

  /** Cuts off lines that are not final, and tries again later if that fails. Never rejects. */
  async #check(): Promise<void> {
    this.#cancel()
    try {
      if (!this.#isLoose) return
      await this.#exclusively(async () => {
        await this.#find()
        return false
      })
    } catch (error) {
      this.#complain(`${(error as Error).message}. They wait in the store`)
      this.#checkLater()
    }
  }

  #checkLater(): void {
    this.#cancel()
    this.#cancel = this.#parts.clock.after(checkMs, () => {
      this.#underWay = this.#check()
    })
  }

  /** Does work while no other process writes to the file. Trouble with the file is logged, and answers false. */
  async #exclusively(work: () => Promise<boolean>): Promise<boolean> {
    const { path, clock, lock } = this.#parts
    const { promise: turn, resolve: endTurn } = Promise.withResolvers<void>()
    const before = this.#turn
    this.#turn = turn
    await before
    let unlock: (() => void) | undefined
    try {
      unlock = lock(`${path}.lock`)
      if (unlock === undefined) {
        this.#busySince ??= clock.steady()
        if (clock.steady() - this.#busySince < patienceMs) return false
        this.#complain(`another process has ${path}.lock. End it if it hangs; they wait in the store until then`)
        return false
      }
      this.#busySince = undefined
      return await work()
    } catch (error) {
      if (this.#isLoose) this.#checkLater()
      if (!isFileTrouble(error)) throw error
      this.#complain(`${explain(path, error)} They wait in the store and are appended then`)
      return false
    } finally {
      unlock?.()
      endTurn()
    }
  }

  async #append(): Promise<boolean> {
    const { path, store, limitBytes, log } = this.#parts
    let { id, position } = await this.#find()
    const lines = await this.#parts.nextLines()
    if (lines === undefined) return false
    const { keys, bytes } = lines
    if (position.bytes > 0 && position.bytes + bytes.length > limitBytes) position = await this.#rotate(id, position)
    const end = position.bytes + bytes.length
    const reserved = { ...position, reserved: end }
    if (!(await store.moveDeadFile(id, position, reserved, []))) return false
    this.#isLoose = true
    try {
      await this.#write(bytes, position.bytes)
    } catch (error) {
      // The disk is full, perhaps: half a line is worse than none.
      await this.#cut(position.bytes).catch(() => {})
      throw error
    }
    const isFinal = await store.moveDeadFile(id, reserved, { ...reserved, bytes: end }, keys)
    // A process on another machine has put one of these letters into its own file.
    if (!isFinal) await this.#cut(position.bytes)
    this.#isLoose = false
    if (this.#trouble !== undefined) log.info(`dead letters are appended to ${path} again`)
    this.#trouble = undefined
    return true
  }

  /** The file at its position, without lines that are not final. */
  async #find(): Promise<Place> {
    const { path, store, log } = this.#parts
    const size = await sizeOf(path)
    const [id, part] = ((await readIfExists(`${path}.id`)) ?? '').split(' ')
    const position = id ? await store.findDeadFile(id) : undefined
    if (!id || position === undefined) return this.#adopt(size)
    // A copy of the file on another machine has the same id, and soon another part.
    if (Number(part) !== position.part || size < position.bytes || size > position.reserved) {
      // A crash came before the store knew that the file was full, or before the file beside it did.
      const wasFull = size === 0 && [0, await sizeOf(`${path}.${position.part}`)].includes(position.bytes)
      const { name, next } = await this.#begin(id, position, size)
      if (!wasFull) {
        const was = `${path} has ${size} bytes instead of ${position.bytes}: another program changed it`
        log.warn(`${was}. ${name === undefined ? 'A new file begins' : `It is ${name} now, and a new file begins`}`)
      }
      this.#isLoose = false
      return { id, position: next }
    }
    if (size > position.bytes) await this.#cut(position.bytes)
    this.#isLoose = false
    return { id, position }
  }

  /** Begins a file that this store does not know. A file of another store, or of another program, is kept beside it. */
  async #adopt(size: number): Promise<Place> {
    const { path, store, randomText, log } = this.#parts
    const { name, part } = await this.#setAside(1, size)
    if (name !== undefined)
      log.warn(`${path} was not written from this store. It is ${name} now, and a new file begins`)
    const id = randomText(20)
    await store.addDeadFile(id, part)
    await this.#mark(id, part)
    this.#isLoose = false
    return { id, position: { part, bytes: 0, reserved: 0 } }
  }

  async #rotate(id: string, position: FilePosition): Promise<FilePosition> {
    const { path, log, machine } = this.#parts
    const { name, next } = await this.#begin(id, position, position.bytes)
    log.info(`${path} on ${machine} is full and is ${name} now`)
    return next
  }

  /** Begins the next part. The file goes first: then a missing file says that it was full, and is not taken for a short one. */
  async #begin(id: string, position: FilePosition, size: number) {
    const { name, part } = await this.#setAside(position.part, size)
    const next: FilePosition = { part: Math.max(part, position.part + 1), bytes: 0, reserved: 0 }
    const isMoved = await this.#parts.store.moveDeadFile(id, position, next, [])
    if (!isMoved) throw new Error(`the position of ${this.#parts.path} changed although this process has its lock`)
    await this.#mark(id, next.part)
    return { name, next }
  }

  /** Renames a file that is not empty to its number, or the next one that is free; answers the number behind it. */
  async #setAside(part: number, size: number): Promise<{ readonly name?: string; readonly part: number }> {
    const { path } = this.#parts
    let number = part
    while ((await sizeOf(`${path}.${number}`)) > 0) number++
    if (size === 0) return { part: number }
    const name = `${path}.${number}`
    await rename(path, name)
    await syncFolder(path)
    return { name, part: number + 1 }
  }

  /** Writes down, beside the file, which file of the store's it is, and which part. */
  async #mark(id: string, part: number): Promise<void> {
    const { path } = this.#parts
    await onHandle(`${path}.id.new`, 'w', async (file) => {
      await file.writeFile(`${id} ${part}\n`)
      await file.sync()
    })
    await rename(`${path}.id.new`, `${path}.id`)
    await syncFolder(path)
  }

  async #write(bytes: Buffer, at: number): Promise<void> {
    const { path } = this.#parts
    await onHandle(path, constants.O_WRONLY | constants.O_CREAT, async (file) => {
      for (let done = 0; done < bytes.length; ) {
        done += (await file.write(bytes, done, bytes.length - done, at + done)).bytesWritten
      }
      await file.sync()
    })
    if (at === 0) await syncFolder(path)
  }

  async #cut(bytes: number): Promise<void> {
    await onHandle(this.#parts.path, 'r+', async (file) => {
      await file.truncate(bytes)
      await file.sync()
    })
    this.#isLoose = false
  }

  /** Logs trouble once, when it changes, and every now and then. */
  #complain(text: string): void {
    const now = this.#parts.clock.steady()
    if (this.#trouble?.text === text && now - this.#trouble.saidAt < repeatMs) return
    this.#trouble = { text, saidAt: now }
    this.#parts.log.error(`dead letters are not written: ${text}`)
  }
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

/** Whether an error is the operating system's, about a file, or about the lock beside it. */
function isFileTrouble(error: unknown): error is NodeJS.ErrnoException {
  if (!(error instanceof Error) || error instanceof StoreTrouble) return false
  const { syscall, code } = error as NodeJS.ErrnoException
  return syscall !== undefined || code === 'ERR_SQLITE_ERROR'
}

async function onHandle(
  path: string,
  flags: string | number,
  work: (file: FileHandle) => Promise<void>,
): Promise<void> {
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

async function readIfExists(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, 'utf8')).trim()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
