import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import { Svix } from 'svix'
import { openApiDocument } from '../../src/operations/openapi.ts'
import { exampleOf, referenceOf, search } from '../../ui/src/docs/document.ts'
import { snippetsOf, targetOf } from '../../ui/src/docs/snippets.ts'

const reference = referenceOf(JSON.parse(JSON.stringify(openApiDocument())))
const operations = reference.groups.flatMap((group) => group.operations)
const key = 'sk_of_the_snippets'

interface Sent {
  readonly method: string
  readonly target: string
  readonly authorization: string | undefined
  readonly contentType: string | undefined
  readonly body: unknown
}

const sent: Sent[] = []
/** Keeps every request. The examples themselves are sent to a real server by test/http/examples.test.ts. */
const recorder = createServer(async (request, response) => {
  let body = ''
  for await (const bytes of request) body += bytes
  const { authorization, 'content-type': contentType } = request.headers
  sent.push({
    method: request.method ?? '',
    target: request.url ?? '',
    authorization,
    contentType: body === '' ? undefined : contentType,
    body: jsonOf(body),
  })
  response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
})
let server = ''
before(async () => {
  await once(recorder.listen(0, '127.0.0.1'), 'listening')
  server = `http://127.0.0.1:${(recorder.address() as AddressInfo).port}`
})
after(() => recorder.close())

/** JSON is compared by its value, since times have more than one spelling. */
function jsonOf(body: string): unknown {
  const isTime = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/
  try {
    return JSON.parse(body, (_, value) => (isTime.test(value) ? new Date(value).toISOString() : value))
  } catch {
    return body
  }
}

const AsyncFunction = (async () => {}).constructor as new (...text: string[]) => (...values: unknown[]) => Promise<void>

const ways: Readonly<Record<string, (code: string) => Promise<unknown>>> = {
  curl: (code) => promisify(execFile)('sh', ['-c', code], { env: { ...process.env, SLUICE_API_KEY: key } }),
  fetch: (code) => new AsyncFunction('process', code)({ env: { SLUICE_API_KEY: key } }),
  // The answer is none that the SDK expects; the request is what counts.
  'Svix JS': (code) =>
    new AsyncFunction('process', 'Svix', code.replace(/^import .*$/m, ''))(
      { env: { SLUICE_API_KEY: key } },
      Svix,
    ).catch(() => {}),
}

describe('the code that the reference shows for', () => {
  for (const operation of operations) {
    test(`${operation.operationId} sends the request of the example`, async () => {
      const values = exampleOf(operation)
      const snippets = snippetsOf(operation, values, server)
      assert.ok(snippets.length >= 2)
      const needsKey = operation.security.length > 0
      const expected: Sent = {
        method: operation.method,
        target: sorted(targetOf(operation, values)),
        authorization: needsKey ? `Bearer ${key}` : undefined,
        contentType: values.body === undefined ? undefined : values.contentType,
        body: jsonOf(values.body ?? ''),
      }
      for (const { name, code } of snippets) {
        const way = ways[name]
        if (way === undefined) continue
        sent.length = 0
        await way(code)
        assert.equal(sent.length, 1, `${name}: ${code}`)
        const { target = '', ...rest } = sent[0] ?? {}
        // An SDK always sends its key, and its own defaults.
        const defaults = name === 'Svix JS' ? /[?&](with_content=false|expanded_statuses=true)/g : /$^/g
        const plain = target.replaceAll(defaults, (text) => (text.startsWith('?') ? '?' : ''))
        const actual = { ...rest, target: sorted(plain), ...(!needsKey && { authorization: undefined }) }
        assert.deepEqual(actual, expected, `${name}: ${code}`)
      }
      const library = snippets.find(({ name }) => name === 'Library')
      if (library === undefined) return
      const calls: unknown[][] = []
      const sluice = { request: async (...args: unknown[]) => void calls.push(args) }
      await new AsyncFunction('openSluice', library.code.replace(/^import .*$/m, ''))(async () => sluice)
      const [method, path, body] = calls[0] ?? []
      assert.deepEqual(
        [method, sorted(`/api/v1${path}`), jsonOf(body === undefined ? '' : JSON.stringify(body))],
        [expected.method, expected.target, expected.body],
      )
    })
  }

  test('Python can be parsed', (t) => {
    const code = operations.flatMap((operation) =>
      snippetsOf(operation, exampleOf(operation), 'http://localhost').filter(({ name }) => name === 'Svix Python'),
    )
    assert.ok(code.length > 50)
    const { error, status, stderr } = spawnSync(
      'python3',
      ['-c', 'import ast, json, sys\nfor c in json.load(sys.stdin): ast.parse(c)'],
      {
        input: JSON.stringify(code.map((each) => each.code)),
        encoding: 'utf8',
      },
    )
    if (error !== undefined) return t.skip('no python3 here')
    assert.equal(status, 0, stderr)
  })
})

function sorted(target: string): string {
  const url = new URL(target, 'http://localhost')
  const isTime = /^\d{4}-\d\d-\d\dT/
  const query = [...url.searchParams].map(
    ([name, value]) => `${name}=${isTime.test(value) ? new Date(value).toISOString() : value}`,
  )
  return [url.pathname, ...query.toSorted()].join(' ')
}

test('a search finds operations by summary, path, id and field, the nearest first', () => {
  assert.equal(search(reference, 'create application')[0]?.operationId, 'v1.application.create')
  assert.equal(search(reference, 'rotate-secret')[0]?.operationId, 'v1.endpoint.rotate-secret')
  assert.ok(search(reference, 'orderingKey').some(({ operationId }) => operationId === 'v1.message.create'))
  assert.ok(search(reference, 'post /msg/batch').some(({ operationId }) => operationId === 'v1.message.create-batch'))
  assert.deepEqual(search(reference, 'nothing-has-this-name'), [])
})
