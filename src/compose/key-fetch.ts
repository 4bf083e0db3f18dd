import { systemRandomBytes } from '../runtime/random.ts'
import type { Config } from '../runtime/settings.ts'
import { openSender } from '../sender/open.ts'
import type { Sender } from '../sender/send.ts'
import { type FetchedKeys, type FetchKeys, keySetBytesLimit } from '../sources/key-sets.ts'
import { makeSecret } from '../wire/secret.ts'
import { senderContextOf } from './delivering.ts'

const fetchTimeoutMs = 5000

/** Fetches public keys of providers. It is a sender with one kind of request, so the address guard stands before it. */
export interface KeyFetcher {
  readonly fetch: FetchKeys
  close(): Promise<void>
}

export function keyFetcher(config: Config, timeoutMs = fetchTimeoutMs): KeyFetcher {
  let sender: Sender | undefined
  return {
    async fetch(url): Promise<FetchedKeys> {
      // One byte more than a set may have, so that a longer one is seen to be longer.
      sender ??= openSender({ ...senderContextOf(config), responseLimitBytes: keySetBytesLimit + 1 })
      const secrets = [{ secret: makeSecret(systemRandomBytes), expiresAt: null }]
      const target = sender.open({ url, method: 'GET', secrets, headers: {}, timeoutMs })
      const message = { id: 'keys', body: new Uint8Array(0), contentType: 'application/json' }
      const outcome = await new Promise<Parameters<Parameters<typeof target.send>[2]>[0]>((resolve) => {
        target.send(message, () => {}, resolve)
      })
      if (outcome.code !== 'delivered' || outcome.response === undefined) {
        throw new Error(`the keys at ${url} cannot be had: ${outcome.error ?? `status ${outcome.status}`}`)
      }
      const headers: Record<string, string> = JSON.parse(outcome.responseHeaders ?? '{}')
      return { body: outcome.response, cacheControl: headers['cache-control'] }
    },
    close: async () => sender?.close(),
  }
}
