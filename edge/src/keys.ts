import { type FetchedKeys, keySetBytesLimit } from '../../src/sources/key-sets.ts'

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
  if (!response.ok || response.body === null) throw new Error(`The keys at ${url} were answered ${response.status}.`)
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of response.body) {
    length += chunk.length
    if (length > keySetBytesLimit) throw new Error(`The keys at ${url} exceed ${keySetBytesLimit} bytes.`)
    chunks.push(chunk)
  }
  return { body: Buffer.concat(chunks), cacheControl: response.headers.get('cache-control') ?? undefined }
}
