import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import type { Bench } from './bench.ts'
import type { Spent } from './preload.ts'

/** The real program in a process of its own, with its default settings. */
export interface Server {
  /** The base of the API, such as `http://127.0.0.1:34567/api/v1`; empty for a worker, which has none. */
  readonly api: string
  readonly pid: number
  /** The most memory the process ever had resident, in MiB. */
  peakRssMb(): number
  /** The processor time since its start. */
  spent(): Promise<Spent>
  /** Ends it as an operator would and waits until it is gone. */
  stop(): Promise<void>
  /** Ends it at once, as a crash would. */
  kill(): Promise<void>
}

/** The key with which every server here seals secrets. */
export const encryptionKey = Buffer.alloc(32, 7).toString('base64')

/** The admin key of every server here. */
export const apiKey = 'sk_bench0123456789abcdefghijklmnopqrstuvw'

const root = fileURLToPath(new URL('..', import.meta.url))
// As in the first line of src/main.ts and in npm start: the bench measures the program that operators run.
const runtimeFlags = ['--min-semi-space-size=12', '--max-semi-space-size=12', '--heap-growing-percent=100']
const startLimitMs = 60_000
const stopLimitMs = 25_000

/** The settings of a scenario beyond the common ones, as environment variables. */
export type Settings = Readonly<Record<string, string>>

/** Starts `sluice serve` on a free port and waits until it listens. */
export function startServer(bench: Bench, place: string, settings: Settings = {}): Promise<Server> {
  return start(bench, 'serve', place, /Listening on (http:\/\/\S+)/, settings)
}

/** Starts `sluice worker` beside a server on the same database and waits until it says that it runs. */
export function startWorker(bench: Bench, place: string, settings: Settings = {}): Promise<Server> {
  return start(bench, 'worker', place, /(\S+)/, settings)
}

async function start(bench: Bench, command: string, place: string, ready: RegExp, settings: Settings): Promise<Server> {
  const profiling = bench.profileDir === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${bench.profileDir}`]
  const program = [...runtimeFlags, ...profiling, '--import', './bench/preload.ts', 'src/main.ts', command]
  const child = spawn(process.execPath, program, {
    cwd: root,
    env: {
      PATH: process.env.PATH,
      HOME: bench.dir,
      SLUICE_STORE: place,
      SLUICE_LISTEN: '127.0.0.1:0',
      SLUICE_ADMIN_KEY: apiKey,
      SLUICE_ENCRYPTION_KEY: encryptionKey,
      SLUICE_ALLOW_NETWORKS: '127.0.0.0/8,::1/128',
      SLUICE_LOG_LEVEL: 'warn',
      // Attempts that hang on purpose are not waited for at the end.
      SLUICE_SHUTDOWN_LIMIT: '1s',
      ...settings,
    },
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const exit = once(child, 'exit')
  bench.ends.defer(async () => {
    child.kill('SIGKILL')
    await exit
  })
  const banner = await readBanner(child, ready, command)
  let peakMb = Number.NaN
  const readPeak = (): number => {
    peakMb = residentPeakMb(child) ?? peakMb
    return peakMb
  }
  return {
    api: command === 'serve' ? `${banner}/api/v1` : '',
    pid: child.pid ?? 0,
    peakRssMb: readPeak,
    async spent() {
      const reply = once(child, 'message')
      child.send('spent')
      return (await reply)[0]
    },
    async kill() {
      child.kill('SIGKILL')
      await exit
    },
    async stop() {
      readPeak()
      child.kill('SIGTERM')
      const late = setTimeout(() => child.kill('SIGKILL'), stopLimitMs)
      const [code, signal] = await exit
      clearTimeout(late)
      if (code !== 0) throw new Error(`sluice ${command} ended with ${signal ?? code} instead of 0 when asked to stop`)
    },
  }
}

/** The match of the pattern's first group in the program's standard output. */
function readBanner(child: ChildProcess, ready: RegExp, command: string): Promise<string> {
  let printed = ''
  let complaints = ''
  return new Promise((resolve, reject) => {
    const fail = (what: string): void => reject(new Error(`sluice ${command} ${what}\n${complaints.trim()}`))
    const limit = setTimeout(() => fail(`did not start within ${startLimitMs / 1000} s`), startLimitMs)
    child.once('exit', (code, signal) => {
      clearTimeout(limit)
      fail(`ended with ${signal ?? code} before it was ready`)
    })
    child.stderr?.on('data', (chunk) => {
      complaints = `${complaints}${chunk}`.slice(-4000)
    })
    child.stdout?.on('data', (chunk) => {
      printed = `${printed}${chunk}`.slice(-4000)
      const found = ready.exec(printed)?.[1]
      if (found === undefined) return
      clearTimeout(limit)
      resolve(found)
    })
  })
}

/** Linux keeps the peak itself (VmHWM), so nothing between two looks is missed; elsewhere, or once it ended, unknown. */
function residentPeakMb(child: ChildProcess): number | undefined {
  const file = `/proc/${child.pid}/status`
  if (child.exitCode !== null || !existsSync(file)) return undefined
  const kib = /VmHWM:\s+(\d+)/.exec(readFileSync(file, 'utf8'))?.[1]
  return kib === undefined ? undefined : Math.round(Number(kib) / 1024)
}
