import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { type Behaviour, behave, choose, type Shares, seededRandom } from '../src/cli/chaos.ts'
import { openReceiver } from '../src/cli/listen.ts'
import { apiRoot } from '../src/domain/api.ts'
import { systemClock } from '../src/runtime/clock.ts'

/** A server with applications and endpoints of its own, under load from a misbehaving receiver. */
export interface ChaosLoad {
  readonly url: string
  readonly key: string
  /** Signs a browser in, once. */
  readonly signInLink: string
  readonly store: string
  readonly received: Received
  /** Messages that the server accepted. */
  readonly accepted: number
  /** Asks the API; throws unless it answers with 2xx. */
  ask(method: string, path: string, body?: unknown): Promise<unknown>
  /** Publishes for this long, or until the signal. */
  publish(ms: number, signal?: AbortSignal): Promise<void>
  stop(): Promise<void>
}

/** Attempts that reached the receiver, each once: a request that the sender repeats on a new connection is the same attempt. */
export interface Received {
  readonly attempts: number
  readonly by: Readonly<Record<Behaviour, number>>
}

interface Options {
  readonly seed: string
  /** Settings of the server, as variables. */
  readonly settings?: Readonly<Record<string, string>>
  /** The URL of a Postgres database; a SQLite file without one. */
  readonly postgres?: string
}

const applications = ['acme', 'globex', 'initech', 'umbrella'] as const
const eventTypes = ['order.paid', 'order.refunded', 'invoice.created', 'user.deleted', 'video.trending'] as const
const attemptHeader = 'x-attempt'
const deliveryHeader = 'x-delivery'

/** The shares of behaviours by the first part of the path. */
const receivers: Readonly<Record<string, Shares>> = {
  healthy: { success: 1, error: 0, limit: 0, slow: 0, hang: 0, drip: 0, reset: 0 },
  flaky: { success: 0.85, error: 0.12, limit: 0, slow: 0, hang: 0, drip: 0, reset: 0.03 },
  limited: { success: 0.7, error: 0, limit: 0.3, slow: 0, hang: 0, drip: 0, reset: 0 },
  slow: { success: 0.8, error: 0, limit: 0, slow: 0, hang: 0.1, drip: 0.1, reset: 0 },
  broken: { success: 0, error: 1, limit: 0, slow: 0, hang: 0, drip: 0, reset: 0 },
}

const twoQuickRetries = { waits: { kind: 'list', ms: [1000, 2000] } }

/** Each application has these endpoints. */
const endpoints: readonly { readonly receiver: keyof typeof receivers; readonly settings?: object }[] = [
  { receiver: 'healthy' },
  { receiver: 'flaky', settings: { retry: twoQuickRetries } },
  { receiver: 'limited', settings: { rate: 5, periodMs: 1000, burst: 5 } },
  { receiver: 'slow' },
  { receiver: 'broken' },
]

/** The paths of all endpoints in the API. */
export function endpointsOf(): string[] {
  return applications.flatMap((uid) => endpoints.map(({ receiver }) => `/app/${uid}/endpoint/${uid}-${receiver}`))
}

