import { hash } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import { withCommas } from '../domain/phrases.ts'
import {
  type JsonSchema,
  type OpenApiDocument,
  type OpenApiOperation,
  type OpenApiParameter,
  type OpenApiResponse,
  openApiDocument,
} from '../operations/openapi.ts'
import { style } from './docs-style.ts'

/** The reference to read. */
export function docsRoute(app: FastifyInstance): void {
  let page: string | undefined
  app.get('/docs', (_request, reply) => {
    page ??= renderPage(openApiDocument())
    reply
      .header('content-type', 'text/html; charset=utf-8')
      .header('content-security-policy', pagePolicy)
      .header('x-content-type-options', 'nosniff')
      .header('referrer-policy', 'no-referrer')
      .send(page)
  })
}

/** The policy allows the page's own style and nothing else. */
const pagePolicy = `default-src 'none'; style-src 'sha256-${hash('sha256', style, 'base64')}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

type Shapes = OpenApiDocument['components']['schemas']

interface Entry {
  readonly method: string
  readonly path: string
  readonly operation: OpenApiOperation
}

interface Group {
  readonly name: string
  readonly description: string
  readonly entries: readonly Entry[]
}

/** The reference as one page without scripts: it can be read, searched and printed anywhere. */
function renderPage(document: OpenApiDocument): string {
  const entries = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  )
  const groups = document.tags.map(({ name, description }) => ({
    name,
    description,
    entries: entries.filter(({ operation }) => operation.tags.includes(name)),
  }))
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(document.info.title)}</title>
<style>${style}</style>
</head>
<body>
<header><h1>${escapeHtml(document.info.title)} <small>${escapeHtml(document.info.version)}</small></h1>
<p>${prose(document.info.description)}</p>
<p>Send <code>Authorization: Bearer &lt;key&gt;</code>. Lists take <code>limit</code>, <code>order</code> and <code>iterator</code>;
errors have a stable <code>code</code> (and are <code>application/problem+json</code> where <code>Accept</code> asks for it). This page as data:
<a href="/api/v1/openapi.json">openapi.json</a>.</p></header>
<nav aria-label="Operations"><details><summary>Contents</summary>
${groups.map(({ name, entries }) => contents(name, entries)).join('\n')}
<h2><a href="#shapes">Shapes</a></h2>
<h2><a href="#errors">Errors</a></h2>
</details></nav>
<main>
${groups.map((group) => chapter(group, document.components.schemas)).join('\n')}
<h2 id="shapes">Shapes</h2>
${Object.entries(document.components.schemas)
  .map(([name, schema]) => `<section id="shape-${name}"><h3>${name}</h3>${propertyTable(schema)}</section>`)
  .join('\n')}
<h2 id="errors">Errors</h2>
${errorTable(document.components.responses)}
</main>
</body>
</html>
`
}

function chapter({ name, description, entries }: Group, shapes: Shapes): string {
  const sections = entries.map((entry) => section(entry, shapes))
  return `<h2 id="${anchor(name)}">${escapeHtml(name)}</h2>\n<p>${prose(description)}</p>\n${sections.join('\n')}`
}

function contents(name: string, entries: readonly Entry[]): string {
  const items = entries.map(
    ({ method, operation }) =>
      `<li><a href="#${anchor(operation.operationId)}">${badge(method)}${escapeHtml(operation.summary)}</a></li>`,
  )
  return `<h2><a href="#${anchor(name)}">${escapeHtml(name)}</a></h2><ul>${items.join('')}</ul>`
}

function section({ method, path, operation }: Entry, shapes: Shapes): string {
  const id = anchor(operation.operationId)
  return `<section id="${id}">
<h3><a href="#${id}">${escapeHtml(operation.summary)}</a></h3>
<p class="path">${badge(method)}<code>${breakable(path)}</code><span class="scope">${scope(operation)}</span></p>
${operation.description === undefined ? '' : `<p>${prose(operation.description)}</p>`}
${parameterTable('In the path', operation.parameters, 'path')}
${parameterTable('In the query', operation.parameters, 'query')}
${parameterTable('Headers', operation.parameters, 'header')}
${requestBody(operation, shapes)}
${responses(operation)}
</section>`
}

/** The scope that a key needs. */
function scope({ security }: OpenApiOperation): string {
  const [first] = security
  return first === undefined ? 'no key' : escapeHtml(first.key.join(' '))
}

function parameterTable(title: string, parameters: readonly OpenApiParameter[], place: string): string {
  const rows = parameters
    .filter((parameter) => parameter.in === place)
    .map(({ name, required, schema, description }) => ({
      name,
      required,
      schema: { ...(schema as object), ...(description === undefined ? {} : { description }) },
    }))
  return rows.length === 0 ? '' : `<h4>${title}</h4>${rowsTable(rows)}`
}

/** A body stands in full where it is sent, so that a reader need not search for its schema. */
function requestBody({ requestBody: body }: OpenApiOperation, shapes: Shapes): string {
  if (body === undefined) return ''
  const [[type, { schema }] = ['', { schema: {} }]] = Object.entries(body.content)
  const optional = body.required ? '' : ', may be left out'
  const { $ref = '' } = schema as JsonSchema
  const named = shapes[$ref.split('/').at(-1) ?? '']
  return `<h4>Body <small>${escapeHtml(type)}${optional}</small></h4>${propertyTable(named ?? (schema as JsonSchema))}`
}

