import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { describe, type TestContext, test } from 'node:test'
import { isSigned } from '../../src/features/audit/store.ts'
import type { Endpoint } from '../../src/features/endpoints/rules.ts'
import { envelopeOf } from '../../src/intake/publisher.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { systemRandomBytes } from '../../src/runtime/random.ts'
import { SubjectIndex } from '../../src/shaping/subjects.ts'
import { openPostgresStore } from '../../src/store/postgres/open.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import type { Store, StoreContext } from '../../src/store/store.ts'
import { openVault, sealedWith, type VaultKey } from '../../src/store/vault.ts'
import { plainEndpoint } from './conformance/harness.ts'
import { plainSchedule } from './conformance/schedules.ts'
import { plainSource, tokenOf } from './conformance/sources.ts'
import { damage } from './damage.ts'
import { newDatabase, context as postgresContext, sharedServer } from './postgres-harness.ts'
import { contextWith, placeFor } from './sqlite-harness.ts'

/** One database that can be opened with different keys and looked into behind the store's back. */
interface Place {
  open(keys: readonly VaultKey[], log?: (sentence: string) => void): Promise<Store>
  query(sql: string): Promise<Record<string, unknown>[]>
  /** Every byte that is kept. */
  contents(): Promise<string>
}

const old: VaultKey = { id: 'old', bytes: Buffer.alloc(32, 1) }
const fresh: VaultKey = { id: 'new', bytes: Buffer.alloc(32, 2) }
const canary = 'whsec_Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5'
const secretive = {
  ...plainEndpoint,
  secrets: [{ secret: canary, expiresAt: null }],
  headers: { authorization: 'canary-header' },
  auth: { kind: 'bearer', token: 'canary-header' } as const,
  clientCertificate: [
    {
      ...{ certificate: 'a certificate', key: 'canary-header', fingerprint: 'AB', subject: 'CN=a', issuer: 'CN=b' },
      ...{ validFrom: 1, validUntil: 2, replacedAt: null },
    },
  ],
}
const credentialsOf = (endpoint: Endpoint | undefined) => [endpoint?.auth, endpoint?.clientCertificate]

const secretiveSchedule = { ...plainSchedule, headers: { authorization: 'canary-header' } }
const anyPage = { limit: 10, order: 'ascending', after: null } as const

const withKeys = (context: StoreContext, keys: readonly VaultKey[], log: (sentence: string) => void): StoreContext => ({
  ...context,
  vault: openVault(keys, systemRandomBytes),
  log,
})

async function sqlite(t: TestContext): Promise<Place> {
  const place = placeFor(t)
  const { path } = place
  return {
    async open(keys, log = () => {}) {
      const store = await openSqliteStore(withKeys(contextWith(systemClock), keys, log), { path, role: 'owner' })
      place.closeFirst(() => store.close())
      return store
    },
    async query(sql) {
      using db = new DatabaseSync(path)
      return db.prepare(sql).all() as Record<string, unknown>[]
    },
    contents: async () =>
      [path, `${path}-wal`]
        .filter(existsSync)
        .map((file) => readFileSync(file, 'latin1'))
        .join(''),
  }
}

async function postgres(t: TestContext): Promise<Place> {
  const url = await newDatabase()
  const server = await sharedServer()
  const query = async (sql: string) => (await server.query(sql, url)).rows
  // The template was opened with the tests' own key.
  await query('delete from sealing_key')
  return {
    async open(keys, log = () => {}) {
      const store = await openPostgresStore(withKeys(postgresContext, keys, log), { url })
      t.after(() => store.close())
      return store
    },
    query,
    contents: async () =>
      JSON.stringify(await query('select e.*, e::text as whole from endpoint as e')) +
      JSON.stringify(await query('select r::text as whole from region as r')) +
      JSON.stringify(await query('select s::text as whole from schedule as s')) +
      JSON.stringify(await query('select s::text as whole from source as s')),
  }
}

async function addEndpoint(store: Store) {
  const app = await store.createApplication({ name: 'A', uid: null, throttleRate: null, metadata: {} })
  return { app, endpoint: await store.createEndpoint(app.key, secretive) }
}

