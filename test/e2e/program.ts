import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { jsonType } from '../../src/domain/api.ts'
import { program as bundled, shortLived } from '../prepared.ts'
import { testEncryptionKey } from '../store/test-vault.ts'
import { atEnd, type Life } from './at-end.ts'
import { deadlineMs } from './eventually.ts'

/** The admin key of every server the tests start. */
export const apiKey = 'sk_endtoend0123456789abcdefghijklmnopqrst'

/** The lease of every worker the tests start. It is also how long a lane of a killed one is left alone. */
export const leaseMs = 1500

/**
 * Settings of a program that the test does not kill, and whose requests it counts. A busy machine may stop a process for
 * longer than `leaseMs`; the program then repeats the attempts that were open, as it should.
 */
export const longLease = { SLUICE_LEASE: '60s' } as const

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

/** The settings of every server the tests start, and those of the test. */
export function settingsOf(store: string, settings: Readonly<Record<string, string>>): Record<string, string> {
  return {
    SLUICE_STORE: store,
    SLUICE_LISTEN: '127.0.0.1:0',
    SLUICE_ADMIN_KEY: apiKey,
    SLUICE_ENCRYPTION_KEY: testEncryptionKey,
    SLUICE_ALLOW_NETWORKS: '127.0.0.0/8',
    SLUICE_LEASE: `${leaseMs}ms`,
    // Tests retry sooner and fail more often than tenants may; the attacks run with the defaults.
    SLUICE_MIN_RETRY_WAIT: '0s',
    SLUICE_FAILURES_PER_MINUTE: '0',
    ...settings,
  }
}

/** How the process itself is started. */
export interface ProcessOptions {
  /** Arguments of Node, before the program's own, in place of those for short lives. */
  readonly nodeArguments?: readonly string[]
  /** The path of another program: its sources, where the test looks at the modules that are loaded, or a later version. */
  readonly program?: string | undefined
  /** No file can grow past so many blocks, as on a full disk. */
  readonly fileBlocks?: number
  /** Flags of the command. */
  readonly flags?: readonly string[]
  /** Variables of its environment beside the settings. */
  readonly variables?: Readonly<Record<string, string>>
}

/** The real program in a process of its own. However a test ends, the process ends with it. */
export class Program {
  readonly command: string
  readonly process: ChildProcess
  readonly exited: Promise<Exit>
  /** Its lines on standard output and, as log lines, on standard error. */
  printed = ''
  logged = ''
  #api = ''

  private constructor(
    t: Life,
    command: string,
    store: string,
    settings: Readonly<Record<string, string>>,
    { nodeArguments = shortLived, program = bundled, fileBlocks, flags = [], variables }: ProcessOptions = {},
  ) {
    const home = mkdtempSync(join(tmpdir(), 'sluice-e2e-'))
    this.command = command
    const line = [process.execPath, ...nodeArguments, program, command, ...flags]
    const limited = fileBlocks === undefined ? line : ['sh', '-c', `ulimit -f ${fileBlocks}; exec "$@"`, 'sh', ...line]
    this.process = spawn(limited[0] as string, limited.slice(1), {
      // An empty directory, so that no file of settings is found.
      cwd: home,
      env: {
        PATH: process.env.PATH,
        ...(process.env.NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE }),
        ...settingsOf(store, settings),
        ...variables,
      },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    })
    this.exited = once(this.process, 'exit').then(([code, signal]) => ({ code, signal }))
    this.process.stdout?.setEncoding('utf8').on('data', (text) => {
      this.printed += text
    })
    this.process.stderr?.setEncoding('utf8').on('data', (text) => {
      this.logged += text
    })
    atEnd(t, async () => {
      await this.kill()
      rmSync(home, { recursive: true })
      if (!(t as Life & { readonly passed: boolean }).passed)
        t.diagnostic(`the log of ${command} (pid ${this.pid}) ends:\n${this.logged.slice(-3000)}`)
    })
  }

  /** Starts a command and waits until it says that it runs; rejects when it ends instead. */
  static async start(
    t: Life,
    command: 'serve' | 'worker',
    store: string,
    settings: Readonly<Record<string, string>> = {},
    options: ProcessOptions = {},
  ): Promise<Program> {
    const program = new Program(t, command, store, settings, options)
    const ready = command === 'serve' ? /Listening on (http:\/\/[\d.:]+)/ : /(delivering) as a worker/
    const found = await program.#prints(ready)
    if (command === 'serve') program.#api = `${found}/api/v1`
    return program
  }

  /** Starts a command that is expected to end by itself, and waits until it has. */
  static async run(
    t: Life,
    command: string,
    store: string,
    settings: Readonly<Record<string, string>> = {},
    options: ProcessOptions = {},
  ): Promise<Program & { readonly exit: Exit }> {
    const program = new Program(t, command, store, settings, options)
    return Object.assign(program, { exit: await program.exited })
  }

  get pid(): number {
    return this.process.pid as number
  }

  /** The base of the API. */
  get api(): string {
    return this.#api
  }

  /** Asks the API with the admin key. Answers JSON, or any other body as text; rejects when the request is refused. */
  // biome-ignore lint/suspicious/noExplicitAny: an answer is any JSON, and a test that reads a missing field fails by itself.
  ask(method: string, path: string, body?: unknown): Promise<any> {
    return askAt(this.#api, method, path, body)
  }

  get isRunning(): boolean {
    return this.process.exitCode === null && this.process.signalCode === null
  }

  /** Ends it as a power cut would: no handler runs. */
  async kill(): Promise<void> {
    if (this.isRunning) this.process.kill('SIGKILL')
    await this.exited
  }

  /** Stops it in the middle of whatever it does, as a virtual machine being moved does; `resume` lets it go on. */
  pause(): void {
    this.process.kill('SIGSTOP')
  }

  resume(): void {
    this.process.kill('SIGCONT')
  }

  /** Asks it to stop, as an operator would. */
  terminate(): void {
    this.process.kill('SIGTERM')
  }

  #prints(pattern: RegExp): Promise<string> {
    return new Promise((resolve, reject) => {
      const fail = (what: string) => reject(new Error(`sluice ${this.command} ${what}\n${this.logged}`))
      const limit = setTimeout(() => fail('did not start in time'), deadlineMs)
      const look = () => {
        const found = pattern.exec(this.printed)?.[1]
        if (found === undefined) return
        clearTimeout(limit)
        resolve(found)
      }
      this.process.stdout?.on('data', look)
      this.process.once('exit', (code, signal) => {
        clearTimeout(limit)
        fail(`ended with ${signal ?? code} before it was ready`)
      })
    })
  }
}

/** Asks the API at the base with the admin key. */
export async function askAt(api: string, method: string, path: string, body?: unknown): Promise<unknown> {
  const answer = await fetch(`${api}${path}`, {
    method,
    headers: { authorization: `Bearer ${apiKey}`, ...(body !== undefined && { 'content-type': 'application/json' }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`)
  return answer.headers.get('content-type') === jsonType ? JSON.parse(text) : text
}
