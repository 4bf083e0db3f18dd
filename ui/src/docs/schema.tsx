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
  const whole = resolve(schema, schemas)
  const limits = limitsOf({ ...whole, ...schema })
  const choices = choicesOf(schema, schemas)
  const description = schema.description ?? whole.description
  return (
    <div class="field-row">
      <dt>
        <code class="name">{name}</code>
        <span class="type">{typeOf(schema, schemas)}</span>
        {required && <span class="required">required</span>}
      </dt>
      <dd>
        {description !== undefined && (
          <p>
            <Prose text={description} />
          </p>
        )}
        {choices.length > 0 && (
          <p class="choices">
            {choices.map((choice) => (
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
        {typeOf(schema, schemas)}
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
  const { items, additionalProperties: values } = schema
  const near = [schema, ...(items === undefined ? [] : [items]), ...(typeof values === 'object' ? [values] : [])]
  const forms = [schema, ...formsOf(schema)].flatMap((each) => formsOf(resolve(each, schemas)))
  const lists = forms.flatMap((each) => (each.items === undefined ? [] : [each.items]))
  return [...new Set([...near, ...formsOf(schema), ...forms, ...lists])].filter(
    (each) => Object.keys(resolve(each, schemas).properties ?? {}).length > 0,
  )
}

/** The alternatives of a union, and of a value that may be null. */
function formsOf({ anyOf = [], oneOf = [] }: Schema): readonly Schema[] {
  return [...anyOf, ...oneOf]
}

/** The type of a value in a word or two. */
export function typeOf(schema: Schema, schemas: Schemas): string {
  if (schema.contentSchema !== undefined) return `lines of ${typeOf(schema.contentSchema, schemas)}`
  const { const: constant, enum: choices, type, properties } = resolve(schema, schemas)
  if (constant !== undefined) return JSON.stringify(constant)
  if (choices !== undefined) return 'one of'
  const forms = formsOf(resolve(schema, schemas))
  if (forms.length > 0) return [...new Set(forms.map((each) => typeOf(each, schemas)))].join(' or ')
  if (schema.$ref !== undefined && properties !== undefined) return nameOf(schema.$ref)
  return [type ?? 'any']
    .flat()
    .map((each) => typeName(each, resolve(schema, schemas), schemas))
    .join(' or ')
}

function typeName(type: string, schema: Schema, schemas: Schemas): string {
  const { items = {}, additionalProperties: values, format } = schema
  if (type === 'array') return `list of ${typeOf(items, schemas)}`
  if (type === 'object' && typeof values === 'object') return `map of ${typeOf(values, schemas)}`
  return type === 'string' && format !== undefined ? format : type
}

/** The words that a value is chosen from: its own, those of its items, or of its alternatives. */
function choicesOf(schema: Schema, schemas: Schemas): string[] {
  const { enum: choices = [], items } = resolve(schema, schemas)
  const own = [...choices, ...(items === undefined ? [] : (resolve(items, schemas).enum ?? []))]
  const ofForms = formsOf(resolve(schema, schemas)).flatMap((each) => resolve(each, schemas).enum ?? [])
  return [...own, ...ofForms].map((choice) => JSON.stringify(choice))
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
