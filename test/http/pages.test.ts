import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { brotliCompressSync, brotliDecompressSync, gzipSync } from 'node:zlib'
import type { HttpDeps } from '../../src/http/app.ts'
import { atEnd } from '../e2e/at-end.ts'
import { openApi } from './api.ts'

const folder = mkdtempSync(join(tmpdir(), 'sluice-pages-'))
after(() => rmSync(folder, { recursive: true }))
const script = 'console.log("dashboard")'.repeat(20)
for (const name of ['assets', 'docs']) mkdirSync(join(folder, 'ui', name), { recursive: true })
for (const [name, content] of Object.entries({
  'secret.txt': 'outside of the pages',
  'ui/index.html': '<!doctype html><title>Dashboard</title>',
  'ui/reference.html': '<!doctype html><title>Reference</title>',
  'ui/docs/index.html': '<!doctype html><title>Documentation</title>',
  'ui/docs/retry.html': '<!doctype html><title>Retries</title>',
  'ui/docs/404.html': '<!doctype html><title>No such page</title>',
  'ui/docs/retry.md': '# Retries',
  'ui/portal.html': '<!doctype html><title>Portal</title>',
  'ui/favicon.svg': '<svg xmlns="http://www.w3.org/2000/svg"/>',
  'ui/.sources': 'hidden',
  'ui/assets/index-abc.js': script,
  'ui/assets/index-abc.js.br': brotliCompressSync(script),
  'ui/assets/index-abc.js.gz': gzipSync(script),
})) {
  writeFileSync(join(folder, name), content)
}
symlinkSync(join(folder, 'secret.txt'), join(folder, 'ui', 'assets', 'link.txt'))

const browser = { accept: 'text/html,application/xhtml+xml;q=0.9,*/*;q=0.8' }

async function open(overrides: Partial<HttpDeps> = {}) {
  const { app } = await openApi({ pagesFolder: join(folder, 'ui'), ...overrides })
  const get = (url: string, headers: Record<string, string> = {}, method: 'GET' | 'HEAD' | 'POST' = 'GET') =>
    app.inject({ method, url, headers })
  return { app, get }
}

