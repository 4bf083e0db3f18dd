import type { Operation, Values } from './document.ts'
import { svixCalls } from './svix-calls.ts'

/** One way to send a request: its name and the code. */
export interface Snippet {
  readonly name: string
  readonly code: string
}

/** The request as code, in every way that can send it. */
export function snippetsOf(operation: Operation, values: Values, server: string): readonly Snippet[] {
  const request = { operation, values, server, target: targetOf(operation, values) }
  return [
    { name: 'curl', code: curl(request) },
    { name: 'fetch', code: fetchCall(request) },
    { name: 'Svix JS', code: svixJs(request) },
    { name: 'Svix Python', code: svixPython(request) },
    { name: 'Library', code: library(request) },
  ].flatMap(({ name, code }) => (code === undefined ? [] : [{ name, code }]))
}

interface Request {
  readonly operation: Operation
  readonly values: Values
  readonly server: string
  /** Path and query. */
  readonly target: string
}

/** The path of a request with its query. */
export function targetOf({ path }: Operation, values: Values): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(values.path[name] ?? ''))
  const query = new URLSearchParams(Object.entries(values.query).filter(([, value]) => value !== '')).toString()
  return filled + (query === '' ? '' : `?${query}`)
}

function needsKey({ security }: Operation): boolean {
  return security.length > 0
}

function curl({ operation, values: { body, contentType }, server, target }: Request): string {
  const { method } = operation
  const isPlain = method === 'GET' || (method === 'POST' && body !== undefined)
  const stream = 'text/event-stream' in (operation.responses['200']?.content ?? {}) ? '-N ' : ''
  return [
    `curl ${stream}${isPlain ? '' : `-X ${method} `}${shell(server + target)}`,
    ...(needsKey(operation) ? ['-H "Authorization: Bearer $SLUICE_API_KEY"'] : []),
    ...(body === undefined ? [] : [`-H ${shell(`Content-Type: ${contentType}`)}`, `--data-binary ${shell(body)}`]),
  ].join(' \\\n  ')
}

function shell(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}

function fetchCall({ operation, values: { body, contentType }, server, target }: Request): string {
  const headers = [
    // biome-ignore lint/suspicious/noTemplateCurlyInString: it is the code that is shown.
    ...(needsKey(operation) ? ['authorization: `Bearer ${process.env.SLUICE_API_KEY}`'] : []),
    ...(body === undefined ? [] : [`'content-type': ${text(contentType)}`]),
  ]
  const json = parsed(body, contentType)
  const options = [
    ...(operation.method === 'GET' ? [] : [`  method: ${text(operation.method)},`]),
    ...(headers.length === 0 ? [] : [`  headers: { ${headers.join(', ')} },`]),
    ...(body === undefined ? [] : [`  body: ${json === undefined ? text(body) : `JSON.stringify(${js(json, 1)})`},`]),
  ]
  const rest = options.length === 0 ? '' : `, {\n${options.join('\n')}\n}`
  return `const response = await fetch(${text(server + target)}${rest})\nif (!response.ok) throw new Error(await response.text())`
}

function svixJs({ operation, values, server }: Request): string | undefined {
  const known = svixCalls[`${operation.method} ${operation.path}`]
  const call = known && argumentsOf(operation, values, known.body !== undefined)
  if (known === undefined || call === undefined) return undefined
  const options = call.options.length === 0 ? [] : [js(Object.fromEntries(call.options), 0, true)]
  const body = call.body === undefined ? [] : [js(call.body, 0, true)]
  const args = [...call.names.map(text), ...body, ...options]
  return `import { Svix } from 'svix'\n\nconst svix = new Svix(process.env.SLUICE_API_KEY, { serverUrl: ${text(server)} })\nawait svix.${known.call}(${args.join(', ')})`
}

function svixPython({ operation, values, server }: Request): string | undefined {
  const known = svixCalls[`${operation.method} ${operation.path}`]
  const call = known && argumentsOf(operation, values, known.body !== undefined)
  if (known === undefined || call === undefined) return undefined
  const steps = known.call.split('.')
  const optionsClass = `${steps.map(capital).join('')}Options`
  const body = call.body === undefined ? [] : [model(known.body ?? '', Object.entries(call.body))]
  const options = call.options.length === 0 ? [] : [model(optionsClass, call.options)]
  const args = [...call.names.map((name) => JSON.stringify(name)), ...body, ...options].join(', ')
  const imports = ['Svix', 'SvixOptions', ...(options.length === 0 ? [] : [optionsClass])].join(', ')
  return [
    'import os',
    ...(args.includes('datetime.') ? ['from datetime import datetime'] : []),
    `from svix.api import ${imports}`,
    ...(body.length === 0 ? [] : [`from svix.models import ${known.body}`]),
    '',
    `svix = Svix(os.environ["SLUICE_API_KEY"], SvixOptions(server_url=${JSON.stringify(server)}))`,
    `svix.${steps.map(snake).join('.')}(${args})`,
  ].join('\n')
}

