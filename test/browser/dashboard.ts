import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { buildUi } from '../../scripts/build-ui.ts'
import { openSluice, type SluiceOptions } from '../../src/index.ts'
import { atEnd } from '../e2e/at-end.ts'
import { eventually } from '../e2e/eventually.ts'
import { testEncryptionKey } from '../store/test-vault.ts'
import { hasBrowser, openPage } from './browser.ts'

export const skip = hasBrowser ? false : 'no browser for this platform; name one in CHROME'
export const adminKey = 'sk_of_the_dashboard_test'

/**
 * A server that delivers, with an application, a receiver and endpoints at it: `main` takes everything, `broken` refuses
 * everything and gives up after one attempt, `paused` is paused.
 */
export async function openWorld(t: TestContext, store = 'sqlite::memory:', settings: Partial<SluiceOptions> = {}) {
  await buildUi()
  const received: string[] = []
  const receiver = createServer((request, response) => {
    let body = ''
    request.on('data', (bytes) => {
      body += bytes
    })
    request.on('end', () => {
      received.push(body)
      if (request.url?.startsWith('/broken'))
        response.writeHead(500, { 'content-type': 'text/plain' }).end('<b>broken</b>')
      else response.writeHead(200, { 'x-receiver': 'test' }).end('{"ok":1.0}')
    })
  })
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  atEnd(t, () => {
    receiver.closeAllConnections()
    receiver.close()
  })
  const sluice = await openSluice({
    store,
    listen: '127.0.0.1:0',
    allowNetworks: ['127.0.0.0/8'],
    allowHttp: true,
    encryptionKey: testEncryptionKey,
    adminKey,
    logLevel: 'error',
    ...settings,
  })
  atEnd(t, () => sluice.close())
  const target = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`
  // biome-ignore lint/suspicious/noExplicitAny: an answer is any JSON, and a test that reads a missing field fails by itself.
  const ask = async (method: string, path: string, body?: object): Promise<any> =>
    sluice.request(method as 'GET', path, body as never)

  const app = await ask('POST', '/app', { name: 'Acme <b>Video</b>', uid: 'acme' })
  const endpoint = (uid: string, path: string, extra: object = {}) =>
    ask('POST', '/app/acme/endpoint', { uid, url: `${target}${path}`, ...extra })
  const main = await endpoint('main', '/main', { description: 'Production' })
  const broken = await endpoint('broken', '/broken', { retry: { waits: { kind: 'list', ms: [] } } })
  const paused = await endpoint('paused', '/paused')
  await ask('POST', '/app/acme/endpoint/paused/pause')
  await ask('POST', '/event-type', {
    name: 'video.trending',
    description: 'A video trends.',
    schemas: { 1: { type: 'object', properties: { views: { type: 'number' } } } },
  })
  await ask('POST', '/app/acme/schedule', {
    uid: 'daily',
    cron: '0 9 * * *',
    eventType: 'digest',
    payload: { kind: 'digest' },
  })
  const message = await sluice.publish('acme', {
    eventType: 'video.trending',
    eventId: 'order-7',
    payload: '{"views":1.0,"html":"<script>alert(1)</script>"}',
  })
  await eventually('the message was delivered, and died at the broken endpoint', async () => {
    const { data } = await ask('GET', '/dead')
    return received.length >= 2 && data.length === 1
  })

  /** A link that signs in once. */
  async function signInLink(): Promise<string> {
    const response = await fetch(`${sluice.url}/api/v1/auth/sign-in-link`, {
      method: 'POST',
      headers: { authorization: `Bearer ${adminKey}` },
    })
    return ((await response.json()) as { url: string }).url
  }

  /** Opens a page of the dashboard in a browser that is signed in by a link. */
  async function signedIn(path = '/', width = 1280) {
    const page = await openPage(t, width)
    await page.goto(await signInLink())
    await page.sees('Overview')
    if (path !== '/') await page.goto(`${sluice.url}${path}`)
    return page
  }

  return {
    sluice,
    url: String(sluice.url),
    ask,
    received,
    target,
    app,
    main,
    broken,
    paused,
    message,
    signInLink,
    signedIn,
  }
}
