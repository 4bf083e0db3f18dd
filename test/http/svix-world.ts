import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { Svix } from 'svix'
import { openParts } from '../../src/compose/parts.ts'
import { configOf } from '../../src/runtime/config.ts'
import { openLog } from '../../src/runtime/log.ts'
import type { Store } from '../../src/store/store.ts'
import { atEnd } from '../e2e/at-end.ts'
import { checkResponses } from './response-check.ts'

export interface Received {
  readonly path: string
  readonly method: string
  readonly headers: IncomingHttpHeaders
  /** Names and values in turn, as they came. */
  readonly rawHeaders: readonly string[]
  readonly body: string
}

export interface SvixWorld {
  /** The official SDK, pointed at a server of ours. */
  readonly svix: Svix
  readonly serverUrl: string
  readonly store: Store
  /** Where endpoints may be: `/ok` answers 200, any number its status. */
  readonly receiverUrl: string
  readonly received: Received[]
}

export const adminKey = 'sk_of_the_sdk_tests_0123456789'

/** A whole server on a real port, delivering, with the SDK in front and a receiver behind; gone when the test ends. */
export async function openSvixWorld(t: TestContext, settings: Parameters<typeof configOf>[0] = {}): Promise<SvixWorld> {
  const received: Received[] = []
  const receiver = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const { url: path = '', method = '', headers } = request
    received.push({
      path,
      method,
      headers,
      rawHeaders: request.rawHeaders,
      body: Buffer.concat(chunks).toString('utf8'),
    })
    response.statusCode = Number(path.slice(1)) || 200
    response.end('heard')
  })
  atEnd(t, () => {
    receiver.close()
    receiver.closeAllConnections()
  })
  receiver.listen(0, '127.0.0.1')
  await once(receiver, 'listening')

  const log = openLog({ logLevel: 'silent', logFormat: null })
  const config = configOf({
    store: 'sqlite::memory:',
    adminKey,
    local: true,
    encryptionKey: `${'A'.repeat(43)}=`,
    ...settings,
  })
  const parts = await openParts(config, log)
  const { store } = parts
  const { app } = await parts.openApi()
  const differences: string[] = []
  checkResponses(app, (difference) => differences.push(difference))
  const serverUrl = await app.listen({ host: '127.0.0.1', port: 0 })
  const delivering = await parts.startDelivering('test')

  atEnd(t, async () => {
    await delivering.stop(1000)
    await app.close()
    await store.close()
    if (differences.length > 0) throw new Error(differences.join('\n'))
  })
  const { port } = receiver.address() as AddressInfo
  return {
    svix: new Svix(adminKey, { serverUrl }),
    serverUrl,
    store,
    receiverUrl: `http://127.0.0.1:${port}`,
    received,
  }
}

/** Follows a list from page to page. */
export async function collect<T>(
  page: (iterator: string | null) => Promise<{ data: T[]; iterator: string | null; done: boolean }>,
): Promise<T[]> {
  const all: T[] = []
  let iterator: string | null = null
  for (let pages = 0; pages < 100; pages++) {
    const { data, iterator: next, done } = await page(iterator)
    all.push(...data)
    if (done) return all
    iterator = next
  }
  throw new Error('The list never ends.')
}
