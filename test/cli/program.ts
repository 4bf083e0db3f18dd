import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { runProgram } from '../../src/cli/program.ts'
import type { Clock } from '../../src/domain/clock.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { openLog } from '../../src/runtime/log.ts'
import type { StopSignal, Terminal } from '../../src/runtime/process.ts'
import { processesOf } from '../../src/runtime/processes.ts'
import { systemRandomText } from '../../src/runtime/random.ts'
import { version } from '../../src/runtime/version.ts'
import { program, shortLived } from '../prepared.ts'

/** The program as it is started. */
export { program as main } from '../prepared.ts'

/** A run of the real program in a directory of its own. */
export class Run {
  readonly child: ChildProcess
  readonly ended: Promise<number | null>
  out = ''
  err = ''

  constructor(args: readonly string[], directory: string, env: Record<string, string>, input?: string) {
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('SLUICE_'))
    this.child = spawn(process.execPath, [...shortLived, program, ...args], {
      cwd: directory,
      env: { ...Object.fromEntries(inherited), ...env },
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    })
    this.child.stdin?.end(input)
    this.child.stdout?.on('data', (chunk) => {
      this.out += chunk
    })
    this.child.stderr?.on('data', (chunk) => {
      this.err += chunk
    })
    this.ended = once(this.child, 'close').then(([code]) => code)
  }

  /** Waits until standard output matches; the answer is the first group. Throws when the program ends before. */
  async says(pattern: RegExp): Promise<string> {
    for (;;) {
      const match = pattern.exec(this.out)
      if (match) return match[1] ?? match[0]
      const gone = await Promise.race([
        once(this.child.stdout as NonNullable<ChildProcess['stdout']>, 'data').then(() => false),
        this.ended.then(() => true),
      ])
      if (gone && !pattern.test(this.out)) throw new Error(`the program ended with: ${this.out}${this.err}`)
    }
  }
}

export interface Workplace {
  readonly directory: string
  /** Runs the program. Arguments that contain spaces are given as a list. */
  run(args: string | readonly string[], env?: Record<string, string>, input?: string): Run
  /** Begins a command within this process; it is asked to stop after the tests of the file. */
  begin(args: string | readonly string[], env?: Record<string, string>): RunHere
}

/** A directory and the programs run in it; all of it is gone after the tests of the file. */
export function workplace(): Workplace {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-cli-'))
  const runs: Run[] = []
  const begun: RunHere[] = []
  after(async () => {
    for (const { child } of runs) child.kill('SIGKILL')
    for (const run of begun) run.stop('SIGTERM')
    await Promise.all([...runs, ...begun].map(({ ended }) => ended))
    rmSync(directory, { recursive: true })
  })
  return {
    directory,
    run(args, env = {}, input) {
      const run = new Run(typeof args === 'string' ? args.split(' ') : args, directory, env, input)
      runs.push(run)
      return run
    },
    begin(args, env = {}) {
      const run = new RunHere(typeof args === 'string' ? args.split(' ') : args, directory, env)
      begun.push(run)
      return run
    },
  }
}

/** The admin key of the servers that `served` starts. */
export const adminKey = 'sk_fixed_0123456789'

/** A server of its own, and commands that ask it. */
export interface Served extends Workplace {
  readonly url: string
  readonly server: RunHere
  /** Runs a command against the server to its end; throws unless it ends with `code`. */
  sluice(args: string | readonly string[], code?: number, input?: string): Promise<string>
  /** Runs a command to whatever end. */
  try(args: string, answer?: string): ReturnType<typeof runHere>
  /** The JSON that a command prints. */
  json<T = Record<string, unknown>>(args: string | readonly string[], input?: string): Promise<T>
  /** For commands that go on until they are stopped. */
  readonly env: Record<string, string>
}

/** How a command ended, and what it said. */
export interface Ended {
  readonly ended: number
  readonly out: string
  readonly err: string
}

const parts = () => import('../../src/compose/parts.ts')

/**
 * A run within this process: the real program over the real parts and a terminal that remembers. Starting a process for
 * each of the 200 commands of these tests took two minutes, and one for each of their servers ten seconds. Tests of
 * signals, of exits and of several processes start processes.
 */
export class RunHere {
  readonly ended: Promise<number>
  out = ''
  /** Standard error, with the log. */
  err = ''
  readonly #stopped = Promise.withResolvers<StopSignal>()
  #more = Promise.withResolvers<void>()

