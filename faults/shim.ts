import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  closeSync,
  mkdirSync,
  openSync,
  readFileSync,
  statSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { readTrace, type TraceRecord } from './trace.ts'

const source = join(import.meta.dirname, 'shim.c')

/** Compiles the shim. Answers its path, or the reason why this machine cannot have it. */
export function compileShim(folder: string): { readonly path: string } | { readonly missing: string } {
  if (process.platform !== 'linux') return { missing: 'LD_PRELOAD with traced calls is written for Linux' }
  mkdirSync(folder, { recursive: true })
  const path = join(folder, 'shim.so')
  const { error, status, stderr } = spawnSync('gcc', ['-O2', '-shared', '-fPIC', '-o', path, source, '-ldl'], {
    encoding: 'utf8',
  })
  if (error !== undefined) return { missing: `gcc is needed to compile faults/shim.c: ${error.message}` }
  return status === 0 ? { path } : { missing: `gcc does not compile faults/shim.c: ${stderr}` }
}

/** The words of the shim's control file, in the order of `struct control`. */
const words = [
  'clockMs',
  ...['syncErrno', 'syncAfter', 'syncTimes'],
  ...['writeErrno', 'writeAfter', 'writeTimes'],
  ...['liePercent', 'lieState'],
  ...['syncs', 'syncsLied', 'syncsFailed', 'writes', 'writesFailed'],
] as const

type Word = (typeof words)[number]
const wordBytes = 8
const controlBytes = 4096

/** The disk and the clock of programs that are started with `variables`. */
export class Shim {
  readonly variables: Readonly<Record<string, string>>
  readonly #control: string
  readonly #trace: string

  /** Stands before what is below `folder`; keeps its own files in `place`. The programs may run as another user. */
  constructor(library: string, folder: string, place: string) {
    this.#control = join(place, 'control')
    this.#trace = join(place, 'trace')
    for (const path of [this.#control, this.#trace]) {
      writeFileSync(path, path === this.#control ? Buffer.alloc(controlBytes) : '')
      chmodSync(path, 0o666)
    }
    this.variables = {
      LD_PRELOAD: library,
      FAULTS_FOLDER: folder,
      FAULTS_TRACE: this.#trace,
      FAULTS_CONTROL: this.#control,
    }
  }

  /** Sets words of the control file; running programs see them at once. */
  set(values: Partial<Record<Word, number>>): void {
    const fd = openSync(this.#control, 'r+')
    for (const [word, value] of Object.entries(values)) {
      const bytes = Buffer.alloc(wordBytes)
      bytes.writeBigInt64LE(BigInt(Math.round(value)))
      writeSync(fd, bytes, 0, wordBytes, words.indexOf(word as Word) * wordBytes)
    }
    closeSync(fd)
  }

  get(word: Word): number {
    return Number(readFileSync(this.#control).readBigInt64LE(words.indexOf(word) * wordBytes))
  }

  /** Makes `times` syncs or writes fail, after `after` more. */
  fail(call: 'sync' | 'write', error: 'EIO' | 'ENOSPC', after: number, times: number): void {
    const value = constants.errno[error]
    if (call === 'sync') this.set({ syncAfter: after, syncTimes: times, syncErrno: value })
    else this.set({ writeAfter: after, writeTimes: times, writeErrno: value })
  }

  heal(): void {
    this.set({ syncErrno: 0, writeErrno: 0, liePercent: 0 })
  }

  get traceBytes(): number {
    return statSync(this.#trace).size
  }

  readTrace(): TraceRecord[] {
    return readTrace(readFileSync(this.#trace))
  }

  /** Forgets what was traced. No program may be running. */
  clearTrace(): void {
    truncateSync(this.#trace, 0)
  }
}
