import assert from 'node:assert/strict'
import fc from 'fast-check'
import { apiRoot } from '../../src/domain/api.ts'
import { operations } from '../../src/features/routes.ts'
import { examples } from '../../src/operations/examples.ts'
import { anyCharacter } from '../any-character.ts'
import { garbled, leastQuery, spoiled, valuesOf } from './from-schema.ts'
import { urlAt } from './paths.ts'
import { fill, type Populated } from './populated.ts'

export const seed = Number(process.env.FUZZ_SEED ?? 20_261_115)

/** Refused to any API key, whatever the body. */
const onlyForTokens = 'POST /auth/logout'
/** Refused once one of them has ended the task; they take no body that could be at fault. */
const taskCommands = ['pause', 'resume', 'cancel'].map((order) => `POST /background-task/:task/${order}`)
/** Refused unless something keeps others back in order; what they do then is in the tests of order. */
const headOrders = ['retry', 'skip'].map((order) => `POST /app/:app/endpoint/:endpoint/lane/head/${order}`)
/** Refused once a changed application names no data subjects; the tests of subjects have what they do. */
const subjectRoutes = ['erase', 'export'].map((order) => `POST /app/:app/subject/${order}`)
/** Nothing made up names an endpoint and a message; what it does accept is in the tests of dead letters. */
const linesRoutes = ['POST /app/:app/dead/import', 'POST /dead/import']

/**
 * Sends bodies made from each route's own schema, most of them spoiled, to every route that takes one. Whatever comes,
 * the answer is never a fault of ours, and a refusal is a problem. `onRefusal` gets each refusal, after `before`.
 * Gives the routes whose every body was refused: with enough runs there are none, or it would find nothing.
 */
export async function fuzzBodies(
  api: Populated,
  runs: number,
  before: () => void = () => {},
  onRefusal: (what: string) => void = () => {},
): Promise<string[]> {
  // A refused arrival at a source is counted in the store; test/attack/arrivals.test.ts has those.
  const routes = Object.entries(operations).filter(
    ([route, { need }]) => /^(POST|PUT|PATCH) /.test(route) && need !== 'open',
  )
  const requests = fc.oneof(
    ...routes.map(([route, { id, body, query }]) => {
      const schema = typeof body === 'object' && 'lines' in body ? body.lines : body
      const made = typeof schema === 'object' ? valuesOf(schema) : fc.jsonValue()
      // A schema does not say all: a random text is no expression of a schedule. So some bodies are the example's, without the
      // uid, which only the first could take, and event types that are not there.
      const { body: example, contentType } = examples[id] ?? {}
      const values =
        example === undefined || contentType !== undefined
          ? made
          : fc.oneof(
              { weight: 1, arbitrary: made },
              { weight: 1, arbitrary: fc.constant({ ...(example as object), uid: undefined, eventTypes: undefined }) },
            )
      const bodies = fc.oneof(
        { weight: 2, arbitrary: values.map(jsonOf) },
        { weight: 5, arbitrary: spoiled(values).map(jsonOf) },
        { weight: 2, arbitrary: garbled(values.map(jsonOf)) },
        { weight: 1, arbitrary: fc.json() },
      )
      return fc.tuple(fc.constant(route), fc.constant(leastQuery(query)), bodies)
    }),
  )
  const accepted = new Set<string>([onlyForTokens, ...linesRoutes, ...taskCommands, ...headOrders, ...subjectRoutes])
  await fc.assert(
    fc.asyncProperty(requests, async ([route, query, body]) => {
      const [method = '', path = ''] = route.split(' ')
      before()
      const headers = linesRoutes.includes(route) ? { 'content-type': 'application/jsonl' } : {}
      const answer = await api.ask(method, urlAt(fill(path, api.mine)) + query, body, headers)
      if (answer.status < 300) return void accepted.add(route)
      assert.ok(answer.status >= 400 && answer.status < 500, `${answer.status} ${answer.text}`)
      assert.match(String(answer.headers['content-type']), /^application\/json/)
      assert.equal(answer.json.status, answer.status)
      onRefusal(`${route}: ${answer.text}`)
    }),
    { numRuns: runs, seed, endOnFailure: true },
  )
  assert.deepEqual(api.bugs, [])
  return routes.map(([route]) => route).filter((route) => !accepted.has(route))
}

/** Asks every route that reads for any id, with any query: never a fault of ours. */
export async function fuzzReads(api: Populated, runs: number): Promise<void> {
  const reading = Object.entries(operations).filter(([route]) => route.startsWith('GET '))
  const texts = fc.oneof(
    fc.string({ unit: anyCharacter, maxLength: 20 }).filter((text) => text.isWellFormed()),
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
      const keys = names.length === 0 ? fc.constant('x') : fc.constantFrom(...names)
      const values = fc.dictionary(keys, texts, { maxKeys: 3 })
      return fc.tuple(mostlyMine, values).map(([filled, its]) => `${fill(path, filled)}?${new URLSearchParams(its)}`)
    }),
  )
  await fc.assert(
    fc.asyncProperty(requests, async (path) => {
      const { status, text } = await api.ask('GET', apiRoot + path)
      assert.ok([200, 204, 400, 404, 422].includes(status), `${path}: ${status} ${text}`)
    }),
    { numRuns: runs, seed, endOnFailure: true },
  )
  assert.deepEqual(api.bugs, [])
}

/** As a client would write it; what JSON cannot say is left out. */
function jsonOf(value: unknown): string {
  return JSON.stringify(value) ?? 'null'
}