  constructor(
    args: readonly string[],
    directory: string,
    env: Readonly<Record<string, string>>,
    input = '',
    /** The line typed at a terminal, when a command asks; undefined without a terminal. */
    answer?: string,
    clock: Clock = systemClock,
  ) {
    const terminal: Terminal = {
      env,
      directory,
      description: `pid ${process.pid} on ${hostname()}`,
      columns: undefined,
      print: (text) => this.#print(`${text}\n`),
      printError: (text) => {
        this.err += `${text}\n`
      },
      write: async (chunk) => this.#print(typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString()),
      progress: () => {},
      inputIsTyped: false,
      asks: answer !== undefined,
      ask: async (question) => {
        this.err += question
        return answer ?? ''
      },
      readInput: async () => Buffer.from(input),
      command: 'npx sluice',
      whenReaderCloses: () => {},
      style: (_format, text) => text,
      openScreen: () => undefined,
      stopRequested: () => this.#stopped.promise,
    }
    const log = {
      write: (line: string) => {
        this.err += line
      },
    }
    this.ended = runProgram(
      {
        version,
        clock,
        randomText: systemRandomText,
        terminal,
        openLog: (config) => openLog(config, log, false),
        openParts: async (config, log, opening) => (await parts()).openParts(config, log, opening),
        processes: processesOf({}),
        schemaPlan: async (config) => (await parts()).schemaPlan(config),
        moveStore: async (...given) => (await import('../../src/compose/move.ts')).moveStore(...given),
        undoMove: async (...given) => (await import('../../src/compose/move.ts')).undoMove(...given),
      },
      args,
    )
  }

  /** Asks the command to stop, as the signal does. */
  stop(signal: StopSignal): void {
    this.#stopped.resolve(signal)
  }

  /** Waits until standard output matches; the answer is the first group. Throws when the command ends before. */
  async says(pattern: RegExp): Promise<string> {
    for (;;) {
      const match = pattern.exec(this.out)
      if (match) return match[1] ?? match[0]
      const gone = await Promise.race([this.#more.promise.then(() => false), this.ended.then(() => true)])
      if (gone && !pattern.test(this.out)) throw new Error(`the command ended with: ${this.out}${this.err}`)
    }
  }

  #print(text: string): void {
    this.out += text
    this.#more.resolve()
    this.#more = Promise.withResolvers()
  }
}

/** Runs a command within this process to its end. */
export async function runHere(
  args: readonly string[],
  { directory }: Pick<Workplace, 'directory'>,
  env: Readonly<Record<string, string>>,
  input = '',
  answer?: string,
  clock?: Clock,
): Promise<Ended> {
  const run = new RunHere(args, directory, env, input, answer, clock)
  return { ended: await run.ended, out: run.out, err: run.err }
}

/** Starts a server at the workplace, by default one that may deliver to this machine. */
export async function served(place: Workplace, flags: readonly string[] = ['--local']): Promise<Served> {
  const server = place.begin(['serve', '--listen', '127.0.0.1:0', ...flags], {
    SLUICE_ADMIN_KEY: adminKey,
    SLUICE_STORE: `sqlite:${join(place.directory, 'data/sluice.db')}`,
    SLUICE_SHUTDOWN_LIMIT: '0s',
    // Tests fail more often than tenants may.
    SLUICE_FAILURES_PER_MINUTE: '0',
  })
  const url = await server.says(/Listening on (http:\/\/\S+)/)
  const env = { SLUICE_URL: url, SLUICE_API_KEY: adminKey }
  const sluice = async (args: string | readonly string[], code = 0, input?: string) => {
    const { ended, out, err } = await runHere(typeof args === 'string' ? args.split(' ') : args, place, env, input)
    if (ended !== code) throw new Error(`sluice ${args} ended with ${ended}: ${out}${err}`)
    return code === 0 ? out : err
  }
  const json = async <T>(args: string | readonly string[], input?: string) =>
    JSON.parse(await sluice(typeof args === 'string' ? `${args} --json` : [...args, '--json'], 0, input)) as T
  const attempt = (args: string, answer?: string) => runHere(args.split(' '), place, env, '', answer)
  return { ...place, url, server, env, sluice, json, try: attempt }
}
