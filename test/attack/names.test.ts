import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { apiKey } from '../e2e/program.ts'
import { dialects, isLong, reportLine, Target } from './attack.ts'

/** Names that a client resolves in a URL, and what a client could take for them. */
const folded = ['.', '..']
const written = isLong ? ['%2e', '%2e%2e', '.%2e', '%2E.', '..%2f', '..\\', '..;', '.\t.', ' ..', './', '../x'] : []

/** A request whose path arrives as it is written: HTTP clients resolve it before they send. */
async function sendAsIs(target: Target, method: string, path: string, body: object): Promise<number> {
  const socket = await target.connect()
  const bytes = JSON.stringify(body)
  socket.write(
    `${method} ${path} HTTP/1.1\r\nhost: sluice\r\nauthorization: Bearer ${apiKey}\r\nconnection: close\r\n` +
      `content-type: application/json\r\ncontent-length: ${bytes.length}\r\n\r\n${bytes}`,
  )
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk
  })
  await once(socket, 'close')
  return Number(text.slice(9, 12))
}

for (const dialect of dialects) {
  test(`${dialect}: nothing is given a name that a client resolves in a URL`, async (t) => {
    const target = await Target.share(t, dialect)
    const app = await target.newApplication()
    const link = await target.call('POST', `/auth/app-portal-access/${app}`, { body: {} })
    const portal = { authorization: `Bearer ${JSON.parse(link.text).token}` }
    const endpoint = { url: 'https://example.com/' }
    const source = { provider: 'github', secret: 'a secret of GitHub' }
    const schedule = { cron: '0 0 * * *', eventType: 'a', payload: {} }
    const ingest = { name: 'x', type: 'github', config: { secret: 'x' } }
    const made = await target.call('POST', `/app/${app}/endpoint`, { body: { ...endpoint, uid: 'plain' } })
    assert.equal(made.status, 201)
    let refused = 0
    for (const name of [...folded, ...written]) {
      const bodies: [string, string, object, object?][] = [
        ['POST', '/app', { name: 'x', uid: name }],
        ['PATCH', `/app/${app}`, { uid: name }],
        ['POST', `/app/${app}/endpoint`, { ...endpoint, uid: name }],
        ['POST', `/app/${app}/endpoint`, { ...endpoint, uid: name }, portal],
        ['PATCH', `/app/${app}/endpoint/plain`, { uid: name }, portal],
        ['PUT', `/app/${app}/endpoint/plain`, { ...endpoint, uid: name }],
        ['POST', `/app/${app}/source`, { ...source, uid: name }],
        ['POST', `/app/${app}/schedule`, { ...schedule, uid: name }],
        ['POST', `/app/${app}/region`, { name }],
        ['POST', '/event-type', { name, description: '' }],
        ['POST', '/event-type/import/openapi', { spec: { openapi: '3.1.0', webhooks: { [name]: { post: {} } } } }],
        ['POST', '/auth/app-portal-access/new', { application: { name: 'x', uid: name } }],
        ['POST', '/operational-webhook/endpoint', { ...endpoint, uid: name }],
      ]
      for (const [method, path, body, headers = {}] of bodies) {
        const { status, text } = await target.call(method, path, { body, headers: headers as Record<string, string> })
        const changedNothing = path.endsWith('/openapi') && /"modified":\[\]/.test(text)
        assert.ok(status === 422 || changedNothing, `${method} ${path} ${JSON.stringify(body)}: ${status} ${text}`)
        refused++
      }
      const step = name.replace(/[^\w.%;-]/g, (character) => encodeURIComponent(character))
      const paths: [string, string, object][] = [
        ['PUT', `/app/${step}`, { name: 'x' }],
        ['PUT', `/app/${app}/endpoint/${step}`, endpoint],
        ['PUT', `/app/${app}/schedule/${step}`, schedule],
        ['PUT', `/event-type/${step}`, { description: '' }],
        ['POST', `/auth/app-portal-access/${step}`, { application: { name: 'x' } }],
        ['POST', `/app/${step}/msg`, { eventType: 'a', payload: {}, application: { name: 'x' } }],
        ['PUT', `/ingest/api/v1/source/${step}`, ingest],
      ]
      for (const [method, path, body] of paths) {
        const status = await sendAsIs(target, method, path.startsWith('/ingest') ? path : `/api/v1${path}`, body)
        assert.ok(status === 404 || status === 422 || status === 400 || status === 405, `${method} ${path}: ${status}`)
        refused++
      }
    }
    reportLine(t, { attack: 'names that clients resolve', store: dialect, tried: refused, refused })
    const { text } = await target.call('GET', '/doctor')
    assert.deepEqual(
      JSON.parse(text).findings.filter(({ code }: { code: string }) => code === 'folded_name'),
      [],
    )
  })
}