function responses({ responses }: OpenApiOperation): string {
  const own = Object.entries(responses).filter(([, response]) => !isReference(response))
  const errors = Object.entries(responses).filter(([, response]) => isReference(response))
  const answers = own.map(([status, response]) => {
    const { description, content = {} } = response as OpenApiResponse
    const schema = Object.values(content)[0]?.schema
    return `<dt>${status}</dt><dd>${prose(description)}${schema === undefined ? '' : `: ${shape(schema as JsonSchema)}`}</dd>`
  })
  const links = errors.map(([status]) => `<a href="#error-${status}">${status}</a>`)
  const refused = links.length === 0 ? '' : `<dt>else</dt><dd>${links.join(' ')}</dd>`
  return `<h4>Answers</h4><dl>${answers.join('')}${refused}</dl>`
}

/** A shape with a name is a link to it, a page of a list says of what; another is written out. */
function shape(schema: JsonSchema): string {
  const { properties, $ref } = schema
  if ($ref !== undefined || properties === undefined) return typeOf(schema)
  const items = properties.data?.items
  return items !== undefined && 'iterator' in properties ? `a page of ${typeOf(items)}` : propertyTable(schema)
}

function errorTable(all: Readonly<Record<string, OpenApiResponse>>): string {
  const rows = Object.entries(all).map(
    ([status, { description }]) => `<dt id="error-${status}">${status}</dt><dd>${prose(description)}</dd>`,
  )
  return `<dl>${rows.join('')}</dl>`
}

function isReference(response: unknown): boolean {
  return '$ref' in (response as object)
}

function badge(method: string): string {
  return `<b class="${method}">${method.toUpperCase()}</b>`
}

/** A long path may break after each of its steps. */
function breakable(path: string): string {
  return escapeHtml(path).replaceAll('/', '/<wbr>')
}

function anchor(text: string): string {
  return text.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')
}

interface Row {
  readonly name: string
  readonly required: boolean
  readonly schema: JsonSchema
}

/** The fields of an object, or what a schema is when it is no object. */
function propertyTable(schema: JsonSchema): string {
  const { properties, required = [] } = schema
  if (properties === undefined || Object.keys(properties).length === 0) {
    return `<p>${typeOf(schema)} ${prose(schema.description ?? '')}</p>`
  }
  return rowsTable(
    Object.entries(properties).map(([name, property]) => ({
      name,
      required: required.includes(name),
      schema: property,
    })),
  )
}

/** Names with their types, bounds and meanings. */
function rowsTable(rows: readonly Row[]): string {
  return `<table>${rows.map(row).join('')}</table>`
}

function row({ name, required, schema }: Row): string {
  const needed = required ? ' <span class="required" title="required">*</span>' : ''
  const more = [bounds(schema), prose(schema.description ?? ''), inner(schema)].filter((text) => text !== '')
  return `<tr><th scope="row"><code>${escapeHtml(name)}</code>${needed}</th><td>${typeOf(schema)}</td><td>${more.join(' ')}</td></tr>`
}

/** The type of a value in a word or two. */
export function typeOf(schema: JsonSchema): string {
  if (schema.$ref !== undefined) {
    const name = schema.$ref.split('/').at(-1) ?? ''
    return `<a href="#shape-${name}">${name}</a>`
  }
  if (schema.const !== undefined) return `<code>${escapeHtml(JSON.stringify(schema.const))}</code>`
  if (schema.enum !== undefined) {
    return schema.enum.map((value) => `<code>${escapeHtml(JSON.stringify(value))}</code>`).join(' | ')
  }
  if (schema.anyOf !== undefined) return schema.anyOf.map(typeOf).join(' or ')
  const types = [schema.type ?? 'any'].flat()
  return types
    .map((type) => (type === 'array' ? `list of ${typeOf(schema.items ?? {})}` : typeName(type, schema)))
    .join(' or ')
}

function typeName(type: string, schema: JsonSchema): string {
  const values = Object.values(schema.patternProperties ?? {})[0]
  if (type === 'object' && values !== undefined) return `map of ${typeOf(values)}`
  return type === 'string' && schema.format !== undefined ? escapeHtml(schema.format) : escapeHtml(type)
}

function bounds(schema: JsonSchema): string {
  const { minimum, maximum, minLength, maxLength, minItems, maxItems, pattern } = schema
  const parts = [
    range(minimum, maximum, ''),
    range(minLength, maxLength, ' characters'),
    range(minItems, maxItems, ' items'),
    pattern === undefined ? '' : `<code>${escapeHtml(pattern)}</code>`,
  ].filter((part) => part !== '')
  return parts.length === 0 ? '' : `<span class="bounds">${parts.join(', ')}</span>`
}

function range(low: number | undefined, high: number | undefined, unit: string): string {
  if (low === undefined && high === undefined) return ''
  if (high === undefined) return `at least ${low}${unit}`
  return low === undefined ? `at most ${withCommas(high)}${unit}` : `${low} to ${withCommas(high)}${unit}`
}

/** The fields of an object within an object. */
function inner(schema: JsonSchema): string {
  const objects = [schema, schema.items ?? {}, ...(schema.anyOf ?? [])].filter(
    ({ properties }) => properties !== undefined && Object.keys(properties).length > 0,
  )
  return objects.map((object) => `<details><summary>fields</summary>${propertyTable(object)}</details>`).join('')
}

/** A sentence with its `code` set as such. */
function prose(text: string): string {
  return escapeHtml(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>')
}

function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
