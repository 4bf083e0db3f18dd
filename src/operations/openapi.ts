import { type TSchema, Type } from 'typebox'
import { noticeSchemas } from '../features/notices/schemas.ts'
import { namedSchemas, nouns } from '../features/routes.ts'
import { codesByStatus, remedyOf } from './errors.ts'
import { exampleAnswers, exampleName, examples, pathParameters } from './examples.ts'
import { text, whole } from './fields.ts'
import { withNames } from './openapi-names.ts'
import { anyBytes, isBodyOptional, type JsonLines, type Route, urlOf } from './route.ts'

/** The version of the API, which is not the program's: it changes when a client would have to. */
const version = '1.0.0'

const problemJson = 'application/problem+json'

export const Problem = Type.Object({
  type: text('`urn:sluice:error:` and the code'),
  title: Type.String(),
  status: whole('HTTP status.'),
  detail: Type.String(),
  instance: text('The path that was asked for'),
  code: text('Stable; meant for programs'),
})

export const ValidationProblem = Type.Object({
  ...Problem.properties,
  detail: Type.Array(
    Type.Object({
      loc: Type.Array(Type.String(), { description: 'The path to the value, such as `body`, `throttleRate`' }),
      msg: Type.String(),
      type: Type.String(),
    }),
  ),
})

/** Schemas with a name stand once under `components` and are referred to everywhere else. */
const schemaNames: ReadonlyMap<unknown, string> = new Map(
  Object.entries({ ...namedSchemas, Problem, ValidationProblem })
    .map(([name, schema]): [unknown, string] => [schema, name])
    .concat(Object.values(noticeSchemas).map(({ name, body }) => [body, name])),
)

const anyNotice = 'OperationalWebhookEvent'

function componentSchemas(): Record<string, Record<string, unknown>> {
  const named = [...schemaNames].map(([schema, name]) => [name, written(schema) as Record<string, unknown>] as const)
  const notices = Object.entries(noticeSchemas).map(
    ([type, { body }]) => [type, used(body) as { $ref: string }] as const,
  )
  const mapping = Object.fromEntries(notices.map(([type, { $ref }]) => [type, $ref]))
  const union = { oneOf: notices.map(([, reference]) => reference), discriminator: { propertyName: 'type', mapping } }
  return { ...Object.fromEntries(named), [anyNotice]: union }
}

/** A schema, or a part of one, as the document writes it where it is used. */
function used(schema: unknown): unknown {
  const name = schemaNames.get(schema)
  return name === undefined ? written(schema) : { $ref: `#/components/schemas/${name}` }
}

function written(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(used)
  if (typeof schema !== 'object' || schema === null) return schema
  return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, used(value)]))
}

/** The reference as an OpenAPI 3.1 document, from the schemas the routes check with. */
export function openApiDocument() {
  const paths: Record<string, Record<string, unknown>> = {}
  for (const { tag, routes } of nouns) {
    for (const route of routes) {
      const { method } = route
      const at = urlOf(route).replaceAll(/:(\w+)/g, (_, name: string) => `{${pathParameters[name]?.[0] ?? name}}`)
      paths[at] = { ...paths[at], [method.toLowerCase()]: operationObject(tag, route) }
    }
  }
  const named = withNames({ paths, webhooks: webhooks(), schemas: componentSchemas() })
  return {
    openapi: '3.1.0',
    info: {
      title: 'Sluice API',
      version,
      description:
        "Webhook delivery that loses nothing and floods nobody. It has the operations of Svix's open-source server, and more, with the same shapes, so Svix's SDKs work by changing the server URL.",
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    tags: nouns.flatMap(({ tag, description }) => (description === undefined ? [] : [{ name: tag, description }])),
    security: [{ key: [] }],
    paths: named.paths,
    webhooks: named.webhooks,
    components: {
      securitySchemes: {
        key: {
          type: 'http',
          scheme: 'bearer',
          description: 'An API key with the named scope, or a token made for one application.',
        },
      },
      schemas: named.schemas,
      responses: problems(),
    },
  }
}

/** The messages that the endpoints of operational webhooks get, by event type. */
function webhooks(): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(noticeSchemas).map(([type, { name, summary, body }]) => [
      type,
      {
        post: {
          operationId: name,
          summary,
          tags: ['Operational Webhook'],
          security: [],
          requestBody: { required: true, content: { 'application/json': { schema: used(body) } } },
          responses: noticeTaken,
        },
      },
    ]),
  )
}

const noticeTaken = { '2XX': { description: 'Taken. Any other answer is a failed attempt.' } }

/**
 * The same as `webhooks`, by the operation that asks for it. Generators that know no `webhooks` leave out what no operation
 * refers to: oapi-codegen made functions for types that it had left out.
 */
function callbacks({ id }: Route) {
  if (id !== 'v1.operational-webhook.endpoint.create') return {}
  const schema = { $ref: `#/components/schemas/${anyNotice}` }
  const requestBody = { required: true, content: { 'application/json': { schema } } }
  return { callbacks: { notice: { '{$request.body#/url}': { post: { requestBody, responses: noticeTaken } } } } }
}

function operationObject(tag: string, route: Route) {
  const { id, summary, description, need, body, answers } = route
  return {
    operationId: id,
    summary,
    ...(description === undefined ? {} : { description }),
    tags: [tag],
    // The array names the scope a key needs, which OpenAPI 3.1 allows for any kind of scheme.
    security: need === 'open' ? [] : [{ key: [need.scope] }],
    parameters: parameters(route),
    ...(body === undefined ? {} : { requestBody: requestBody(route) }),
    responses: {
      ...Object.fromEntries(Object.entries(answers).map(([status, answer]) => [status, response(id, status, answer)])),
      ...problemReferences(route),
    },
    ...callbacks(route),
  }
}

