import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { describe, type TestContext, test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { type Place, postgresPlace, sqlitePlace } from './place.ts'
import { apiKey, longLease, Program } from './program.ts'
import { Receiver } from './receiver.ts'

const rawSecret = 'canary-secret-of-32-bytes-length'
const secret = `whsec_${Buffer.from(rawSecret).toString('base64')}`
const header = 'canary-header-value'
const regionSecret = 'canary-secret-of-a-region'

/** Everything the store keeps, as one text. */
async function contentsOf(place: Place & { readonly files?: { readonly path: string } }): Promise<string> {
  if (place.files !== undefined) {
    const { path } = place.files
    const files = [path, `${path}-wal`, `${path}-shm`].filter(existsSync)
    return files.map((file) => readFileSync(file, 'latin1')).join('')
  }
  const tables = await place.query(`select tablename from pg_tables where schemaname = 'public'`)
  const rows: unknown[] = []
  for (const { tablename } of tables) rows.push(await place.query(`select t::text as whole from "${tablename}" as t`))
  return JSON.stringify(rows)
}

const places = { sqlite: (t: TestContext) => sqlitePlace(t), postgres: (_t: TestContext) => postgresPlace() }

for (const [dialect, openPlace] of Object.entries(places)) {
  describe(`secrets on ${dialect}`, () => {
    test('reach the receiver and nothing else: no table, no file, no log, no answer', async (t) => {
      const place = await openPlace(t)
      const receiver = await Receiver.listen(t)
      const server = await Program.start(t, 'serve', place.store, { ...longLease, SLUICE_LOG_LEVEL: 'trace' })
      const answers: string[] = []
      const ask = async (method: string, path: string, body?: unknown, key = apiKey) => {
        const answer = await fetch(`${server.api}${path}`, {
          method,
          headers: {
            authorization: `Bearer ${key}`,
            'content-type': 'application/json',
            'idempotency-key': `${method} ${path}`,
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        })
        const text = await answer.text()
        assert.ok(answer.ok, `${method} ${path}: ${text}`)
        return text
      }
      const note = async (...call: Parameters<typeof ask>) => void answers.push(await ask(...call))

      await note('POST', '/app', { name: 'A', uid: 'a' })
      const endpoint = { uid: 'one', url: `${receiver.url}/hook`, secret, headers: { 'x-api-key': header } }
      await note('POST', '/app/a/endpoint', endpoint)
      await note('PATCH', '/app/a/endpoint/one', { description: 'still secret' })
      await note('POST', '/app/a/region', { name: 'eu', secret: regionSecret })
      const shape = { pseudonymize: ['/hello'] }
      await note('PATCH', '/app/a/endpoint/one', { shape, region: 'eu', signature: 'standard' })
      const { token } = JSON.parse(await ask('POST', '/api-key', { name: 'k', scopes: ['admin'] }))
      const portal = JSON.parse(await ask('POST', '/auth/app-portal-access/a', {})).token
      await note('POST', '/app/a/msg', { eventType: 'x', payload: { hello: 'world' } }, token)
      await receiver.until('it is delivered', () => receiver.arrivals.length === 1)
      for (const path of ['/app', '/app/a/endpoint', '/app/a/endpoint/one', '/api-key', '/audit'])
        await note('GET', path)
      await note('GET', '/app/a/endpoint/one', undefined, portal)

      const [arrival] = receiver.arrivals
      assert.equal(arrival?.headers['x-api-key'], header)
      new Webhook(secret).verify(arrival?.body.toString() ?? '', { ...arrival?.headers })
      assert.deepEqual(JSON.parse(await ask('GET', '/app/a/endpoint/one/secret')), { key: secret })

      const kept = await contentsOf(place)
      server.terminate()
      await server.exited
      const everything = [kept, await contentsOf(place), server.logged, server.printed, ...answers].join('\n')
      const canaries = { secret, raw: rawSecret, header, regionSecret, token, portal, apiKey }
      for (const [name, canary] of Object.entries(canaries)) {
        const forms = [
          canary,
          Buffer.from(canary).toString('base64').replace(/=+$/, ''),
          Buffer.from(canary).toString('hex'),
        ]
        for (const form of forms)
          assert.ok(!everything.includes(form), `${name} is in what is kept, logged or answered`)
      }
    })
  })
}
