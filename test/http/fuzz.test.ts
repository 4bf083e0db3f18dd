import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import fc from 'fast-check'
import { prefix } from '../../src/http/openapi/document.ts'
import { operations } from '../../src/http/operations/all.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { systemRandom, systemRandomText } from '../../src/runtime/random.ts'
import { openSqliteStore } from '../../src/store/sqlite/open.ts'
import { testVault } from '../store/test-vault.ts'
import { garbled, leastQuery, spoiled, valuesOf } from './from-schema.ts'
import { fill, openPopulated } from './populated.ts'

const runs = 10_000
/** Refused to any API key, whatever the body. */
const onlyForTokens = 'POST /auth/logout'
const seed = Number(process.env.FUZZ_SEED ?? 20_261_115)

/**
 * Bodies made from each route's own schema, most of them spoiled. Whatever comes, the answer is never a fault of ours,
 * a refusal is a problem, and a refused request committed nothing: another connection would see the file change.
 * Replay: FUZZ_SEED=7 node --test test/http/fuzz.test.ts
 */
test(`${runs} bodies over every route that takes one leave no fault and no partial write (seed ${seed})`, async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-fuzz-'))
  const path = join(directory, 'fuzz.db')
  const context = { clock: systemClock, random: systemRandom, randomText: systemRandomText, vault: testVault }
  const store = await openSqliteStore(context, { path, role: 'owner' })
  const api = await openPopulated({ store })
  const watcher = new DatabaseSync(path, { readOnly: true })
  t.after(async () => {
    watcher.close()
    await store.close()
    rmSync(directory, { recursive: true })
  })
  const versionOf = watcher.prepare('pragma data_version')
  const unwritten = versionOf.get()
  await api.ask('POST', '/app', { name: 'seen' })
  assert.notDeepEqual(versionOf.get(), unwritten, 'the watcher sees what is written')

  const routes = Object.entries(operations).filter(([route]) => /^(POST|PUT|PATCH) /.test(route))
  const requests = fc.oneof(
    ...routes.map(([route, { body, query }]) => {
      const values = typeof body === 'object' ? valuesOf(body) : fc.jsonValue()
      const bodies = fc.oneof(
        { weight: 2, arbitrary: values.map(jsonOf) },
        { weight: 5, arbitrary: spoiled(values).map(jsonOf) },
        { weight: 2, arbitrary: garbled(values.map(jsonOf)) },
        { weight: 1, arbitrary: fc.json() },
      )
      return fc.tuple(fc.constant(route), fc.constant(leastQuery(query)), bodies)
    }),
  )
  const accepted = new Map<string, number>()
  await fc.assert(
    fc.asyncProperty(requests, async ([route, query, body]) => {
      const [method = '', path = ''] = route.split(' ')
      const before = versionOf.get()
      const answer = await api.ask(method, prefix + fill(path, api.mine) + query, body)
      if (answer.status < 300) {
        accepted.set(route, (accepted.get(route) ?? 0) + 1)
        return
      }
      assert.ok(answer.status >= 400 && answer.status < 500, `${answer.status} ${answer.text}`)
      assert.match(String(answer.headers['content-type']), /^application\/problem\+json/)
      assert.equal(answer.json.status, answer.status)
      assert.deepEqual(versionOf.get(), before, `${route} was refused with ${answer.text}, but something was written`)
    }),
    { numRuns: runs, seed, endOnFailure: true },
  )
  assert.deepEqual(api.bugs, [])
  // A generator whose every body is refused would find nothing.
  const never = routes.map(([route]) => route).filter((route) => !accepted.has(route) && route !== onlyForTokens)
  assert.deepEqual(never, [])
})

test(`any id and any query on every route that reads leave no fault (seed ${seed})`, async () => {
  const api = await openPopulated()
  const reading = Object.entries(operations).filter(([route]) => route.startsWith('GET '))
  const texts = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 20 }).filter((text) => text.isWellFormed()),
    fc.constantFrom('', '.', '..', '%', '\0', 'null', '-', "'", '1e9', '-1', '99999999999999999999', 'x'.repeat(300)),
    fc.constantFrom(...Object.values(api.mine), ...Object.values(api.theirs)),
    fc.constantFrom('2026-01-01T00:00:00Z', '2026-02-31T00:00:00Z', 'true', 'ascending', 'a,b,,c', '-ep_', '0', '4'),
  )
  const requests = fc.oneof(
    ...reading.map(([route, { query }]) => {
      const path = route.slice('GET '.length)
      const names = Object.keys((query as { properties?: object } | undefined)?.properties ?? {})
      const ids = fc.record(Object.fromEntries([...path.matchAll(/:(\w+)/g)].map(([, name = '']) => [name, texts])))
      const mostlyMine = fc.tuple(ids, fc.boolean()).map(([its, mine]) => (mine ? api.mine : { ...api.mine, ...its }))
      const values = fc.dictionary(names.length === 0 ? fc.constant('x') : fc.constantFrom(...names), texts, {
        maxKeys: 3,
      })
      return fc.tuple(mostlyMine, values).map(([filled, its]) => `${fill(path, filled)}?${new URLSearchParams(its)}`)
    }),
  )
  await fc.assert(
    fc.asyncProperty(requests, async (path) => {
      const { status, text } = await api.ask('GET', prefix + path)
      assert.ok([200, 204, 400, 404, 422].includes(status), `${path}: ${status} ${text}`)
    }),
    { numRuns: 3000, seed, endOnFailure: true },
  )
  assert.deepEqual(api.bugs, [])
})

/** As a client would write it; what JSON cannot say is left out. */
function jsonOf(value: unknown): string {
  return JSON.stringify(value) ?? 'null'
}