describe('the pages', () => {
  test('the dashboard is served under /, the portal under /portal and the documentation under /docs, each checked again by browsers', async () => {
    const { get } = await open()
    for (const [path, title] of [
      ['/', 'Dashboard'],
      ['/portal', 'Portal'],
      ['/portal/', 'Portal'],
      ['//portal', 'Portal'],
      ['/docs', 'Documentation'],
      ['/docs/', 'Documentation'],
      ['/docs/retry', 'Retries'],
      ['/docs/reference', 'Reference'],
    ] as const) {
      const page = await get(path)
      assert.equal(page.statusCode, 200, path)
      assert.match(page.payload, new RegExp(`<title>${title}</title>`))
      assert.equal(page.headers['content-type'], 'text/html; charset=utf-8')
      assert.equal(page.headers['cache-control'], 'no-cache')
      const again = await get(path, { 'if-none-match': String(page.headers.etag) })
      assert.deepEqual([again.statusCode, again.payload], [304, ''])
    }
  })

  test('the policy allows no inline script, no other origin and no frame', async () => {
    const { get } = await open()
    for (const path of ['/', '/endpoints/ep_1', '/portal', '/docs']) {
      const { headers } = await get(path, browser)
      const policy = String(headers['content-security-policy'])
      assert.match(policy, /^default-src 'none'; script-src 'self'; style-src 'self';/)
      assert.match(
        policy,
        /base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; frame-ancestors 'none'$/,
      )
      assert.doesNotMatch(policy, /unsafe|http|\*/)
      assert.equal(headers['x-content-type-options'], 'nosniff')
      assert.equal(headers['referrer-policy'], 'no-referrer')
      assert.equal(headers['cross-origin-opener-policy'], 'same-origin')
    }
  })

  test('origins of the settings may frame the portal, and nothing else', async () => {
    const { get } = await open({ portalFrameAncestors: ['https://app.example.com', 'https://*.example.org'] })
    const policy = async (path: string) => String((await get(path, browser)).headers['content-security-policy'])
    assert.match(await policy('/portal'), /frame-ancestors https:\/\/app\.example\.com https:\/\/\*\.example\.org$/)
    assert.match(await policy('/portal/endpoints'), /frame-ancestors https:\/\/app\.example\.com/)
    for (const path of ['/', '/portals', '/x/portal', '/docs'])
      assert.match(await policy(path), /frame-ancestors 'none'$/)
  })

  test('a navigation to any path below answers its page, and any other request 404 as JSON', async () => {
    const { get } = await open()
    for (const path of ['/endpoints', '/app/a/endpoint/b?tab=1', '/portal/messages', '/index.html']) {
      assert.equal((await get(path, browser)).statusCode, 200, path)
      assert.equal((await get(path, { accept: 'application/json' })).json().code, 'not_found')
      assert.equal((await get(path, browser, 'POST')).statusCode, 404)
    }
    for (const path of [
      '/api',
      '/api/v1',
      '/api/v1/nothing',
      '//api/v1/nothing',
      '/api/v2/app',
      '/assets/gone-abc.js',
    ]) {
      assert.equal((await get(path, browser)).json().code, 'not_found', path)
    }
    assert.match((await get('/portal/messages', browser)).payload, /Portal/)
  })

  test('a page of the documentation is there for programs too, as Markdown as well, and a wrong name is a page with 404', async () => {
    const { get } = await open()
    const { headers, payload } = await get('/docs/retry.md')
    assert.deepEqual([headers['content-type'], payload], ['text/markdown; charset=utf-8', '# Retries'])
    for (const path of ['/docs/nothing', '/docs/retry/more', '/docs/../../secret.txt']) {
      const answer = await get(path)
      assert.equal(answer.statusCode, 404, path)
      assert.doesNotMatch(answer.payload, /outside/)
    }
    assert.match((await get('/docs/nothing')).payload, /No such page/)
    assert.equal((await get('/docs/retry', {}, 'POST')).statusCode, 404)
  })

  test('a hashed file is kept for ever, compressed as the browser accepts it', async (t) => {
    const { app, get } = await open()
    const path = '/assets/index-abc.js'
    const plain = await get(path)
    assert.equal(plain.payload, script)
    assert.equal(plain.headers['cache-control'], 'public, max-age=31536000, immutable')
    assert.equal(plain.headers['content-type'], 'text/javascript; charset=utf-8')
    assert.equal(plain.headers.vary, 'accept-encoding')
    const brotli = await get(path, { 'accept-encoding': 'gzip, deflate, br' })
    assert.equal(brotli.headers['content-encoding'], 'br')
    assert.equal(brotliDecompressSync(brotli.rawPayload).toString(), script)
    const gzip = await get(path, { 'accept-encoding': 'gzip;q=0.8, br;q=0' })
    assert.equal(gzip.headers['content-encoding'], 'gzip')
    assert.equal(new Set([plain, brotli, gzip].map(({ headers }) => headers.etag)).size, 3)
    const head = await get(path, { 'accept-encoding': 'br' }, 'HEAD')
    assert.deepEqual([head.payload, head.headers.etag], ['', brotli.headers.etag])
    assert.equal(head.headers['content-length'], String(brotli.rawPayload.length))
    // On a socket, where the server itself counts the bytes that it writes.
    const { host } = new URL(await app.listen({ port: 0, host: '127.0.0.1' }))
    t.after(() => app.close())
    for (const each of [path, '/', '/portal', '/docs']) {
      const accept = { 'accept-encoding': 'br' }
      const { headers } = await fetch(`http://${host}${each}`, { method: 'HEAD', headers: accept })
      assert.equal(headers.get('content-length'), String((await get(each, accept)).rawPayload.length), each)
    }
    const weak = { 'accept-encoding': 'br', 'if-none-match': `"other", W/${brotli.headers.etag}` }
    assert.equal((await get(path, weak)).statusCode, 304)
    assert.equal((await get('/favicon.svg')).headers['cache-control'], 'no-cache')
  })

  test('no path leads outside of the pages, whatever its bytes', async (t) => {
    const { app, get } = await open()
    const paths = [
      '/../secret.txt',
      '/assets/../../secret.txt',
      '/assets/..%2f..%2fsecret.txt',
      '/assets/%2e%2e/%2e%2e/secret.txt',
      '/assets/..\\..\\secret.txt',
      '/assets/....//....//secret.txt',
      '/assets/index-abc.js%00.txt',
      '/assets/link.txt',
      '/.sources',
      '/assets/index-abc.js.br',
      `/assets/${'../'.repeat(200)}etc/passwd`,
      `//${folder}/secret.txt`,
      '/__proto__',
      '/constructor',
    ]
    await app.listen({ host: '127.0.0.1', port: 0 })
    atEnd(t, () => app.close())
    for (const path of paths) {
      assert.equal((await get(path)).statusCode, 404, path)
      const answer = await raw((app.server.address() as AddressInfo).port, path)
      assert.match(answer, /^HTTP\/1\.1 40[04] /, path)
      assert.doesNotMatch(answer, /outside of the pages|root:|hidden/)
    }
  })

  test('without a build the page says which command makes it', async () => {
    const { get } = await open({ pagesFolder: join(folder, 'nowhere') })
    const page = await get('/', browser)
    assert.equal(page.statusCode, 503)
    assert.match(page.payload, /npm run build:ui/)
    assert.match(String(page.headers['content-security-policy']), /^default-src 'none'/)
    assert.equal((await get('/api/v1/health')).statusCode, 200)
  })
})

/** Sends a path as it is: clients resolve dots by themselves. */
function raw(port: number, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    let answer = ''
    socket.on('data', (bytes) => {
      answer += bytes
    })
    socket.on('error', reject).on('close', () => resolve(answer))
    socket.end(`GET ${path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n`)
  })
}