for (const [dialect, openPlace] of Object.entries({ sqlite, postgres })) {
  describe(`sealing in ${dialect}`, () => {
    test('secrets and headers come back as given, and not one of their bytes is kept as it is', async (t) => {
      const place = await openPlace(t)
      const store = await place.open([fresh])
      const { app, endpoint } = await addEndpoint(store)
      await store.createRegion(app.key, 'eu', canary)
      const schedule = await store.createSchedule(app.key, secretiveSchedule)
      const named = await store.findSchedule(app.key, schedule.id)
      assert.deepEqual([named?.headers, schedule.headers], [secretiveSchedule.headers, secretiveSchedule.headers])
      const tagged = await store.updateSchedule(app.key, schedule.key, { tags: ['t'] })
      assert.deepEqual(tagged?.headers, secretiveSchedule.headers)
      assert.deepEqual((await store.listSchedules(app.key, anyPage)).items[0]?.headers, secretiveSchedule.headers)
      const found = await store.findEndpoint(app.key, endpoint.id)
      assert.deepEqual([found?.secrets, found?.headers], [secretive.secrets, secretive.headers])
      assert.deepEqual(credentialsOf(found), [secretive.auth, secretive.clientCertificate])
      const renamed = await store.updateEndpoint(app.key, endpoint.key, { description: 'renamed' })
      assert.deepEqual(renamed?.secrets, secretive.secrets)
      const source = await store.createSource(app.key, { ...plainSource, secrets: secretive.secrets }, tokenOf)
      const relabelled = await store.updateSource(app.key, source.key, { name: 'relabelled' })
      assert.deepEqual([relabelled?.secrets, relabelled?.tokens], [secretive.secrets, source.tokens])
      assert.equal((await place.contents()).includes(tokenOf(source.key)), false)
      assert.doesNotMatch(await place.contents(), /Y2FuYXJ5|canary-header/)
      assert.match(await place.contents(), /v1\|new\|/)
    })

    test('secrets from before there were keys are sealed when the store is opened', async (t) => {
      const place = await openPlace(t)
      const store = await place.open([fresh])
      const { app, endpoint } = await addEndpoint(store)
      await store.close()
      await place.query('delete from sealing_key')
      await place.query(
        `update endpoint set secrets = '${JSON.stringify(secretive.secrets)}', headers = '{"a":"canary-header"}'`,
      )
      const again = await place.open([fresh])
      const found = await again.findEndpoint(app.key, endpoint.id)
      assert.deepEqual([found?.secrets, found?.headers], [secretive.secrets, { a: 'canary-header' }])
      assert.doesNotMatch(await place.contents(), /Y2FuYXJ5|canary-header/)
    })

    test('a schedule whose headers were tampered with publishes nothing until they are replaced', async (t) => {
      const place = await openPlace(t)
      const store = await place.open([fresh])
      const { app } = await addEndpoint(store)
      const { id, key } = await store.createSchedule(app.key, secretiveSchedule)
      await damage(place, dialect, { table: 'schedule', column: 'headers', where: `key = ${key}`, position: 60 })
      const damaged = await store.findSchedule(app.key, id)
      assert(damaged !== undefined)
      assert.deepEqual([damaged.headers, damaged.damaged], [null, true])
      assert.throws(() => envelopeOf(damaged, null), { code: 'damaged_record', message: new RegExp(id) })
      const before = await place.query('select headers from schedule')
      await store.updateSchedule(app.key, key, { tags: ['t'] })
      assert.deepEqual(await place.query('select headers from schedule'), before, 'the record stays: a key may open it')
      const mended = await store.updateSchedule(app.key, key, { headers: { a: 'b' } })
      assert.deepEqual([mended?.headers, mended?.damaged], [{ a: 'b' }, undefined])
      assert.deepEqual((await store.findSchedule(app.key, id))?.headers, { a: 'b' })
    })

    test('a new first key seals every secret again, and then the old key is not needed', async (t) => {
      const place = await openPlace(t)
      const first = await place.open([old])
      const { app, endpoint } = await addEndpoint(first)
      // More than one step seals again.
      for (let i = 0; i < 205; i++) await first.createEndpoint(app.key, secretive)
      for (let i = 0; i < 205; i++) await first.createRegion(app.key, `r${i}`, canary)
      const shaping = { region: 'r7', shape: { keep: null, drop: [], rename: {}, pseudonymize: ['/id'] } }
      const inRegion = await first.createEndpoint(app.key, { ...secretive, flow: shaping })
      const source = await first.createSource(app.key, { ...plainSource, secrets: secretive.secrets }, tokenOf)
      await first.close()
      await assert.rejects(place.open([fresh]), { name: 'SealError', message: /encryption key old, not given/ })
      await (await place.open([fresh, old])).close()
      for (const { secret } of await place.query('select secret from region'))
        assert.match(String(secret), /^v1\|new\|/)
      const rows = await place.query('select secrets, headers from endpoint')
      rows.push(...(await place.query('select secrets, tokens from source')))
      for (const row of rows) assert.match(JSON.stringify(row), /v1\|new\|.*v1\|new\|/)
      for (const row of await place.query('select auth, client_certificate from endpoint'))
        assert.match(JSON.stringify(row), /v1\|new\|.*v1\|new\|/)
      const store = await place.open([fresh])
      const resealed = await store.findEndpoint(app.key, endpoint.id)
      assert.deepEqual(resealed?.secrets, secretive.secrets)
      assert.deepEqual(credentialsOf(resealed), [secretive.auth, secretive.clientCertificate])
      assert.equal((await store.loadEndpoints([inRegion.key]))[0]?.regionSecret, canary)
      assert.deepEqual(await store.findSource(app.key, source.id), source)
      assert.deepEqual(
        (await place.query('select id from sealing_key')).map(({ id }) => id),
        ['new'],
      )
    })

    test('after the key is changed, persons have the same hashes and reports the same signing key', async (t) => {
      const place = await openPlace(t)
      const first = await place.open([old])
      const settings = { subjectPointers: ['/user/id'] }
      const app = await first.createApplication({ name: 'A', uid: null, throttleRate: null, metadata: {}, settings })
      const hashIn = async (store: Store) => {
        const indexing = await store.findSubjectIndex(app.key)
        return indexing && new SubjectIndex(indexing).hashOf('ann')
      }
      const hash = await hashIn(first)
      assert.ok(hash)
      const signature = await first.sign('erasure', 'a report')
      await first.close()

      for (const keys of [[fresh, old], [fresh]]) {
        const store = await place.open(keys)
        assert.equal(await hashIn(store), hash)
        assert.equal((await store.subscriptions(app.key))?.subjects?.secret?.length, 43, 'publishes are indexed')
        const later = await store.sign('erasure', 'another')
        assert.deepEqual([later.keyId, later.publicKey], [signature.keyId, signature.publicKey])
        assert.equal(isSigned('erasure', 'another', later), true)
        assert.deepEqual(
          (await store.signingKeys()).map(({ publicKey }) => publicKey),
          [signature.publicKey],
          'the report from before is still signed by this server',
        )
        await store.close()
      }
      const sealed = await place.query('select secret from subject_key union all select secret from signing_key')
      assert.deepEqual(
        sealed.map(({ secret }) => sealedWith(String(secret))),
        ['new', 'new'],
      )
    })

    test('another key under the same id is refused before anything is read', async (t) => {
      const place = await openPlace(t)
      await (await place.open([old])).close()
      await assert.rejects(place.open([{ ...fresh, id: 'old' }]), {
        name: 'SealError',
        message: 'the encryption key old is not the one this store was sealed with',
      })
    })

    test('a record that was tampered with reads as damaged, stays as it is, and can be replaced', async (t) => {
      const place = await openPlace(t)
      const said: string[] = []
      const store = await place.open([fresh], (sentence) => said.push(sentence))
      const { app, endpoint } = await addEndpoint(store)
      const sealed = openVault([fresh], systemRandomBytes).seal('[]', { app: 1, endpoint: 1, field: 'secrets' })
      await place.query(`update endpoint set secrets = '${dialect === 'sqlite' ? sealed : JSON.stringify(sealed)}'`)
      const found = await store.findEndpoint(app.key, endpoint.id)
      assert.deepEqual([found?.damaged, found?.secrets, found?.headers], [['secrets'], [], secretive.headers])

      const renamed = await store.updateEndpoint(app.key, endpoint.key, { description: 'x' })
      assert.deepEqual([renamed?.damaged, renamed?.description], [['secrets'], 'x'])
      const [row] = await place.query('select secrets from endpoint')
      assert.equal(row?.secrets, sealed, 'another change leaves the damaged record alone')

      const [loaded] = await store.loadEndpoints([endpoint.key])
      assert.deepEqual([loaded?.id, loaded?.damaged, loaded?.secrets], [endpoint.id, ['secrets'], []])
      assert.match(said.join(), new RegExp(`nothing can be sent to ${endpoint.id}: the secrets .* key new`))

      const replaced = await store.updateEndpoint(app.key, endpoint.key, { secrets: secretive.secrets })
      assert.deepEqual([replaced?.damaged, replaced?.secrets], [undefined, secretive.secrets])
    })

    test('a damaged record does not keep the store from opening with a new key', async (t) => {
      const place = await openPlace(t)
      const first = await place.open([old])
      const { app, endpoint } = await addEndpoint(first)
      const other = await first.createEndpoint(app.key, secretive)
      await first.createRegion(app.key, 'eu', canary)
      await first.close()
      for (const [column, position] of Object.entries({ secrets: 0, headers: 4 })) {
        await damage(place, dialect, { table: 'endpoint', column, where: `key = ${endpoint.key}`, position })
      }
      await damage(place, dialect, { table: 'region', column: 'secret', where: `name = 'eu'`, position: 60 })
      const said: string[] = []
      const store = await place.open([fresh, old], (sentence) => said.push(sentence))
      assert.equal(said.filter((sentence) => /sealed record is damaged/.test(sentence)).length, 3, said.join('\n'))
      assert.deepEqual((await store.findEndpoint(app.key, endpoint.id))?.damaged, ['secrets', 'headers'])
      assert.deepEqual((await store.findEndpoint(app.key, other.id))?.secrets, secretive.secrets)
    })
  })
}
