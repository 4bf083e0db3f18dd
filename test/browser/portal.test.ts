import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { openSluice } from '../../src/index.ts'
import { atEnd } from '../e2e/at-end.ts'
import { testEncryptionKey } from '../store/test-vault.ts'
import { hasBrowser, openPage } from './browser.ts'

const skip = hasBrowser ? false : 'no browser for this platform; name one in CHROME'
const apiKey = 'sk_of_the_portal_test'

/** A server that delivers, a receiver, and an application. */
async function open(t: TestContext) {
  const received: string[] = []
  const receiver = createServer((request, response) => {
    request.on('data', (bytes) => received.push(String(bytes)))
    request.on('end', () => response.writeHead(204).end())
  })
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  atEnd(t, () => {
    receiver.closeAllConnections()
    receiver.close()
  })
  const sluice = await openSluice({
    store: 'sqlite::memory:',
    listen: '127.0.0.1:0',
    allowNetworks: ['127.0.0.0/8'],
    allowHttp: true,
    encryptionKey: testEncryptionKey,
    adminKey: apiKey,
    logLevel: 'error',
  })
  atEnd(t, () => sluice.close())
  const app = await sluice.applications.create({ name: 'Acme <b>Video</b>', uid: 'acme' })
  const link = async (body: object = {}): Promise<string> => {
    const response = await fetch(`${sluice.url}/api/v1/auth/app-portal-access/${app.id}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    return ((await response.json()) as { url: string }).url
  }
  return { sluice, received, link, target: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook` }
}

test('a person adds an endpoint through a portal link and sees what it received', { skip }, async (t) => {
  const { sluice, received, link, target } = await open(t)
  const page = await openPage(t)
  await page.goto(await link())
  await page.sees('Acme <b>Video</b>')
  await page.sees('No endpoints yet')
  assert.equal(await page.evaluate('location.hash'), '', 'the token stays in the address bar')

  await page.press('Add endpoint')
  await page.fill('url', target)
  await page.fill('eventTypes', 'video.*')
  await page.press('Save', 'dialog')
  await page.sees(target)
  await page.sees('active')
  await page.press('Pause')
  await page.sees('paused')

  await sluice.publish('acme', { eventType: 'video.trending', payload: '{"views":1.0}' })
  await page.press('Messages')
  await page.sees('video.trending')
  await page.press('Open')
  await page.sees('"views": 1.0')
  await page.sees('paused')
  assert.deepEqual(received, [])
  await page.press('Close', 'dialog')

  await page.press('Endpoints')
  await page.press('Resume')
  await page.sees('active')
  await page.press('Messages')
  await page.press('Open')
  await page.sees('204')
  assert.deepEqual(received, ['{"views":1.0}'])
  await page.press('Close', 'dialog')
  await page.press('Log out')
  await page.sees('You are logged out.')
  assert.deepEqual(page.complaints, [])
})

test('a read-only portal link shows the endpoints, and no button that would change one', { skip }, async (t) => {
  const { sluice, link, target } = await open(t)
  await sluice.endpoints.create('acme', { url: target })
  const page = await openPage(t, 400)
  await page.goto(await link({ readOnly: true }))
  await page.sees(target)
  await page.sees('active')
  const labels = "[...document.querySelectorAll('button')].map((each) => each.textContent).join()"
  assert.equal(await page.evaluate(labels), 'Endpoints,Messages,Dead letters,Log out')
  await page.press('Dead letters')
  await page.sees('No dead letters')
  assert.equal(await page.evaluate(labels), 'Endpoints,Messages,Dead letters,Log out')
})

test('a portal without a link, or with one that has ended, says what to do', { skip }, async (t) => {
  const { sluice, link } = await open(t)
  const page = await openPage(t)
  await page.goto(`${sluice.url}/portal`)
  await page.sees('Open this page with the link you were given.')
  await page.goto((await link()).replace(/token=.*/, 'token=appsk_ended'))
  await page.sees('Ask for a new one.')
})

test('a link to another application asks before it takes the place of the one in the tab', { skip }, async (t) => {
  const { sluice, link } = await open(t)
  const other = await sluice.applications.create({ name: 'Stranger', uid: 'stranger' })
  const theirs = (await sluice.request('POST', `/auth/app-portal-access/${other.id}`, {})) as {
    url: string
    token: string
  }
  const strange = `${sluice.url}/portal#app=${other.id}&token=${theirs.token}`
  const page = await openPage(t)
  await page.goto(await link())
  await page.sees('No endpoints yet')

  await page.goto(strange)
  await page.sees('The link opens another one')
  assert.equal(await page.evaluate('location.hash'), '', 'the token stays in the address bar')
  await page.press('Stay')
  await page.sees('Acme <b>Video</b>')

  await page.goto(strange)
  await page.press('Open the other')
  await page.sees('Stranger')
})
