import { SignatureError } from '@sluice/receiver'
import { answer, refuse, retryAfter } from './answer.ts'
import { forward, isSuccess, passedBack } from './forward.ts'
import type { Incoming } from './incoming.ts'
import type { Claim } from './ledger.ts'
import type { CoalesceRoute, Env, RelayRoute } from './route.ts'

/** A lease outlives the forwarded request by this much, so that it cannot end while the receiver is being called. */
const leaseMarginMs = 5000

/** The requests of a route whose receiver took them, or is about to. */
interface Memory {
  claim(): Promise<Claim>
  remember(): Promise<void>
  release(): Promise<void>
}

/**
 * Forwards a delivery of Sluice to its receiver, at most once while its id is remembered. The receiver's answer is passed
 * back. A delivery is remembered after the receiver took it, and before Sluice learns of it.
 */
export async function relay(route: RelayRoute, env: Env, incoming: Incoming): Promise<Response> {
  const genuine = await verified(route, incoming)
  if (genuine instanceof Response) return genuine
  const memory = memoryOf(route, env, genuine.key)
  const claim = await attempted(() => memory.claim())
  if (claim === undefined) {
    return refuse('storage_unavailable', 'The memory of delivered ids did not answer.', retryAfter(1000))
  }
  switch (claim.state) {
    case 'delivered':
      return answer(200, 'duplicate', { outcome: 'duplicate', detail: 'The receiver has taken this delivery before.' })
    case 'in flight':
      return refuse('in_flight', 'This delivery is being forwarded at this moment.', retryAfter(claim.retryInMs))
    case 'full':
      return refuse('full', 'Too many deliveries are being forwarded.', retryAfter(1000))
  }
  const { to: url, timeoutMs } = route
  const forwarded = await forward({ url, headers: incoming.headers, body: incoming.body, timeoutMs })
  // When the memory fails here, the receiver's answer still stands: a lease ends by itself, and Sluice knows the outcome.
  await attempted(() => (isSuccess(forwarded) ? memory.remember() : memory.release()))
  return passedBack(forwarded)
}

/**
 * The id of a genuine request, and the key by which its repetitions are recognized: a digest of the id and the body. Most
 * profiles do not sign the id, so the id alone would allow a recorded request to pass under the id of another delivery,
 * which would then never reach the receiver. Every attempt of a delivery has the same id and the same bytes.
 */
export async function verified(
  { verifier }: RelayRoute | CoalesceRoute,
  { request, body }: Incoming,
): Promise<{ readonly id: string; readonly key: string } | Response> {
  try {
    const { id } = await verifier.verify({ headers: request.headers, body })
    if (id === undefined || id.length > 256) return refuse('no_id', 'The request has no id of at most 256 characters.')
    return { id, key: await digestOf(id, body) }
  } catch (error) {
    if (error instanceof SignatureError) return refuse('not_genuine', error.message)
    throw error
  }
}

async function digestOf(id: string, body: Uint8Array<ArrayBuffer>): Promise<string> {
  const ofBody = await crypto.subtle.digest('SHA-256', body)
  return hex(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(`${hex(ofBody)} ${id}`)))
}

export function hex(bytes: ArrayBuffer): string {
  return Buffer.from(bytes).toString('hex')
}

/** The shard of a key, which is a digest in hex. */
export function shardOf(key: string, shards: number): number {
  return Number.parseInt(key.slice(0, 8), 16) % shards
}

function memoryOf(route: RelayRoute, env: Env, key: string): Memory {
  const { name, shards, timeoutMs, rememberMs, maxIds } = route
  switch (route.dedupe) {
    case 'object': {
      const ledger = env.LEDGER.getByName(`${name}/${shardOf(key, shards)}`)
      const token = crypto.randomUUID()
      return {
        claim: () => ledger.claim(key, token, timeoutMs + leaseMarginMs, maxIds),
        remember: () => ledger.remember(key, rememberMs),
        release: () => ledger.release(key, token),
      }
    }
    case 'kv': {
      const delivered = env.DELIVERED as KVNamespace
      const entry = `${name}/${key}`
      return {
        claim: async () => ({ state: (await delivered.get(entry)) === null ? 'claimed' : 'delivered' }),
        remember: () => delivered.put(entry, '1', { expirationTtl: rememberMs / 1000 }),
        release: async () => {},
      }
    }
    case 'none':
      return { claim: async () => ({ state: 'claimed' }), remember: async () => {}, release: async () => {} }
  }
}

/** The result of a call to storage; undefined when the storage failed, which is logged. */
export async function attempted<T>(call: () => Promise<T>): Promise<T | undefined> {
  try {
    return await call()
  } catch (error) {
    console.error(JSON.stringify({ event: 'storage failed', problem: String(error).slice(0, 200) }))
    return undefined
  }
}
