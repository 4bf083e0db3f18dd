import assert from 'node:assert/strict'
import { once } from 'node:events'
import { appendFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { after, type TestContext } from 'node:test'
import { Worker } from 'node:worker_threads'
import { request } from 'undici'
import { atEnd } from '../e2e/at-end.ts'
import { Client } from '../e2e/client.ts'
import { openPlace, type Place } from '../e2e/place.ts'
import { apiKey, Program } from '../e2e/program.ts'
import { monitored } from '../prepared.ts'
import type { Question } from './bystander.ts'

/** `npm run test:attack` runs the long form: more connections, more rounds. `npm test` runs the short one. */
export const isLong = process.env.SLUICE_ATTACK === 'long'

export const dialects = ['sqlite', 'postgres'] as const

/** The promise: no other client waits longer than this for one client's requests. */
export const promisedMs = 50
/** A run fails above this. The room is for slow and busy machines; the attacks held the loop for seconds. */
const failsAboveMs = 3 * promisedMs

/** The figures of one attack. */
export interface Figures {
  /** The longest time that one turn of the event loop computed. */
  readonly cpuStallMs: number
  /** The longest time between two turns by the wall clock, the machine's other work included. */
  readonly wallStallMs: number
  readonly peakMb: number
  /** The growth of the process's memory at its peak. */
  readonly grownMb: number
  /** The longest time that a bystander waited for an answer, by the wall clock. */
  readonly bystanderMs: number
}

interface Reading {
  readonly cpuStallMs: number
  readonly wallStallMs: number
  readonly peakBytes: number
  readonly rssBytes: number
}

/** How long the bystander waits between two requests. 200 a second would be a tenth of a core. */
const pauseMs = isLong ? 5 : 50

interface Server {
  readonly program: Program
  readonly place: Place
  readonly client: Client
}

const ends: (() => unknown)[] = []
after(async () => {
  for (const end of ends) await end()
})

/** In place of the context of a test: it ends when the last test of this process has ended. */
const wholeProcess = { after: (end: () => unknown) => ends.push(end), passed: true } as unknown as TestContext

let applications = 0
const shared = new Map<string, Server | Promise<Server>>()

type Settings = Readonly<Record<string, string>>

/** A real server under attack, measured from within and by a bystander. */
export class Target {
  readonly #t: TestContext
  readonly #server: Server

  private constructor(t: TestContext, server: Server) {
    this.#t = t
    this.#server = server
  }

  /** Starts a server of its own on an empty store. */
  static async start(t: TestContext, dialect: (typeof dialects)[number], settings: Settings = {}): Promise<Target> {
    return new Target(t, await startServer(t, dialect, settings))
  }

  /**
   * A server that all tests of this process with these settings share: for attacks that need no empty store, and that use
   * up no limit of another test. In the long form each test has a server of its own.
   */
  static async share(t: TestContext, dialect: (typeof dialects)[number], settings: Settings = {}): Promise<Target> {
    if (isLong) return Target.start(t, dialect, settings)
    const name = JSON.stringify([dialect, settings])
    const known = await shared.get(name)
    const server = known?.program.isRunning ? known : startServer(wholeProcess, dialect, settings)
    shared.set(name, server)
    const target = new Target(t, await server)
    atEnd(t, () => {
      if (!(t as TestContext & { readonly passed: boolean }).passed) t.diagnostic(target.program.logged.slice(-3000))
    })
    return target
  }

  get program(): Program {
    return this.#server.program
  }

  get place(): Place {
    return this.#server.place
  }

  get client(): Client {
    return this.#server.client
  }

  get port(): number {
    return Number(new URL(this.program.api).port)
  }

  /** Makes an application that no other test uses; answers its name. */
  async newApplication(): Promise<string> {
    const name = `app-${++applications}`
    await this.client.createApplication(name)
    return name
  }

  /** Sends a request and reads the answer, with the admin key unless `headers` names another. */
  async call(
    method: string,
    path: string,
    options: { body?: unknown; headers?: Readonly<Record<string, string>>; timeoutMs?: number } = {},
  ): Promise<{ status: number; headers: Readonly<Record<string, unknown>>; text: string }> {
    const { body, timeoutMs = 60_000 } = options
    const raw = typeof body === 'string' || Buffer.isBuffer(body) || body === undefined
    const reply = await request(`${this.program.api}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${apiKey}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...options.headers,
      },
      body: body === undefined ? null : raw ? (body as string | Buffer) : JSON.stringify(body),
      headersTimeout: timeoutMs,
      bodyTimeout: timeoutMs,
    })
    return { status: reply.statusCode, headers: reply.headers, text: await reply.body.text() }
  }

  /** Opens a bare connection, for bytes that no HTTP client sends. It ends with the test. */
  async connect(localAddress = '127.0.0.1'): Promise<Socket> {
    const socket = connect({ port: this.port, host: '127.0.0.1', localAddress })
    socket.on('error', () => {}) // The server may hang up on an attacker.
    atEnd(this.#t, () => socket.destroy())
    await once(socket, 'connect')
    return socket
  }

  /**
   * Runs an attack while a bystander keeps asking for something small, and reports the figures. Fails when the process
   * ended, when the loop was held for longer than promised (with room for a busy machine), or when memory grew past
   * `grownMbAtMost`.
   */
  async measure(
    name: string,
    attack: () => Promise<unknown>,
    limits: { readonly grownMbAtMost?: number } = {},
  ): Promise<Figures> {
    const before = await this.#ask('begin')
    await this.#askBystander('begin')
    await attack()
    const watched = (await this.#askBystander('read')) as number
    assert.ok(this.program.isRunning, `${name}: the process ended\n${this.program.logged.slice(-2000)}`)
    const after = await this.#ask('read')
    const figures: Figures = {
      cpuStallMs: round(after.cpuStallMs),
      wallStallMs: round(after.wallStallMs),
      peakMb: round(after.peakBytes / 2 ** 20),
      grownMb: round((after.peakBytes - before.rssBytes) / 2 ** 20),
      bystanderMs: round(watched),
    }
    this.#report(name, figures)
    assert.ok(figures.cpuStallMs <= failsAboveMs, `${name}: one turn of the event loop took ${figures.cpuStallMs} ms`)
    const most = limits.grownMbAtMost ?? 256
    assert.ok(figures.grownMb <= most, `${name}: memory grew by ${figures.grownMb} MB; at most ${most} are allowed`)
    return figures
  }

  #report(name: string, figures: Figures): void {
    reportLine(this.#t, { attack: name, store: this.place.dialect, ...figures })
  }

  /** The bystander of this process asks the server that is under attack. */
  async #askBystander(question: Question['question']): Promise<unknown> {
    bystander ??= startBystander()
    const answer = once(bystander, 'message')
    bystander.postMessage({ question, port: this.port, pauseMs } satisfies Question)
    const [said] = await answer
    return said
  }

  async #ask(question: 'begin' | 'read'): Promise<Reading> {
    const answer = once(this.program.process, 'message')
    this.program.process.send(question)
    const [reading] = await answer
    return reading as Reading
  }
}

/** Adds a line to the table of `npm run test:attack`. */
export function reportLine(t: TestContext, line: Readonly<Record<string, unknown>>): void {
  t.diagnostic(JSON.stringify(line))
  const file = process.env.SLUICE_ATTACK_REPORT
  if (file !== undefined) appendFileSync(file, `${JSON.stringify(line)}\n`)
}

let bystander: Worker | undefined

function startBystander(): Worker {
  const worker = new Worker(new URL('bystander.ts', import.meta.url))
  ends.push(() => worker.terminate())
  return worker
}

async function startServer(t: TestContext, dialect: (typeof dialects)[number], settings: Settings): Promise<Server> {
  const place = await openPlace(t, dialect)
  const nodeArguments = isLong ? monitored.slice(1) : monitored
  // The defaults, and a long lease: with the kill tests' short one, a server on a starved machine loses its lanes.
  const floors = { SLUICE_MIN_RETRY_WAIT: '1s', SLUICE_FAILURES_PER_MINUTE: '60', SLUICE_LEASE: '30s' }
  const program = await Program.start(t, 'serve', place.store, { ...floors, ...settings }, { nodeArguments })
  const client = new Client(program.api)
  atEnd(t, () => client.close())
  return { program, place, client }
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}
