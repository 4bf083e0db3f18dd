import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { routes } from '../../src/features/routes.ts'
import { urlOf } from '../../src/operations/route.ts'

const sdk = new URL('../../node_modules/svix/', import.meta.url)
const page = new URL('../../docs/svix-operations.md', import.meta.url)
const calls = new URL('../../ui/src/docs/svix-calls.ts', import.meta.url)

/** One place in the SDK that sends a request. */
interface Site {
  /** As a program calls it: `application.list`. */
  readonly call: string
  readonly method: string
  readonly path: string
  readonly query: readonly string[]
  /** The name of the body's type; undefined when there is none. */
  readonly body: string | undefined
}

function sitesOf(file: string): Site[] {
  const source = readFileSync(new URL(`src/api/${file}`, sdk), 'utf8')
  const resource = file.replace(/\.ts$/, '')
  const sites = source.matchAll(/new SvixRequest\(\s*HttpMethod\.(\w+),\s*"([^"]+)"\s*\)([\s\S]*?)(?=\n {2}\}\n)/g)
  return [...sites].map((match) => {
    const [, method = '', path = '', rest = ''] = match
    const name = [...source.slice(0, match.index).matchAll(/public (?:async )?(\w+)\(/g)].at(-1)?.[1]
    const query = [...rest.matchAll(/setQueryParams\(\{([\s\S]*?)\}\)/g)].flatMap(([, list = '']) =>
      [...list.matchAll(/(\w+)\s*:/g)].map(([, parameter = '']) => parameter),
    )
    const [, body] = /setBody\(\s*(\w+)Serializer/.exec(rest) ?? []
    return { call: `${resource}.${name}`, method, path, query, body }
  })
}

const streams = 'no: Sluice delivers to HTTP endpoints, and has no streams or sinks'
const shapes = 'instead: `filter` and `shape` of the endpoint, which run no code ([shaping.md](shaping.md))'

/** Operations that Sluice does not have, by the path. */
const missing: readonly (readonly [RegExp, string])[] = [
  [/\/stream/, streams],
  [/\/endpoint\/[^/]+\/transformation$/, shapes],
  [/\/destination/, 'no: an endpoint is the only kind of destination'],
  [/\/connector/, 'no: an endpoint gets an event as it was published, or shaped ([shaping.md](shaping.md))'],
  [/\/integration/, 'instead: a key for one application, `POST /api/v1/api-key` ([access.md](access.md))'],
  [/\/poller/, 'instead: `GET /api/v1/app/{app_id}/msg` with `after` and `iterator`'],
  [/\/autoconfig/, 'no: create the endpoint with its fields'],
  [/\/environment\//, 'instead: [`sluice import svix`](svix.md#copy-the-configuration)'],
]

/** Yes, no, or a better way. */
function answerFor({ method, path, query }: Site): string {
  const shape = (text: string) => text.replace(/\{\w+\}|:\w+/g, '{}')
  const route = routes.find((each) => each.method === method && shape(urlOf(each)) === shape(path))
  if (route !== undefined) {
    const { properties = {} } = (route.query ?? {}) as { properties?: object }
    const unknown = query.filter((name) => !Object.hasOwn(properties, name))
    return unknown.length === 0
      ? 'yes'
      : `yes, without ${unknown.map((name) => `\`${name}\``).join(', ')}, which answer 422`
  }
  const [, reason] = missing.find(([pattern]) => pattern.test(path)) ?? assert.fail(`${method} ${path} has no answer`)
  return reason
}

test("docs/svix-operations.md lists every request of Svix's newest SDK (UPDATE_SVIX=1 rewrites it)", () => {
  const { version } = JSON.parse(readFileSync(new URL('package.json', sdk), 'utf8'))
  const files = readdirSync(new URL('src/api/', sdk)).sort()
  const sites = files.flatMap(sitesOf)
  const written = files.reduce((count, file) => {
    return count + readFileSync(new URL(`src/api/${file}`, sdk), 'utf8').split('new SvixRequest(').length - 1
  }, 0)
  assert.equal(sites.length, written)
  const rows = sites.map((site) => ({ ...site, answer: answerFor(site) }))
  const has = rows.filter(({ answer }) => answer.startsWith('yes')).length
  const instead = rows.filter(({ answer }) => answer.startsWith('instead')).length
  const text = `# Svix's operations

Every request of Svix's JavaScript SDK ${version}, and whether Sluice answers it. Of ${rows.length} requests, Sluice has ${has}, has another way for
${instead}, and lacks ${rows.length - has - instead}: those of Svix's other products. A missing path answers 404. A test makes this page from the SDK's sources.

| SDK | request | Sluice |
| --- | --- | --- |
${rows.map(({ call, method, path, answer }) => `| \`${call}\` | \`${method} ${path}\` | ${answer} |`).join('\n')}
`
  if (process.env.UPDATE_SVIX === '1') writeFileSync(page, text)
  assert.equal(readFileSync(page, 'utf8'), text)
})

test('the reference page has the SDK call of every request that Sluice answers (UPDATE_SVIX=1 rewrites it)', () => {
  const files = readdirSync(new URL('src/api/', sdk)).sort()
  const sites = files.flatMap(sitesOf).filter((site) => answerFor(site).startsWith('yes'))
  const first = sites.filter(
    ({ method, path }, i) => sites.findIndex((each) => each.method === method && each.path === path) === i,
  )
  const lines = first.map(({ call, method, path, body }) => {
    // The SDK has these resources within others.
    const name = call
      .replace(/^operationalWebhookEndpoint/, 'operationalWebhook.endpoint')
      .replace(/^ingest(Authentication|Endpoint|Source)/, (_, inner: string) => `ingest.${inner.toLowerCase()}`)
    return `  '${method} ${path}': { call: '${name}'${body === undefined ? '' : `, body: '${body}'`} },\n`
  })
  const text = `// Generated by \`UPDATE_SVIX=1 node --test test/http/svix-table.test.ts\` from Svix's SDK. Do not edit.

/** The call of Svix's SDKs for an operation, and the type of its body. */
export const svixCalls: Readonly<Record<string, { readonly call: string; readonly body?: string }>> = {
${lines.join('')}}
`
  if (process.env.UPDATE_SVIX === '1') writeFileSync(calls, text)
  assert.equal(readFileSync(calls, 'utf8'), text)
})
