import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { atEnd } from '../e2e/at-end.ts'
import { eventually } from '../e2e/eventually.ts'
import { freePort } from '../e2e/free-port.ts'
import { sqlitePlace } from '../e2e/place.ts'
import { apiKey, Program } from '../e2e/program.ts'
import { read, without } from './files.ts'

const skip = without('nginx', '-v') || without('openssl', 'version')

/** Runs nginx with the server block of proxy.md in front of a server; the answer is its address. */
async function startNginx(t: TestContext, server: Program): Promise<{ readonly port: number; readonly ca: Buffer }> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-nginx-'))
  atEnd(t, () => rmSync(folder, { recursive: true }))
  const port = await freePort()
  const [certificate, secret] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const names = ['-subj', '/CN=webhooks.example.com', '-addext', 'subjectAltName=DNS:webhooks.example.com']
  const files = ['-keyout', secret, '-out', certificate]
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', ...files, ...names], {
    stdio: 'pipe',
  })
  const [, block = ''] = /```nginx\n([\s\S]*?)```/.exec(read('docs/proxy.md')) ?? []
  const adapted = block
    .replace('listen 443 ssl', `listen 127.0.0.1:${port} ssl`)
    .replace('/etc/ssl/webhooks.example.com.pem', certificate)
    .replace('/etc/ssl/webhooks.example.com.key', secret)
    .replace('http://127.0.0.1:8484', new URL(server.api).origin)
  assert(adapted.includes(`:${port} ssl`) && adapted.includes(certificate) && !adapted.includes(':8484'))
  const paths = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    (name) => `${name}_temp_path ${join(folder, name)};`,
  )
  const config = `pid ${join(folder, 'pid')}; error_log ${join(folder, 'log')} warn; daemon off; master_process off;
    events {} http { access_log off; ${paths.join(' ')} ${adapted} }`
  writeFileSync(join(folder, 'nginx.conf'), config)
  const nginx = spawn('nginx', ['-p', folder, '-c', join(folder, 'nginx.conf')], { stdio: 'ignore' })
  const exited = once(nginx, 'exit')
  atEnd(t, async () => {
    nginx.kill('SIGKILL')
    await exited
  })
  return { port, ca: readFileSync(certificate) }
}

test('nginx as proxy.md sets it up: TLS, bodies, client addresses and live streams', { skip }, async (t) => {
  const { store } = await sqlitePlace(t)
  const server = await Program.start(t, 'serve', store, {
    SLUICE_PUBLIC_URL: 'https://webhooks.example.com',
    SLUICE_TRUSTED_PROXIES: '127.0.0.1',
  })
  const { port, ca } = await startNginx(t, server)
  const open = (method: string, path: string, body?: string, headers: Record<string, string> = {}) => {
    const sent = request({
      host: '127.0.0.1',
      // Another address than the proxy's.
      localAddress: '127.0.0.2',
      port,
      servername: 'webhooks.example.com',
      ca,
      method,
      path,
      headers: {
        host: 'webhooks.example.com',
        authorization: `Bearer ${apiKey}`,
        'content-type': 'application/json',
        ...headers,
      },
    })
    sent.end(body)
    return once(sent, 'response').then(([response]) => response)
  }
  const call = async (method: string, path: string, body?: string, headers?: Record<string, string>) => {
    const response = await open(method, `/api/v1${path}`, body, headers)
    const text = (await response.toArray()).join('')
    return {
      status: response.statusCode as number,
      body: text === '' ? {} : JSON.parse(text.startsWith('<') ? '{}' : text),
    }
  }
  await eventually('nginx answers', () =>
    call('GET', '/health').then(
      ({ status }) => status === 200,
      () => false,
    ),
  )

  // The address that the client claims is not believed; the one that nginx saw is.
  await call('POST', '/app', '{"uid": "acme", "name": "Acme"}', { 'x-forwarded-for': '203.0.113.9' })
  const { body: audit } = await call('GET', '/audit')
  assert.equal(JSON.stringify(audit.data[0]).includes('203.0.113.9'), false)
  assert.match(JSON.stringify(audit.data[0]), /127\.0\.0\.2/)

  // The largest message that Sluice takes passes; a larger body is refused by either.
  const message = (bytes: number) => JSON.stringify({ eventType: 'a.b', payload: { text: 'x'.repeat(bytes) } })
  assert.equal((await call('POST', '/app/acme/msg', message(1024 * 1024 - 200))).status, 202)
  assert.equal((await call('POST', '/app/acme/msg', message(1024 * 1024 + 200))).status, 413)

  const { body: access } = await call('POST', '/auth/app-portal-access/acme', '{}')
  assert.match(access.url, /^https:\/\/webhooks\.example\.com\/portal#/)
  assert.equal((await open('GET', '/portal', undefined, { accept: 'text/html' })).statusCode, 200)

  // Events of a live stream pass at once, although nginx buffers other answers.
  const live = await open('GET', '/api/v1/live')
  assert.equal(live.statusCode, 200)
  const [chunk] = await once(live, 'data')
  assert.match(String(chunk), /^(event|data|:|retry|id)/m)
  live.destroy()
})