export async function openChaosLoad({ seed, settings = {}, postgres }: Options): Promise<ChaosLoad> {
  const random = seededRandom(seed)
  const place = mkdtempSync(join(tmpdir(), 'sluice-load-'))
  const by: Record<Behaviour, number> = { success: 0, error: 0, limit: 0, slow: 0, hang: 0, drip: 0, reset: 0 }
  const received = { attempts: 0, by }
  const seen = new Map<string, Behaviour>()
  const { server, address } = await openReceiver({ host: '127.0.0.1', port: 0 }, (arrived) => {
    const { url = '/', headers } = arrived.request
    const attempt = `${headers[deliveryHeader]} ${headers[attemptHeader]}`
    const shares = receivers[url.split('/')[1] ?? ''] ?? receivers.healthy
    // A repeated request meets what its attempt met before, so that one attempt has one behaviour.
    const behaviour = seen.get(attempt) ?? choose('/', shares as Shares, random).behaviour
    if (!seen.has(attempt)) {
      seen.set(attempt, behaviour)
      received.attempts++
      by[behaviour]++
    }
    behave(behaviour, arrived, { status: 503, retryAfterSeconds: 2, slowMs: 0, clock: systemClock })
  })
  const base = `http://127.0.0.1:${address.port}`
  const child = spawn(
    process.execPath,
    [join(import.meta.dirname, '../src/main.ts'), 'serve', '--local', '--listen', '127.0.0.1:0'],
    {
      cwd: place,
      env: {
        ...process.env,
        ...(postgres && { SLUICE_STORE: postgres, SLUICE_ENCRYPTION_KEY: randomBytes(32).toString('base64') }),
        SLUICE_LOG_LEVEL: 'warn',
        ...settings,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  const { url, key, signInLink } = await readBanner(child)
  let accepted = 0

  async function ask(method: string, path: string, body?: unknown): Promise<unknown> {
    const answer = await fetch(`${url}${apiRoot}${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path} answered ${answer.status}: ${text}`)
    return text === '' ? undefined : JSON.parse(text)
  }

  for (const name of eventTypes) await ask('POST', '/event-type', { name, description: `Sent when ${says(name)}.` })
  for (const uid of applications) {
    const name = (uid[0] as string).toUpperCase() + uid.slice(1)
    const headerTemplates = { [deliveryHeader]: '{deliveryId}', [attemptHeader]: '{attempt}' }
    await ask('POST', '/app', { name, uid, headerTemplates })
    for (const { receiver, settings = {} } of endpoints) {
      await ask('POST', `/app/${uid}/endpoint`, {
        uid: `${uid}-${receiver}`,
        url: `${base}/${receiver}/${uid}`,
        description: `${name}, ${receiver}`,
        // A response that drips has all its headers after 15 s: well before this, so that it counts as delivered.
        timeoutMs: 25_000,
        ...settings,
      })
    }
  }

  return {
    url,
    key,
    signInLink,
    store: postgres ?? join(place, 'data/sluice.db'),
    received,
    get accepted() {
      return accepted
    },
    ask,
    async publish(ms, signal) {
      const until = performance.now() + ms
      while (performance.now() < until && signal?.aborted !== true) {
        const uid = applications[Math.floor(random() ** 2 * applications.length)] as string
        const eventType = eventTypes[Math.floor(random() * eventTypes.length)] as string
        await ask('POST', `/app/${uid}/msg`, { eventType, payload: payload(eventType, random) })
        accepted++
        await new Promise((resolve) => setTimeout(resolve, 40 * random()))
      }
    },
    async stop() {
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
      server.closeAllConnections()
      server.close()
      rmSync(place, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

function says(eventType: string): string {
  const [noun = '', verb = ''] = eventType.split('.')
  return verb === 'trending' ? `a ${noun} is trending` : `${/^[aeiou]/.test(noun) ? 'an' : 'a'} ${noun} is ${verb}`
}

function payload(eventType: string, random: () => number): Record<string, unknown> {
  const id = Math.floor(random() * 1e6)
  const [noun = 'thing'] = eventType.split('.')
  return {
    [noun]: { id: `${noun}_${id}`, amount: Math.floor(random() * 100_000) / 100, currency: 'EUR' },
    sequence: id,
  }
}

async function readBanner(child: ChildProcess): Promise<{ url: string; key: string; signInLink: string }> {
  if (child.stdout === null) throw new Error('the server has no output')
  let text = ''
  for await (const line of createInterface(child.stdout)) {
    text += `${line}\n`
    const url = /Listening on (\S+)/.exec(text)?.[1]
    const key = /(sk_\w+)/.exec(text)?.[1]
    const signInLink = /(\S+#signin=\S+)/.exec(text)?.[1]
    if (url !== undefined && key !== undefined && signInLink !== undefined) return { url, key, signInLink }
  }
  throw new Error(`the server ended before it listened:\n${text}`)
}