function parameters({ id, method, path, query, need }: Route) {
  const inPath = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => ({
    name: pathParameters[name]?.[0] ?? name,
    in: 'path',
    required: true,
    description: pathParameters[name]?.[1] ?? '',
    schema: { type: 'string' },
    example: exampleName(path, name),
  }))
  const { query: example = {} } = examples[id] ?? {}
  const { properties = {}, required = [] } = (query ?? {}) as {
    properties?: Record<string, TSchema>
    required?: string[]
  }
  const inQuery = Object.entries(properties).map(([name, schema]) => {
    const described = used(schema) as { description?: string; type?: unknown }
    const { description, ...rest } = described
    return {
      name,
      in: 'query',
      required: required.includes(name),
      ...(description === undefined ? {} : { description }),
      schema: rest,
      ...(Object.hasOwn(example, name) ? { example: inList(rest, example[name]) } : {}),
    }
  })
  const idempotency = {
    name: 'idempotency-key',
    in: 'header',
    required: false,
    description: 'The same key with the same body gets the same answer for a day; with another body, 422.',
    schema: { type: 'string' },
  }
  return [...inPath, ...inQuery, ...(method === 'POST' && need !== 'open' ? [idempotency] : [])]
}

/** An example of a parameter that is a list is written as one name. */
function inList({ type }: { readonly type?: unknown }, value: unknown): unknown {
  return type === 'array' && !Array.isArray(value) ? [value] : value
}

function requestBody(route: Route) {
  const { body } = route
  const { body: example, contentType = '*/*' } = examples[route.id] ?? {}
  const [type, schema] =
    body === anyBytes
      ? [contentType, { description: 'Any bytes of any content type; both are delivered as they are.' }]
      : typeof body === 'object' && 'lines' in body
        ? ['application/jsonl', linesOf(body as JsonLines)]
        : ['application/json', used(body as TSchema)]
  const content = { schema, ...(example === undefined ? {} : { example }) }
  return {
    required: !isBodyOptional(route),
    content: { [type]: content, ...(body === anyBytes && { '*/*': { schema } }) },
  }
}

function response(id: string, status: string, answer: TSchema | JsonLines | null) {
  const description = descriptions[status] ?? 'Done'
  if (answer === null) return { description }
  const { status: exampleStatus, body } = exampleAnswers()[id] ?? {}
  const example = exampleStatus === status ? { example: body } : {}
  if ('lines' in answer) {
    const isStream = 'events' in answer
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    const lines = {
      schema: linesOf(answer as JsonLines),
      ...(exampleStatus === status && { example: isStream ? `data: ${text}\n\n` : `${text}\n` }),
    }
    return isStream
      ? { description: 'Server-sent events; the data of each is JSON', content: { 'text/event-stream': lines } }
      : { description: 'One JSON value per line', content: { 'application/jsonl': lines } }
  }
  return { description, content: { 'application/json': { schema: used(answer as TSchema), ...example } } }
}

/** Lines are a text for a client, and so they are for a generated one; `contentSchema` has the schema of each. */
function linesOf({ lines }: JsonLines) {
  return { type: 'string', contentSchema: used(lines) }
}

const descriptions: Readonly<Record<string, string>> = {
  200: 'Done',
  201: 'Created',
  202: 'Accepted',
  204: 'Done; no body',
  503: 'The store does not answer',
}

/** The errors an operation can answer with. They follow from its path, query and body. */
function problemReferences({ method, path, query, body, need, answers }: Route) {
  const open = need === 'open'
  const statuses = [
    ...(open ? [] : [400, 401, 403]),
    ...(path.includes(':') ? [404] : []),
    ...(body === undefined ? [] : [409, 413, 415]),
    ...(query === undefined && body === undefined && method !== 'POST' ? [] : [422]),
    ...(open ? [] : [429, 503]),
  ]
  const known = codesByStatus()
  const own = statuses.filter((status) => known.has(status) && !(status in answers))
  return Object.fromEntries(own.map((status) => [status, { $ref: `#/components/responses/${status}` }]))
}

const retryAfter = { 'retry-after': { description: 'When to try again, in seconds', schema: { type: 'integer' } } }

/** Headers of errors, by status. */
const problemHeaders: Readonly<Record<number, object>> = {
  401: { 'www-authenticate': { description: 'The scheme to use', schema: { type: 'string' } } },
  405: { allow: { description: 'The methods that the path takes', schema: { type: 'string' } } },
  429: retryAfter,
  503: retryAfter,
}

/** One answer per status, naming the codes it comes with. */
function problems(): Record<string, unknown> {
  return Object.fromEntries(
    [...codesByStatus()].map(([status, { title, codes }]) => {
      const schema = used(status === 422 ? ValidationProblem : Problem)
      const description = `${title}: ${codes.map((code) => `\`${code}\``).join(', ')}`
      const headers = problemHeaders[status]
      return [
        status,
        {
          description,
          'x-codes': codes.map((code) => ({ code, remedy: remedyOf(code) })),
          ...(headers && { headers }),
          content: { 'application/json': { schema }, [problemJson]: { schema } },
        },
      ]
    }),
  )
}
