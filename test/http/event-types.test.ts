import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { readYaml } from '../../src/operations/yaml.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { type Answer, openApi } from './api.ts'

const path = '/api/v1/event-type'

function problems({ json }: Answer): string[] {
  return json.detail.map(({ loc, type }: { loc: string[]; type: string }) => `${loc.join('.')} ${type}`)
}

describe('event types', () => {
  test('are searched by a part of the name or the description, page by page', async () => {
    const { ask } = await openApi()
    for (let i = 0; i < 70; i++) {
      const description = i % 10 === 0 ? `A Rare one, ${i}` : 'A usual one'
      await ask('POST', path, { name: `type.${String(i).padStart(2, '0')}`, description })
    }
    const seen: string[] = []
    for (let iterator = ''; ; ) {
      const { json } = await ask('GET', `${path}?search=rare&limit=3${iterator}`)
      seen.push(...json.data.map(({ name }: { name: string }) => name))
      if (json.done) break
      iterator = `&iterator=${json.iterator}`
    }
    assert.deepEqual(
      seen,
      ['00', '10', '20', '30', '40', '50', '60'].map((n) => `type.${n}`),
    )
    assert.equal((await ask('GET', `${path}?search=TYPE.07`)).json.data.length, 1)
  })

  test('are created with every field a strict client expects, and found by name', async () => {
    const { ask } = await openApi()
    const schemas = { '1': { type: 'object', properties: { n: { type: 'integer' } } } }
    const input = { name: 'user.signup', description: 'A user signed up.', schemas, featureFlags: ['beta', 'eu'] }
    const { status, json } = await ask('POST', path, { ...input, groupName: 'user', deprecated: true })
    assert.equal(status, 201)
    const { createdAt, updatedAt, ...rest } = json
    assert.equal(createdAt, updatedAt)
    assert.match(createdAt, /^\d{4}-\d\d-\d\dT.*Z$/)
    assert.deepEqual(rest, { ...input, groupName: 'user', deprecated: true, archived: false, featureFlag: 'beta' })
    assert.deepEqual((await ask('GET', `${path}/user.signup`)).json, json)
    const plain = (await ask('POST', path, { name: 'a', description: '', featureFlag: 'old' })).json
    assert.deepEqual(
      [plain.schemas, plain.featureFlag, plain.featureFlags, plain.groupName],
      [null, 'old', ['old'], null],
    )
    for (const name of ['unknown', 'a%20b', 'x'.repeat(200)]) {
      assert.equal((await ask('GET', `${path}/${name}`)).status, 404)
    }
  })

  test('have a name of their own until they are archived', async () => {
    const { ask } = await openApi()
    await ask('POST', path, { name: 'a', description: '1' })
    const taken = await ask('POST', path, { name: 'a', description: '2' })
    assert.deepEqual([taken.status, taken.json.code], [409, 'event_type_exists'])
    assert.equal((await ask('DELETE', `${path}/a`)).status, 204)
    assert.equal((await ask('GET', `${path}/a`)).json.archived, true)
    const again = await ask('POST', path, { name: 'a', description: '2' })
    assert.deepEqual([again.status, again.json.description, again.json.archived], [201, '2', false])
    assert.equal((await ask('DELETE', `${path}/a?expunge=true`)).status, 204)
    assert.equal((await ask('GET', `${path}/a`)).status, 404)
    assert.equal((await ask('DELETE', `${path}/a`)).status, 404)
  })

  test('are replaced whole by PUT, and changed in part by PATCH', async () => {
    const { ask } = await openApi()
    const made = await ask('PUT', `${path}/a`, { description: '1', schemas: { '1': {} }, groupName: 'g' })
    assert.deepEqual([made.status, made.json.name], [201, 'a'])
    const kept = await ask('PATCH', `${path}/a`, { description: '2', deprecated: true })
    assert.deepEqual(
      { ...kept.json, updatedAt: '' },
      { ...made.json, description: '2', deprecated: true, updatedAt: '' },
    )
    const unset = await ask('PATCH', `${path}/a`, { schemas: null, groupName: null })
    assert.deepEqual([unset.json.schemas, unset.json.groupName, unset.json.deprecated], [null, null, true])
    const replaced = await ask('PUT', `${path}/a`, { description: '3', featureFlags: null })
    assert.deepEqual([replaced.status, replaced.json.deprecated], [200, false])
    assert.equal((await ask('PATCH', `${path}/b`, { description: '' })).status, 404)
  })

  test('that make no sense are refused', async () => {
    const { ask } = await openApi()
    const refused: [string, string, unknown, string][] = [
      ['POST', path, { name: 'a b', description: '' }, 'body.name pattern'],
      ['POST', path, { name: 'a' }, 'body.description required'],
      ['POST', path, { name: 'a', description: '', schemas: { '1': 5 } }, 'body.schemas.1 type'],
      ['POST', path, { name: 'a', description: '', featureFlags: [''] }, 'body.featureFlags.0 minLength'],
      ['PUT', `${path}/a%20b`, { description: '' }, 'body.name pattern'],
      ['GET', `${path}?iterator=a`, undefined, 'query.iterator iterator'],
      ['GET', `${path}?limit=251`, undefined, 'query.limit maximum'],
    ]
    for (const [method, where, body, problem] of refused) {
      const answer = await ask(method, where, body)
      assert.equal(answer.status, 422, problem)
      assert.ok(problems(answer).includes(problem), `${problem}: ${problems(answer)}`)
    }
    assert.equal((await ask('GET', path)).json.data.length, 0)
  })

  test('are listed by name, walked in both directions, with content and archived ones when asked', async () => {
    const { ask } = await openApi()
    const names = ['-a', 'a', 'b', 'c', 'd']
    for (const name of names) await ask('POST', path, { name, description: '', schemas: { '1': {} } })
    await ask('DELETE', `${path}/b`)
    const listed = async (query: string) => {
      const { json } = await ask('GET', `${path}?${query}`)
      return { ...json, names: json.data.map(({ name }: { name: string }) => name) }
    }
    assert.deepEqual((await listed('')).names, ['-a', 'a', 'c', 'd'])
    assert.deepEqual((await listed('include_archived=true&order=descending')).names, names.toReversed())
    assert.deepEqual((await listed('')).data[0].schemas, null)
    assert.deepEqual((await listed('with_content=true')).data[0].schemas, { '1': {} })
    const first = await listed('limit=1')
    assert.deepEqual([first.names, first.done], [['-a'], false])
    const second = await listed(`limit=2&iterator=${first.iterator}`)
    assert.deepEqual([second.names, second.done], [['a', 'c'], false])
    const back = await listed(`limit=5&iterator=${second.prevIterator}`)
    assert.deepEqual([back.names, back.done], [['-a'], true])
  })
})

