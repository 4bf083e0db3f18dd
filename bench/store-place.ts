import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Endpoint } from '../src/features/endpoints/rules.ts'
import { systemClock } from '../src/runtime/clock.ts'
import { readEncryptionKeys } from '../src/runtime/encryption-keys.ts'
import { systemRandom, systemRandomBytes, systemRandomText } from '../src/runtime/random.ts'
import { openPostgresStore } from '../src/store/postgres/open.ts'
import { openSqliteStore } from '../src/store/sqlite/open.ts'
import type { NewEndpoint, Store, StoreContext } from '../src/store/store.ts'
import { openVault } from '../src/store/vault.ts'
import type { Bench } from './bench.ts'
import { eventType, payload } from './event.ts'
import { createDatabase } from './postgres.ts'
import { encryptionKey } from './server.ts'

/** Seals as every server here does. */
export const vault = openVault(readEncryptionKeys(encryptionKey) ?? [], systemRandomBytes)

const context: StoreContext = {
  clock: systemClock,
  random: systemRandom,
  randomText: systemRandomText,
  vault,
}

/** Where an empty store is, as the setting `SLUICE_STORE` says it. */
export async function emptyStore(bench: Bench, name: string): Promise<string> {
  if (bench.store === 'postgres') return createDatabase(bench, name)
  const dir = join(bench.dir, name)
  await mkdir(dir)
  return `sqlite:${join(dir, 'sluice.db')}`
}

/** Uses a store directly, while no server does: a backlog is laid out in seconds and without the network. */
export async function withStore<T>(place: string, use: (store: Store) => Promise<T>): Promise<T> {
  const store = place.startsWith('sqlite:')
    ? await openSqliteStore(context, { path: place.slice('sqlite:'.length), role: 'owner' })
    : await openPostgresStore(context, { url: place })
  try {
    return await use(store)
  } finally {
    await store.close()
  }
}

/** Makes endpoints of one application, each like the defaults but for what is said. */
export async function addEndpoints(
  store: Store,
  app: number,
  endpoints: readonly (Partial<NewEndpoint> & { readonly url: string })[],
): Promise<Endpoint[]> {
  const made: Endpoint[] = []
  for (const endpoint of endpoints) made.push(await store.createEndpoint(app, { ...plainEndpoint, ...endpoint }))
  return made
}

/** Publishes `count` messages; `endpointsOf` says who gets the n-th. They are due after `delayMs`. */
export async function addMessages(
  store: Store,
  app: number,
  count: number,
  endpointsOf: (n: number) => readonly number[],
  delayMs = 0,
): Promise<void> {
  const { version } = (await store.subscriptions(app)) ?? { version: 0 }
  const body = Buffer.from(payload)
  const plain = { app, version, eventType, eventId: null, channels: null, body, contentType: 'application/json' }
  for (let n = 0; n < count; n += groupSize) {
    const size = Math.min(groupSize, count - n)
    const group = Array.from({ length: size }, (_, i) => ({ ...plain, endpoints: endpointsOf(n + i), delayMs }))
    const answers = await store.publish(group)
    if (answers.some(({ state }) => state !== 'accepted')) throw new Error('the store refused part of the backlog')
  }
}

const groupSize = 256

const plainEndpoint = {
  uid: null,
  description: '',
  disabled: false,
  paused: false,
  eventTypes: null,
  channels: null,
  secrets: [{ secret: `whsec_${Buffer.alloc(24, 7).toString('base64')}`, expiresAt: null }],
  method: 'POST',
  headers: {},
  auth: null,
  clientCertificate: null,
  metadata: {},
  throttleRate: null,
  throttlePeriodSeconds: 1,
  burst: null,
  concurrency: null,
  timeoutMs: null,
  retry: null,
} satisfies Partial<NewEndpoint>
