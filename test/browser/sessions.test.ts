import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { buildUi } from '../../scripts/build-ui.ts'
import { openSluice } from '../../src/index.ts'
import { atEnd } from '../e2e/at-end.ts'
import { eventually } from '../e2e/eventually.ts'
import { testEncryptionKey } from '../store/test-vault.ts'
import { hasBrowser, openPage } from './browser.ts'

const skip = hasBrowser ? false : 'no browser for this platform; name one in CHROME'
const adminKey = 'sk_of_the_session_test'

async function open(t: TestContext) {
  await buildUi()
  const sluice = await openSluice({
    store: 'sqlite::memory:',
    listen: '127.0.0.1:0',
    encryptionKey: testEncryptionKey,
    adminKey,
    logLevel: 'error',
  })
  atEnd(t, () => sluice.close())
  const link = async () => {
    const headers = { authorization: `Bearer ${adminKey}` }
    const made = await fetch(`${sluice.url}/api/v1/auth/sign-in-link`, { method: 'POST', headers })
    return ((await made.json()) as { url: string }).url
  }
  const current = `fetch('/api/v1/session').then((answer) => answer.json()).then(({ session }) => session)`
  return { sluice, link, current }
}

test('a link that is pasted into the tab that shows the form signs in', { skip }, async (t) => {
  const { sluice, link, current } = await open(t)
  const page = await openPage(t)
  await page.goto(`${sluice.url}/`)
  await page.sees('Sign in to Sluice')
  await page.goto(await link())
  await eventually('the browser is signed in', () => page.evaluate(`${current}.then((session) => session !== null)`))
  assert.equal(await page.evaluate('location.hash'), '', 'the token stays in the address bar')
})

test('a link signs a browser in once; scripts cannot read its cookie, and the stream works with it', {
  skip,
}, async (t) => {
  const { link, current } = await open(t)
  const page = await openPage(t)
  const url = await link()
  await page.goto(url)
  await eventually('the browser is signed in', async () => {
    const session = (await page.evaluate(current).catch(() => undefined)) as { kind: string } | null | undefined
    return session?.kind === 'dashboard'
  })
  assert.equal(await page.evaluate('location.hash'), '', 'the token stays in the address bar')
  assert.equal(await page.evaluate('document.cookie'), '')
  const event = `new Promise((resolve, reject) => {
    const source = new EventSource('/api/v1/live')
    source.addEventListener('overview', ({ data }) => { source.close(); resolve(JSON.parse(data).storeUp) })
    source.onerror = () => reject(new Error('the stream failed'))
  })`
  assert.equal(await page.evaluate(event), true)
  const change = (headers: string) => `fetch('/api/v1/app', {
    method: 'POST', headers: { 'content-type': 'application/json', ${headers} }, body: '{"name":"A"}'
  }).then(({ status }) => status)`
  assert.equal(await page.evaluate(`${current}.then(({ csrfToken }) => ${change("'x-sluice-token': csrfToken")})`), 201)
  assert.deepEqual(page.complaints, [])
})

test('a page of another port, whose requests carry the cookie, changes and reads nothing', { skip }, async (t) => {
  const { sluice, link, current } = await open(t)
  const target = `${sluice.url}/api/v1/app`
  const evil = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end(`<!doctype html><title>evil</title>
      <iframe name="sink"></iframe>
      <form method="post" enctype="text/plain" target="sink" action="${target}"><input name='{"name":"form","x":"' value='"}'></form>`)
  })
  evil.listen(0, '127.0.0.1')
  await once(evil, 'listening')
  atEnd(t, () => {
    evil.closeAllConnections()
    evil.close()
  })
  const page = await openPage(t)
  await page.goto(await link())
  await eventually('the browser is signed in', async () => {
    return ((await page.evaluate(current).catch(() => null)) as object | null) !== null
  })
  await page.goto(`http://127.0.0.1:${(evil.address() as AddressInfo).port}/`)
  await eventually('the other page', async () => (await page.evaluate('document.title').catch(() => '')) === 'evil')
  const attempts = `(async () => {
    const send = (options) => fetch(${JSON.stringify(target)}, { credentials: 'include', ...options })
      .then(async (answer) => answer.type + ' ' + answer.status + ' ' + (await answer.text()).slice(0, 20), () => 'blocked')
    document.querySelector('form').submit()
    return Promise.all([
      send({ method: 'POST', mode: 'no-cors', body: new Blob(['{"name":"blob"}']) }),
      send({ method: 'POST', body: '{"name":"cors"}', headers: { 'content-type': 'application/json' } }),
      send({ method: 'POST', body: '{"name":"token"}', headers: { 'x-sluice-token': 'x' } }),
      send({ method: 'GET' }),
    ])
  })()`
  assert.deepEqual(await page.evaluate(attempts), ['opaque 0 ', 'blocked', 'blocked', 'blocked'])
  const { data } = await sluice.request('GET', '/app')
  assert.deepEqual(data, [])
})
