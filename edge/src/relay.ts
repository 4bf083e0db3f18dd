import { answer, refuse, retryAfter } from './answer.ts'
import { shardOf } from './digest.ts'
import { forward, isSuccess, passedBack } from './forward.ts'
import type { Incoming } from './incoming.ts'
import type { Claim } from './ledger.ts'
import type { Env, RelayRoute } from './route.ts'
import { attempted } from './storage.ts'
import { verified } from './verified.ts'

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
  const delivery = await verified(route.verifier, incoming)
  if (delivery instanceof Response) return delivery
  const memory = memoryOf(route, env, delivery.digest)
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
