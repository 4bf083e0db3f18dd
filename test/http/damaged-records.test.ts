import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { describe, type TestContext, test } from 'node:test'
import { systemClock } from '../../src/runtime/clock.ts'
import { openPostgresStore } from '../../src/store/postgres/open.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import type { Store } from '../../src/store/store.ts'
import { damage } from '../store/damage.ts'
import { newDatabase, context as postgresContext, sharedServer } from '../store/postgres-harness.ts'
import { contextWith, placeFor } from '../store/sqlite-harness.ts'
import { type Api, openApi } from './api.ts'

interface World {
  readonly store: Store
  query(sql: string): Promise<{ [column: string]: unknown }[]>
}

async function sqlite(t: TestContext): Promise<World> {
  const place = placeFor(t)
  const store = await openSqliteStore(contextWith(systemClock), { path: place.path, role: 'owner' })
  place.closeFirst(() => store.close())
  const query = async (sql: string) => {
    using db = new DatabaseSync(place.path)
    return db.prepare(sql).all()
  }
  return { store, query }
}

async function postgres(t: TestContext): Promise<World> {
  const url = await newDatabase()
  const server = await sharedServer()
  const store = await openPostgresStore(postgresContext, { url })
  t.after(() => store.close())
  return { store, query: async (sql) => (await server.query(sql, url)).rows }
}

// In the version, in the id of the key, in the iv and in the ciphertext.
const positions = { version: 0, key: 3, iv: 20, ciphertext: 70 }

for (const [dialect, open] of Object.entries({ sqlite, postgres })) {
  describe(`a damaged record in ${dialect}`, () => {
    async function damaged(t: TestContext, column: 'secrets' | 'headers', position: number) {
      const world = await open(t)
      const api = await openApi({ store: world.store })
      await api.ask('POST', '/app', { uid: 'acme', name: 'Acme' })
      const headers = { 'x-account': 'acme-and-a-long-value' }
      for (const uid of ['whole', 'broken']) {
        const body = { uid, url: `http://127.0.0.1:9/${uid}`, headers }
        assert.equal((await api.ask('POST', '/app/acme/endpoint', body)).status, 201)
      }
      await damage(world, dialect, { table: 'endpoint', column, where: `uid = 'broken'`, position })
      return api
    }

    const names = async (api: Api) =>
      (await api.ask('GET', '/app/acme/endpoint')).json.data.map((its: { uid: string; damaged: string[] }) => [
        its.uid,
        its.damaged,
      ])

    for (const [where, position] of Object.entries(positions)) {
      test(`of a secret, in its ${where}: the endpoint is listed, changed and rotated`, async (t) => {
        const api = await damaged(t, 'secrets', position)
        assert.deepEqual(await names(api), [
          ['broken', ['secret']],
          ['whole', []],
        ])
        const shown = await api.ask('GET', '/app/acme/endpoint/broken/secret')
        assert.deepEqual([shown.status, shown.json.code], [409, 'damaged_record'])
        assert.match(shown.json.detail, /rotate it to a new one/)
        const patched = await api.ask('PATCH', '/app/acme/endpoint/broken', { description: 'still here' })
        assert.deepEqual([patched.status, patched.json.damaged], [200, ['secret']])
        assert.equal((await api.ask('GET', '/app/acme/endpoint/broken/headers')).status, 200)

        assert.equal((await api.ask('POST', '/app/acme/endpoint/broken/secret/rotate', {})).status, 200)
        assert.match((await api.ask('GET', '/app/acme/endpoint/broken/secret')).json.key, /^whsec_/)
        assert.deepEqual((await api.ask('GET', '/app/acme/endpoint/broken')).json.damaged, [])
        assert.deepEqual(api.bugs, [])
      })
    }

    test('of headers: they are put as a whole, and not changed in part', async (t) => {
      const api = await damaged(t, 'headers', positions.ciphertext)
      const path = '/app/acme/endpoint/broken/headers'
      assert.deepEqual((await api.ask('GET', '/app/acme/endpoint/broken')).json.damaged, ['headers'])
      assert.equal((await api.ask('GET', path)).json.code, 'damaged_record')
      assert.equal((await api.ask('PATCH', path, { headers: { a: 'b' } })).json.code, 'damaged_record')
      assert.match((await api.ask('GET', '/app/acme/endpoint/broken/secret')).json.key, /^whsec_/)
      assert.equal((await api.ask('PUT', path, { headers: { a: 'b' } })).status, 204)
      assert.deepEqual((await api.ask('GET', path)).json.headers, { a: 'b' })
      assert.deepEqual((await api.ask('GET', '/app/acme/endpoint/broken')).json.damaged, [])
      assert.deepEqual(api.bugs, [])
    })

    test('the endpoint is deleted like any other', async (t) => {
      const api = await damaged(t, 'secrets', positions.version)
      assert.equal((await api.ask('DELETE', '/app/acme/endpoint/broken')).status, 204)
      assert.deepEqual(await names(api), [['whole', []]])
      assert.deepEqual(api.bugs, [])
    })

    test('messages are accepted for it and for the others', async (t) => {
      const api = await damaged(t, 'secrets', positions.ciphertext)
      const accepted = await api.ask('POST', '/app/acme/msg', { eventType: 'a', payload: {} })
      assert.equal(accepted.status, 202)
      assert.deepEqual(api.bugs, [])
    })
  })
}
