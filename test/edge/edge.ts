import assert from 'node:assert/strict'
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import { Agent, type Dispatcher, request } from 'undici'
import type { SignatureProfile } from '../../src/domain/flow.ts'
import { signerOf, signingBy } from '../../src/wire/profile.ts'
import { atEnd } from '../e2e/at-end.ts'
import { deadlineMs } from '../e2e/eventually.ts'

export const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'
export const token = 'edge-token-0123456789abcdef'

/** Says why the tests of the edge are skipped; undefined where workerd runs. */
export const skip = whyNoWorkerd()

function whyNoWorkerd(): string | undefined {
  try {
    const path = createRequire(createRequire(import.meta.url).resolve('miniflare'))('workerd').default as string
    const { status, error, stderr } = spawnSync(path, ['--version'], { encoding: 'utf8' })
    return status === 0 ? undefined : `workerd does not run here: ${error?.message ?? stderr.slice(0, 200)}`
  } catch (error) {
    return `workerd is not installed: ${(error as Error).message.split('\n')[0]}`
  }
}

export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

export interface Sent {
  readonly method?: Dispatcher.HttpMethod
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Buffer
}

/**
 * The Worker in a real workerd, in processes of its own that can be killed like by a power cut. Its storage is a folder,
 * which the next process finds.
 */
export class Edge {
  readonly folder: string
  readonly #variables: Record<string, unknown>
  readonly #agent = new Agent({ headersTimeout: deadlineMs, bodyTimeout: deadlineMs, connections: 64, pipelining: 1 })
  #process: ChildProcess | undefined
  #url = ''
  #calls = 0

  readonly #kept: Readonly<Record<string, object>> | undefined

  private constructor(variables: Readonly<Record<string, unknown>>, kept?: Readonly<Record<string, object>>) {
    this.#kept = kept
    this.folder = mkdtempSync(join(tmpdir(), 'sluice-edge-'))
    this.#variables = { EDGE_TOKEN: token, ...variables }
  }

  /** Starts an edge with routes by name. Each has the tests' secret unless `secrets` names another. */
  static async start(
    t: TestContext,
    routes: Readonly<Record<string, object>>,
    secrets: Readonly<Record<string, string>> = {},
    /** Entries of the KV namespace ROUTES. */
    kept?: Readonly<Record<string, object>>,
  ): Promise<Edge> {
    const variables = Object.keys(routes).flatMap((name) => [
      [`ROUTE_${name}`, { allowHttp: true, ...routes[name] }],
      [`SECRET_${name}`, secrets[name] ?? secret],
    ])
    const edge = new Edge(Object.fromEntries(variables), kept)
    atEnd(t, async () => {
      await edge.#agent.destroy()
      await edge.kill()
      rmSync(edge.folder, { recursive: true, force: true, maxRetries: 5 })
    })
    await edge.start()
    return edge
  }

  get url(): string {
    return this.#url
  }

  /** Starts the processes, on the same port as before. `changed` replaces variables. */
  async start(changed: Readonly<Record<string, unknown>> = {}): Promise<void> {
    Object.assign(this.#variables, changed)
    const port = this.#url === '' ? 0 : Number(new URL(this.#url).port)
    const settings = { variables: this.#variables, routes: this.#kept, folder: this.folder, port }
    const entry = join(import.meta.dirname, 'edge-process.ts')
    // A group of its own, so that one signal ends both Miniflare and workerd.
    const child = spawn(process.execPath, [entry, JSON.stringify(settings)], {
      detached: true,
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    let logged = ''
    child.stderr?.setEncoding('utf8').on('data', (text) => {
      logged = (logged + text).slice(-4000)
    })
    this.#process = child
    const ended = once(child, 'exit').then(() => assert.fail(`the edge did not start\n${logged}`))
    const [{ url }] = (await Promise.race([once(child, 'message'), ended])) as [{ url: string }]
    this.#url = url.replace(/\/$/, '')
  }

  /** Ends the edge as a power cut would. */
  async kill(): Promise<void> {
    const child = this.#process
    this.#process = undefined
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    process.kill(-child.pid, 'SIGKILL')
    await exited
  }

  /** Runs a statement in the storage of a Durable Object, such as one that makes rows old. */
  async exec(
    className: 'DeliveryLedger' | 'Outbox',
    name: string,
    statement: string,
  ): Promise<Record<string, unknown>[]> {
    const child = this.#process as ChildProcess
    const call = ++this.#calls
    const answered = new Promise<{ rows?: Record<string, unknown>[]; problem?: string }>((resolve) => {
      const listen = (message: { call: number; rows?: Record<string, unknown>[]; problem?: string }) => {
        if (message.call !== call) return
        child.off('message', listen)
        resolve(message)
      }
      child.on('message', listen)
    })
    child.send({ call, object: [className, name], statement })
    const { rows, problem } = await answered
    assert.equal(problem, undefined)
    return rows ?? []
  }

  async send(path: string, { method = 'POST', headers = {}, body }: Sent): Promise<Reply> {
    const reply = await request(`${this.#url}${path}`, { method, headers, body: body ?? null, dispatcher: this.#agent })
    return { status: reply.statusCode, headers: reply.headers, body: await reply.body.text() }
  }

  /** Calls a path for the operator. */
  async operate(
    method: Dispatcher.HttpMethod,
    path: string,
  ): Promise<{ status: number; json: Record<string, unknown> }> {
    const { status, body } = await this.send(path, { method, headers: { authorization: `Bearer ${token}` } })
    return { status, json: body === '' ? {} : JSON.parse(body) }
  }
}

/** The figures of a route, as the operator sees them. */
export async function figures(edge: Edge, route: string): Promise<Record<string, number>> {
  const { json } = await edge.operate('GET', `/-/status/${route}`)
  return json as Record<string, number>
}

/** A request as Sluice signs it. */
export function signed(
  id: string,
  body: string | Buffer,
  {
    profile = 'standard' as SignatureProfile,
    key = secret,
    ageSeconds = 0,
    headers = {} as Readonly<Record<string, string>>,
  } = {},
): Required<Pick<Sent, 'headers' | 'body'>> {
  const signer = signerOf(profile, key)
  assert.ok(signer)
  const signing = signingBy(profile, [{ sign: signer, expiresAt: Number.POSITIVE_INFINITY }], 'webhook')
  const values: string[] = []
  const timestamp = String(Math.floor(Date.now() / 1000) - ageSeconds)
  signing.values(values, 0, { id, body: Buffer.from(body) }, timestamp, Date.now())
  const own = Object.fromEntries(signing.names.map((name, i) => [name, values[2 * i] as string]))
  return { headers: { 'content-type': 'application/json', ...own, ...headers }, body }
}

let made = 0

/** An id as Sluice makes them: a later one sorts behind an earlier one. */
export function messageId(): string {
  return `msg_${String(++made).padStart(9, '0')}${'x'.repeat(18)}`
}
