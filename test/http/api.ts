import assert from 'node:assert/strict'
import type { FastifyInstance, InjectOptions } from 'fastify'
import { senderDepsOf, sendOnce, serverDefaultsOf } from '../../src/compose/delivering.ts'
import { ownCounts, RecentAttempts } from '../../src/features/live/meter.ts'
import { buildApp, type HttpDeps } from '../../src/http/app.ts'
import { Publisher } from '../../src/intake/publisher.ts'
import { Scanner } from '../../src/json/scan.ts'
import { Meter } from '../../src/metrics/meter.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { configOf, showSettings } from '../../src/runtime/config.ts'
import { systemRandom, systemRandomBytes, systemRandomText } from '../../src/runtime/random.ts'
import { version } from '../../src/runtime/version.ts'
import { AddressPolicy, checkUrl } from '../../src/sender/guard.ts'
import type { Sender } from '../../src/sender/send.ts'
import { openSender } from '../../src/sender/sender.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import type { Store } from '../../src/store/store.ts'
import { testVault } from '../store/test-vault.ts'
import { checkResponses } from './response-check.ts'

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly text: string
  // biome-ignore lint/suspicious/noExplicitAny: an answer is any JSON, and a test that reads a missing field fails by itself.
  readonly json: any
}

export interface Api {
  readonly app: FastifyInstance
  /** The parts of the program that the API was built from. */
  readonly deps: HttpDeps
  readonly store: Store
  readonly bugs: unknown[]
  /** Asks with the admin key. A body that is text or bytes goes out as it is. */
  ask(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>
}

export const adminKey = 'test-key'

/** The whole API over a real store in memory. Every answer is held to the reference. */
export async function openApi(overrides: Partial<HttpDeps> = {}): Promise<Api> {
  const storeContext = { clock: systemClock, random: systemRandom, randomText: systemRandomText, vault: testVault }
  const store = overrides.store ?? (await openSqliteStore(storeContext, { path: ':memory:', role: 'owner' }))
  const policy = new AddressPolicy({ allowNetworks: ['127.0.0.0/8'] })
  const bugs: unknown[] = []
  let trials: Sender | undefined
  const deps: HttpDeps = {
    store,
    publisher: new Publisher({ store, clock: systemClock }),
    scanner: new Scanner(1),
    clock: systemClock,
    randomBytes: systemRandomBytes,
    randomText: systemRandomText,
    checkUrl: (url) => checkUrl(url, policy),
    adminKey,
    publicUrl: null,
    portalFrameAncestors: [],
    bodyLimitBytes: 64 * 1024,
    serverDefaults: serverDefaultsOf(configOf({})),
    signatureHeaders: configOf({}).signatureHeaders,
    tryOnce: (trial) => {
      trials ??= openSender({
        ...senderDepsOf(configOf({})),
        allowNetworks: ['127.0.0.0/8'],
        allowHttp: true,
      })
      return sendOnce(trials, trial)
    },
    fetchKeys: async () => assert.fail('no keys are fetched here'),
    liveSources: { recent: new RecentAttempts(systemClock), counts: ownCounts(new Meter()) },
    settings: () => showSettings(configOf({}), {}),
    requestTimeoutMs: 30_000,
    trustedProxies: [],
    limits: configOf({}),
    version,
    onBug: (error) => bugs.push(error),
    onHangUp: () => {},
    ...overrides,
  }
  const app = buildApp(deps)
  const differences: string[] = []
  checkResponses(app, (difference) => differences.push(difference))
  return {
    app,
    deps,
    store,
    bugs,
    async ask(method, path, body, headers = {}) {
      const payload =
        body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
      const response = await app.inject({
        method: method as NonNullable<InjectOptions['method']>,
        url: path.startsWith('/app') ? `/api/v1${path}` : path,
        headers: {
          authorization: `Bearer ${adminKey}`,
          ...(payload === undefined ? {} : { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(payload === undefined ? {} : { payload }),
      })
      if (differences.length > 0) throw new Error(differences.join('\n'))
      const isJson = /json(?!l)/.test(String(response.headers['content-type'] ?? ''))
      return {
        status: response.statusCode,
        headers: response.headers,
        text: response.payload,
        json: isJson && response.payload !== '' ? response.json() : undefined,
      }
    },
  }
}