interface SvixArguments {
  readonly names: readonly string[]
  readonly body: Readonly<Record<string, unknown>> | undefined
  readonly options: readonly (readonly [string, unknown])[]
}

/** The arguments of an SDK's call: the names in the path, the body, and the query as options. Undefined for no object. */
function argumentsOf({ path, parameters }: Operation, values: Values, takesBody: boolean): SvixArguments | undefined {
  const body = takesBody ? parsed(values.body ?? '{}', values.contentType) : undefined
  if (takesBody && (typeof body !== 'object' || body === null)) return undefined
  const isNumber = (name: string) => {
    const type = parameters.find((each) => each.name === name)?.schema.type
    return type === 'integer' || type === 'boolean' || name === 'status'
  }
  return {
    names: [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => values.path[name] ?? ''),
    body: body as SvixArguments['body'],
    options: Object.entries(values.query)
      .filter(([, value]) => value !== '')
      .map(([name, value]) => [camel(name), isNumber(name) ? (parsed(value, 'application/json') ?? value) : value]),
  }
}

function library({ operation, values: { body, contentType }, target }: Request): string | undefined {
  const json = parsed(body, contentType)
  const isStream = 'text/event-stream' in (operation.responses['200']?.content ?? {})
  // The library has the operations below /api/v1: webhooks of others, and Svix's paths of sources, arrive over HTTP.
  const [, path] = /^\/api\/v1(\/.*)$/.exec(target) ?? []
  if (path === undefined || isStream || (body !== undefined && json === undefined)) return undefined
  const args = [text(operation.method), text(path), ...(json === undefined ? [] : [js(json)])]
  const takes = operation.responses['204'] === undefined ? 'const answer = ' : ''
  return `import { openSluice } from 'sluice'\n\nconst sluice = await openSluice({ store: 'sqlite:./sluice.db' })\n${takes}await sluice.request(${args.join(', ')})`
}

/** The value of a JSON body; undefined for any other. */
function parsed(body: string | undefined, contentType: string): unknown {
  if (body === undefined || contentType !== 'application/json') return undefined
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}

const isTime = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/

/** A value as JavaScript. With `dates`, times of the first level are dates, as the SDK takes them. */
function js(value: unknown, depth = 0, dates = false): string {
  if (typeof value === 'string') return dates && isTime.test(value) ? `new Date(${text(value)})` : text(value)
  if (typeof value !== 'object' || value === null) return String(value)
  const isList = Array.isArray(value)
  const items = isList
    ? value.map((item) => js(item, depth + 1))
    : Object.entries(value).map(([name, item]) => {
        const key = /^[A-Za-z_$][\w$]*$/.test(name) ? name : text(name)
        return `${key}: ${js(item, depth + 1, dates && depth === 0)}`
      })
  return enclosed(items, isList ? ['[', ']'] : ['{', '}'], depth)
}

function text(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'").replaceAll('\n', '\\n').replaceAll('\r', '\\r')}'`
}

/** On one line where there is room. */
function enclosed(items: readonly string[], [open, close]: readonly [string, string], depth: number): string {
  if (items.length === 0) return open + close
  const space = open === '{' ? ' ' : ''
  const line = `${open}${space}${items.join(', ')}${space}${close}`
  if (line.length < 64 && !line.includes('\n')) return line
  const indent = '  '.repeat(depth + 1)
  return `${open}\n${items.map((item) => `${indent}${item},\n`).join('')}${'  '.repeat(depth)}${close}`
}

/** A model of the Python SDK with its fields. */
function model(name: string, fields: readonly (readonly [string, unknown])[]): string {
  const items = fields.map(([field, value]) => `${snake(field)}=${python(value, true)}`)
  const line = `${name}(${items.join(', ')})`
  return line.length < 72 ? line : `${name}(\n${items.map((item) => `    ${item},\n`).join('')})`
}

function python(value: unknown, isField = false): string {
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  if (typeof value === 'string') {
    const quoted = JSON.stringify(value)
    return isField && isTime.test(value) ? `datetime.fromisoformat(${quoted})` : quoted
  }
  if (Array.isArray(value)) return `[${value.map((item) => python(item)).join(', ')}]`
  if (typeof value !== 'object') return String(value)
  return `{${Object.entries(value)
    .map(([name, item]) => `${JSON.stringify(name)}: ${python(item)}`)
    .join(', ')}}`
}

function camel(name: string): string {
  return name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase())
}

function snake(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1)
}
