import type { JsonSchema } from '../operations/openapi/document.ts'

interface Row {
  readonly name: string
  readonly required: boolean
  readonly schema: JsonSchema
}

/** The fields of an object, or what a schema is when it is no object. */
export function propertyTable(schema: JsonSchema): string {
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
export function rowsTable(rows: readonly Row[]): string {
  return `<table>${rows.map(row).join('')}</table>`
}

function row({ name, required, schema }: Row): string {
  const needed = required ? ' <span class="required" title="required">*</span>' : ''
  const more = [bounds(schema), prose(schema.description ?? ''), inner(schema)].filter((text) => text !== '')
  return `<tr><th scope="row"><code>${escapeHtml(name)}</code>${needed}</th><td>${typeOf(schema)}</td><td>${more.join(' ')}</td></tr>`
}

/** What kind of value it is, in a word or two. */
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
  return low === undefined
    ? `at most ${high.toLocaleString('en')}${unit}`
    : `${low} to ${high.toLocaleString('en')}${unit}`
}

/** The fields of an object within an object. */
function inner(schema: JsonSchema): string {
  const objects = [schema, schema.items ?? {}, ...(schema.anyOf ?? [])].filter(
    ({ properties }) => properties !== undefined && Object.keys(properties).length > 0,
  )
  return objects.map((object) => `<details><summary>fields</summary>${propertyTable(object)}</details>`).join('')
}

/** A sentence with its `code` set as such. */
export function prose(text: string): string {
  return escapeHtml(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>')
}

export function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
