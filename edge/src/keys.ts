import { type FetchedKeys, keySetBytesLimit } from '../../src/sources/key-sets.ts'
import { readUpTo } from './read.ts'

const timeoutMs = 5000
/** Cloudflare keeps the keys for this long, whatever their server says: an unknown key id cannot make it busy. */
const cacheSeconds = 300

/** Fetches the public keys of a provider. Rejects when that fails. */
export async function fetchKeys(url: string): Promise<FetchedKeys> {
  const response = await fetch(url, {
    redirect: 'manual',
    signal: AbortSignal.timeout(timeoutMs),
    cf: { cacheEverything: true, cacheTtl: cacheSeconds },
  })
  if (!response.ok) throw new Error(`The keys at ${url} were answered ${response.status}.`)
  const { bytes: body, end } = await readUpTo(response.body, keySetBytesLimit, timeoutMs)
  if (end !== 'whole') throw new Error(`The keys at ${url} are too large or too slow (${end}).`)
  return { body, cacheControl: response.headers.get('cache-control') ?? undefined }
}