describe('an import of event types', () => {
  const spec = {
    openapi: '3.1.0',
    components: {
      schemas: {
        User: {
          type: 'object',
          properties: { name: { type: 'string' }, friend: { $ref: '#/components/schemas/User' } },
        },
        Unused: {},
      },
    },
    webhooks: {
      'user.created': {
        post: {
          description: 'A user was made.',
          'x-svix-group-name': 'user',
          'x-svix-feature-flags': ['beta'],
          requestBody: { content: { 'application/json': { schema: { $ref: '#/components/schemas/User' } } } },
        },
      },
      'user.deleted': { post: { summary: 'Gone.', deprecated: true } },
    },
  }
  const importing = `${path}/import/openapi`

  test('says what it would change, and then changes it', async () => {
    const { ask } = await openApi()
    const dry = await ask('POST', importing, { spec, dryRun: true })
    assert.equal(dry.status, 200)
    assert.deepEqual(dry.json.data.modified, ['user.created', 'user.deleted'])
    const user = {
      type: 'object',
      properties: { name: { type: 'string' }, friend: { $ref: '#/$defs/User' } },
    }
    assert.deepEqual(dry.json.data.to_modify, [
      {
        name: 'user.created',
        description: 'A user was made.',
        schemas: { '1': { $ref: '#/$defs/User', $defs: { User: user } } },
        deprecated: false,
        groupName: 'user',
        featureFlags: ['beta'],
      },
      {
        name: 'user.deleted',
        description: 'Gone.',
        schemas: null,
        deprecated: true,
        groupName: null,
        featureFlags: null,
      },
    ])
    assert.equal((await ask('GET', path)).json.data.length, 0)
    const done = await ask('POST', importing, { specRaw: JSON.stringify(spec) })
    assert.deepEqual(done.json.data, { modified: ['user.created', 'user.deleted'], to_modify: null })
    const { json } = await ask('GET', `${path}/user.created`)
    assert.deepEqual(json.schemas, { '1': { $ref: '#/$defs/User', $defs: { User: user } } })
  })

  test('takes YAML as well as JSON', async () => {
    const { ask } = await openApi()
    const yaml = `
openapi: 3.1.0
x-shared: &json
  application/json:
    schema: { $ref: '#/components/schemas/User' }
components:
  schemas:
    User: { type: object, properties: { name: { type: string } } }
webhooks:
  user.created:
    post:
      description: |
        A user
        was made.
      requestBody: { content: *json }
      responses:
        200: { description: taken }
`
    const done = await ask('POST', importing, { specRaw: yaml })
    assert.deepEqual(done.json.data, { modified: ['user.created'], to_modify: null })
    const { json } = await ask('GET', `${path}/user.created`)
    assert.equal(json.description, 'A user\nwas made.\n')
    const user = { type: 'object', properties: { name: { type: 'string' } } }
    assert.deepEqual(json.schemas, { '1': { $ref: '#/$defs/User', $defs: { User: user } } })
  })

  test('says where YAML is wrong, and refuses what stands for too much', async () => {
    const { ask } = await openApi()
    const laughs = Array.from({ length: 9 }, (_, i) => {
      return `a${i + 1}: &a${i + 1} [${Array(10).fill(`*a${i}`).join(', ')}]`
    })
    const cases: [string, number, string][] = [
      ['openapi: 3.1.0\nwebhooks: [1,\nb: }', 422, 'is not valid YAML: line 3, column 1: '],
      ['a: 1\nb: 2\na: 3', 422, 'has a key twice: line 3, column 1: a'],
      ['a: 1\n---\nb: 2', 422, 'is not valid YAML: line 2, column 1: '],
      ['a: *nobody', 422, 'is not valid YAML: Unresolved alias'],
      [`a0: &a0 [x, x]\n${laughs.join('\n')}`, 422, 'is not valid YAML: Excessive alias count'],
      [`a: ${'['.repeat(10_000)}`, 422, 'is nested too deep'],
      ['a: &a [*a]', 422, 'is nested too deep'],
      ['just text', 422, 'must be a mapping'],
      ['__proto__: { x: 1 }', 422, 'The key __proto__ is not allowed.'],
    ]
    for (const [specRaw, status, said] of cases) {
      const answer = await ask('POST', importing, { specRaw })
      assert.equal(answer.status, status, answer.text)
      const [problem] = Array.isArray(answer.json.detail) ? answer.json.detail : [{ msg: answer.json.detail }]
      assert.ok(problem.msg.startsWith(said), problem.msg)
    }
    assert.equal((await ask('GET', path)).json.data.length, 0)
    await assert.rejects(readYaml(`a: ${'x'.repeat(1_100_000)}`, ['body'], systemClock), /must not be longer/)
  })

  test('with replaceAll archives what the document does not have', async () => {
    const { ask } = await openApi()
    await ask('POST', path, { name: 'old', description: '' })
    await ask('POST', importing, { spec })
    assert.equal((await ask('GET', `${path}/old`)).json.archived, false)
    await ask('POST', importing, { spec, replaceAll: true })
    assert.equal((await ask('GET', `${path}/old`)).json.archived, true)
  })

  test('of nothing, of two documents, or of names that are none, is refused whole', async () => {
    const { ask } = await openApi()
    for (const body of [{}, { spec, specRaw: '{}' }, { specRaw: '[]' }]) {
      assert.equal((await ask('POST', importing, body)).status, 400, JSON.stringify(body).slice(0, 80))
    }
    const bad = { webhooks: { fine: { post: {} }, 'not fine': { post: {} } } }
    const refused = await ask('POST', importing, { spec: bad })
    assert.deepEqual(problems(refused), ['body.spec.webhooks.not fine.name pattern'])
    assert.equal((await ask('GET', path)).json.data.length, 0)
  })
})
