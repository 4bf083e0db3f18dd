import { useState } from 'preact/hooks'
import { exact } from '../parts/text.ts'
import { nameOf, type Reference, resolve, type Schema } from './document.ts'

type Schemas = Reference['schemas']

export function Method({ name }: { name: string }) {
  return (
    <span class="method" data-method={name}>
      {name === 'DELETE' ? 'DEL' : name}
    </span>
  )
}

/** A sentence whose `code` is set as code. */
export function Prose({ text }: { text: string }) {
  return <>{text.split('`').map((part, i) => (i % 2 === 1 ? <code key={i}>{part}</code> : part))}</>
}

export interface Field {
  readonly name: string
  /** Undefined in answers, where a caller need not know it. */
  readonly required: boolean | undefined
  readonly schema: Schema
}

/** Fields with their types, limits, defaults and meanings. The fields of a field open in its place. */
export function Fields({ fields, schemas }: { fields: readonly Field[]; schemas: Schemas }) {
  return (
    <dl class="fields">
      {fields.map((field) => (
        <FieldRow key={field.name} field={field} schemas={schemas} />
      ))}
    </dl>
  )
}

function FieldRow({ field: { name, required, schema }, schemas }: { field: Field; schemas: Schemas }) {
  const limits = limitsOf(schema)
  const description = schema.description ?? resolve(schema, schemas).description
  return (
    <div class="field-row">
      <dt>
        <code class="name">{name}</code>
        <span class="type">{typeOf(schema)}</span>
        {required && <span class="required">required</span>}
      </dt>
      <dd>
        {description !== undefined && (
          <p>
            <Prose text={description} />
          </p>
        )}
        {choicesOf(schema).length > 0 && (
          <p class="choices">
            {choicesOf(schema).map((choice) => (
              <code key={choice}>{choice}</code>
            ))}
          </p>
        )}
        {limits.length > 0 && <p class="limits">{limits.join(' · ')}</p>}
        {innerOf(schema, schemas).map((inner, i) => (
          <Nested key={i} name={name} schema={inner} schemas={schemas} isAnswer={required === undefined} />
        ))}
      </dd>
    </div>
  )
}

interface ShapeProps {
  readonly schema: Schema
  readonly schemas: Schemas
  readonly isAnswer: boolean
}

/** The fields of an object within an object. They are made when they are opened: a schema may contain itself. */
function Nested({ name, schema, schemas, isAnswer }: ShapeProps & { readonly name: string }) {
  const [isOpen, setOpen] = useState(false)
  const fields = fieldsOf(schema, schemas, isAnswer)
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {fields.length} {fields.length === 1 ? 'field' : 'fields'} of <code>{name}</code>
      </summary>
      {isOpen && <Fields fields={fields} schemas={schemas} />}
    </details>
  )
}

function fieldsOf(schema: Schema, schemas: Schemas, isAnswer: boolean): Field[] {
  const { properties = {}, required = [] } = resolve(schema, schemas)
  return Object.entries(properties).map(([name, property]) => ({
    name,
    required: isAnswer ? undefined : required.includes(name),
    schema: property,
  }))
}

/** A body or an answer: its fields; those of each item where it is a page of a list. */
export function Shape({ schema, schemas, isAnswer }: ShapeProps) {
  const whole = resolve(schema, schemas)
  const items = whole.properties?.data?.items
  if (items !== undefined && whole.properties?.iterator !== undefined) {
    return (
      <>
        <p class="hint">
          A page of a list: <code>data</code>, <code>iterator</code>, <code>prevIterator</code> and <code>done</code>.
          Each item of <code>data</code> has:
        </p>
        <Fields fields={fieldsOf(items, schemas, isAnswer)} schemas={schemas} />
      </>
    )
  }
  const fields = fieldsOf(schema, schemas, isAnswer)
  if (fields.length > 0) return <Fields fields={fields} schemas={schemas} />
  const inner = innerOf(schema, schemas)
  return (
    <>
      <p class="hint">
        {typeOf(schema)}
        {whole.description !== undefined && (
          <>
            : <Prose text={whole.description} />
          </>
        )}
      </p>
      {inner.map((each, i) => (
        <Nested
          key={i}
          name={each.$ref === undefined ? `form ${i + 1}` : nameOf(each.$ref)}
          schema={each}
          schemas={schemas}
          isAnswer={isAnswer}
        />
      ))}
    </>
  )
}

/** The objects within a schema: itself, its items, its alternatives, or the values of a map. */
function innerOf(schema: Schema, schemas: Schemas): Schema[] {
  const { items, anyOf = [], patternProperties = {} } = schema
  const near = [schema, ...(items === undefined ? [] : [items]), ...anyOf, ...Object.values(patternProperties)]
  const lists = anyOf.flatMap((each) => (each.items === undefined ? [] : [each.items]))
  return [...near, ...lists].filter((each) => Object.keys(resolve(each, schemas).properties ?? {}).length > 0)
}

/** The type of a value in a word or two. */
export function typeOf(schema: Schema): string {
  if (schema.$ref !== undefined) return nameOf(schema.$ref)
  if (schema.const !== undefined) return JSON.stringify(schema.const)
  if (schema.anyOf !== undefined) return [...new Set(schema.anyOf.map(typeOf))].join(' or ')
  if (schema.enum !== undefined) return 'one of'
  const types = [schema.type ?? 'any'].flat()
  return types.map((type) => typeName(type, schema)).join(' or ')
}

function typeName(type: string, schema: Schema): string {
  if (type === 'array') return `list of ${typeOf(schema.items ?? {})}`
  const [values] = Object.values(schema.patternProperties ?? {})
  if (type === 'object' && values !== undefined) return `map of ${typeOf(values)}`
  return type === 'string' && schema.format !== undefined ? schema.format : type
}

function choicesOf({ enum: choices = [], items }: Schema): string[] {
  return [...choices, ...(items?.enum ?? [])].map((choice) => JSON.stringify(choice))
}

function limitsOf(schema: Schema): string[] {
  const { minimum, maximum, minLength, maxLength, minItems, maxItems, pattern } = schema
  return [
    range(minimum, maximum, ''),
    range(minLength, maxLength, ' characters'),
    range(minItems, maxItems, ' items'),
    pattern === undefined ? '' : isTimePattern(pattern) ? 'a time such as 2026-11-16T09:00:00Z' : `matches ${pattern}`,
    schema.default === undefined ? '' : `default ${JSON.stringify(schema.default)}`,
  ].filter((part) => part !== '')
}

/** The pattern of a time is longer than anyone reads. */
function isTimePattern(pattern: string): boolean {
  return pattern.startsWith('^(\\d{4})-')
}

function range(low: number | undefined, high: number | undefined, unit: string): string {
  if (low === undefined && high === undefined) return ''
  if (high === undefined) return `at least ${low}${unit}`
  const most = exact(high)
  return low === undefined ? `at most ${most}${unit}` : `${exact(low)} to ${most}${unit}`
}
