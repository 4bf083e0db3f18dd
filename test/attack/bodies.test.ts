import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dialects, isLong, Target } from './attack.ts'

const range = <T>(count: number, each: (i: number) => T) => Array.from({ length: count }, (_, i) => each(i))
const repeated = (text: string, times: number) => range(times, () => text).join(',')

/** Bodies of a megabyte that are slow to read: small containers, members, numbers and escapes. */
const bodies: Readonly<Record<string, string>> = {
  objects: `{"x":[${repeated('{}', 330_000)}]}`,
  lists: `{"x":[${repeated('[[]]', 200_000)}]}`,
  members: `{${range(9_990, (i) => `"m${i}":"${'x'.repeat(85)}"`).join(',')}}`,
  tooMany: `{${range(70_000, (i) => `"m${i}":1`).join(',')}}`,
  almost: `{"x":[${repeated('{}', 49_000)}],"y":"${'x'.repeat(800_000)}"}`,
  escapes: `{"x":"${'\\u0041'.repeat(160_000)}"}`,
  texts: `{"x":[${repeated('"ab"', 200_000)}]}`,
}

test('megabytes of JSON that are slow to read never hold the loop', async (t) => {
  const target = await Target.share(t, 'sqlite')
  const app = await target.newApplication()
  for (const [name, body] of Object.entries(bodies)) {
    const schema = `{"name":"${name}","description":"","schemas":{"1":${body}}}`
    await target.measure(`read: ${name}`, async () => {
      const paths = [
        '/event-type',
        '/app',
        `/app/${app}/msg`,
        `/app/${app}/msg/precheck/active`,
        `/app/${app}/endpoint`,
      ]
      for (const path of paths) await target.call('POST', path, { body: path === '/event-type' ? schema : body })
    })
  }
  await target.measure('read: many at once', () =>
    Promise.all(range(isLong ? 40 : 12, () => target.call('POST', '/app', { body: bodies.objects as string }))),
  )
})

const operation = (schema: unknown) => ({ post: { requestBody: { content: { 'application/json': { schema } } } } })

test('OpenAPI documents that are slow to import never hold the loop', async (t) => {
  const target = await Target.share(t, 'sqlite')
  const ref = (i: number) => ({ $ref: `#/components/schemas/s${i}` })
  const chain = {
    webhooks: Object.fromEntries(range(300, (i) => [`w${i}`, operation(ref(0))])),
    components: { schemas: Object.fromEntries(range(1500, (i) => [`s${i}`, { items: ref(i + 1), a: ref(i) }])) },
  }
  const lines = range(4_000, (i) => `  w${i}:\n    post:\n      description: "d${i}"\n`).join('')
  const aliases = `a: &a [${repeated('x', 900)}]\nwebhooks:\n  w:\n    post:\n      x: [${repeated('*a', 99)}]\n`
  const deep = `webhooks:\n  w: ${'['.repeat(5_000)}${']'.repeat(5_000)}\n`
  const documents = {
    chain: { spec: chain, dryRun: true },
    chained: { spec: chain },
    json: { specRaw: JSON.stringify(chain), dryRun: true },
    yaml: { specRaw: `webhooks:\n${lines}`, dryRun: true },
    aliases: { specRaw: aliases, dryRun: true },
    deep: { specRaw: deep, dryRun: true },
    flow: { specRaw: `webhooks: {w: [${repeated('[]', isLong ? 80_000 : 40_000)}]}`, dryRun: true },
  }
  for (const [name, body] of Object.entries(documents)) {
    await target.measure(`OpenAPI: ${name}`, async () => {
      const { status, text } = await target.call('POST', '/event-type/import/openapi', { body })
      assert.ok(status === 200 || status === 422 || status === 413, `${status} ${text.slice(0, 300)}`)
    })
  }
})

for (const dialect of dialects) {
  test(`${dialect}: dead letters that are slow to import never hold the loop`, async (t) => {
    const target = await Target.share(t, dialect)
    const app = await target.newApplication()
    const { id } = await target.client.createEndpoint(app, { url: 'https://example.com/', disabled: true })
    const { text } = await target.call('POST', `/app/${app}/msg`, { body: { eventType: 'x', payload: {} } })
    const line = (payload: string) =>
      `{"msgId":"${JSON.parse(text).id}","endpointId":"${id}","eventType":"x","reason":"exhausted","attempts":1,"diedAt":"2026-01-01T00:00:00Z","responseStatusCode":500,"code":"status","payload":${payload}}`
    const files = {
      many: range(500, () => line(`{"x":[${repeated('{}', 2_000)}]}`)).join('\n'),
      large: range(4, () => line(bodies.lists as string)).join('\n'),
      bad: range(500, (i) => `{"msgId":"${i}","x":[${repeated('{}', 2_000)}]}`).join('\n'),
    }
    for (const [name, body] of Object.entries(files)) {
      await target.measure(`dead import: ${name}`, async () => {
        const headers = { 'content-type': 'application/jsonl' }
        const reply = await target.call('POST', `/app/${app}/dead/import?skip_bad=true`, { body, headers })
        assert.ok(reply.status < 500, `${reply.status} ${reply.text.slice(0, 300)}`)
      })
    }
  })
}
