import { useId, useRef, useState } from 'preact/hooks'
import type { Declaration } from '../../../src/noun/noun.ts'
import { toApiError } from '../api/ask.ts'
import { Button } from './button.tsx'
import { capital, words } from './text.ts'

/** The part of JSON Schema that the API's bodies use. */
export interface FormSchema {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly anyOf?: readonly FormSchema[]
  readonly oneOf?: readonly FormSchema[]
  readonly discriminator?: unknown
  readonly items?: FormSchema
  readonly properties?: Readonly<Record<string, FormSchema>>
  readonly required?: readonly string[]
  readonly description?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly minItems?: number
  readonly maxItems?: number
  readonly maxProperties?: number
  readonly additionalProperties?: unknown
  readonly propertyNames?: unknown
  readonly format?: string
  readonly uniqueItems?: boolean
}

export type Values = Readonly<Record<string, unknown>>

interface FormProps {
  readonly schema: FormSchema
  /** The fields to show, by group. */
  readonly groups: readonly { readonly title?: string; readonly fields: readonly string[] }[]
  /** Values to begin with; only fields that differ from them are given to `onSave` when `changesOnly`. */
  readonly values?: Values
  readonly changesOnly?: boolean
  /** The field of the body that the values are for: problems of its parts are shown at the parts. */
  readonly within?: string
  /** Fields side by side, for many of them. */
  readonly layout?: 'grid'
  readonly action: string
  /** A danger cannot be undone. */
  readonly kind?: 'primary' | 'danger'
  onSave(values: Values): Promise<unknown>
  onCancel?(): void
}

/** The fields of a noun that its form shows: in their order, with the switches last. */
export function formFields({ fields }: Declaration): string[] {
  const isSwitch = (name: string) => fields[name]?.kind.is === 'boolean'
  const names = Object.keys(fields)
  return [...names.filter((name) => !isSwitch(name)), ...names.filter(isSwitch)]
}

/** A form whose fields, hints and checks follow from the schema of a request body. */
export function Form(props: FormProps) {
  const { schema, groups, values = {}, changesOnly, within, layout, action, kind = 'primary', onSave, onCancel } = props
  const [problems, setProblems] = useState<Readonly<Record<string, string>>>({})
  const [failure, setFailure] = useState('')
  const form = useRef<HTMLFormElement>(null)
  const required = new Set(schema.required)
  const named = groups.flatMap(({ fields }) => fields)

  async function save(event: Event): Promise<void> {
    event.preventDefault()
    if (form.current === null) return
    const next: Record<string, unknown> = {}
    const found: Record<string, string> = {}
    for (const name of named) {
      const field = schema.properties?.[name]
      if (field === undefined) continue
      const read = readField(form.current, name, field)
      if ('problem' in read) found[name] = read.problem
      else if (changesOnly ? !isSame(read.value, values[name]) : !isUnset(read.value)) next[name] = read.value
    }
    setProblems(found)
    setFailure('')
    if (Object.keys(found).length > 0) return
    try {
      await onSave(next)
    } catch (error) {
      const { fields, message } = toApiError(error)
      const partOf = (at: string) => (at.startsWith(`${within}.`) ? at.slice(`${within}.`.length) : at).split('.')[0]
      const own = Object.fromEntries(Object.entries(fields).map(([at, text]) => [partOf(at) ?? '', text]))
      setProblems(own)
      if (!Object.keys(own).some((name) => named.includes(name))) setFailure(message)
    }
  }

  return (
    <form ref={form} class={layout === 'grid' ? 'form settings' : 'form'} onSubmit={save}>
      <div class="body">
        {groups.map(({ title, fields }) => (
          <fieldset key={title ?? ''}>
            {title !== undefined && <legend>{title}</legend>}
            {fields.map((name) => {
              const field = schema.properties?.[name]
              if (field === undefined) return null
              return (
                <Field
                  key={name}
                  name={name}
                  schema={field}
                  value={values[name]}
                  isRequired={required.has(name)}
                  problem={problems[name]}
                />
              )
            })}
          </fieldset>
        ))}
        {failure !== '' && (
          <p class="problem" role="alert">
            {failure}
          </p>
        )}
      </div>
      <footer>
        {onCancel && <Button onPress={onCancel}>Cancel</Button>}
        <Button type="submit" kind={kind}>
          {action}
        </Button>
      </footer>
    </form>
  )
}

type Shape = 'toggle' | 'choice' | 'number' | 'list' | 'json' | 'long' | 'text'

/** The control that a schema asks for. Parts with parts of their own are edited as JSON. */
function shapeOf(schema: FormSchema): Shape {
  const types = [schema.type ?? []].flat()
  if (schema.enum !== undefined) return 'choice'
  if (types.includes('boolean')) return 'toggle'
  if (types.includes('integer') || types.includes('number')) return 'number'
  if (types.includes('array') && [schema.items?.type].flat().includes('string')) return 'list'
  if (schema.format === 'password') return 'text'
  if (types.includes('string')) return (schema.maxLength ?? 0) > 2000 ? 'long' : 'text'
  return 'json'
}

interface FieldProps {
  readonly name: string
  readonly schema: FormSchema
  readonly value?: unknown
  readonly isRequired?: boolean
  readonly problem?: string | undefined
  readonly label?: string
  onInput?(value: string): void
}

/** One field of a form, with its name, its control, its hint and its problem. */
export function Field({ name, schema, value, isRequired = false, problem, label, onInput }: FieldProps) {
  const id = useId()
  const shape = shapeOf(schema)
  const text = label ?? labelOf(name)
  const described = [schema.description && `${id}-hint`, problem && `${id}-problem`].filter(Boolean).join(' ')
  const common = {
    id,
    name,
    required: isRequired,
    'aria-describedby': described === '' ? undefined : described,
    'aria-invalid': problem !== undefined,
    onInput: onInput && ((event: { currentTarget: { value: string } }) => onInput(event.currentTarget.value)),
  }
  const below = (
    <>
      {problem && (
        <span class="problem" id={`${id}-problem`}>
          {problem}
        </span>
      )}
      {schema.description && (
        <span class="hint" id={`${id}-hint`}>
          {schema.description.replaceAll('`', '')}
        </span>
      )}
    </>
  )
  if (shape === 'toggle') {
    return (
      <div class="field toggle">
        <input {...common} type="checkbox" required={false} defaultChecked={value === true} />
        <label class="label" for={id}>
          {text}
        </label>
        {below}
      </div>
    )
  }
  return (
    <div class="field">
      <label class="label" for={id}>
        {text}
        {!isRequired && <span class="optional">optional</span>}
      </label>
      {shape === 'choice' ? (
        <select {...common} defaultValue={String(value ?? '')}>
          {!isRequired && <option value="">Default</option>}
          {schema.enum?.map((choice) => (
            <option key={String(choice)} value={String(choice)} selected={choice === value}>
              {String(choice)}
            </option>
          ))}
        </select>
      ) : shape === 'number' ? (
        <input
          {...common}
          type="number"
          step={[schema.type].flat().includes('integer') ? 1 : 'any'}
          min={schema.minimum}
          max={schema.maximum}
          defaultValue={value == null ? '' : String(value)}
        />
      ) : shape === 'list' ? (
        <textarea
          {...common}
          rows={2}
          placeholder="One per line"
          defaultValue={Array.isArray(value) ? value.join('\n') : ''}
        />
      ) : shape === 'json' ? (
        <textarea
          {...common}
          class="code"
          rows={value == null ? 2 : 5}
          spellcheck={false}
          placeholder="JSON"
          defaultValue={value == null ? '' : JSON.stringify(value, null, 2)}
        />
      ) : shape === 'long' ? (
        <textarea {...common} rows={2} maxLength={schema.maxLength} defaultValue={value == null ? '' : String(value)} />
      ) : (
        <input
          {...common}
          {...({ type: schema.format === 'password' ? 'password' : 'text' } as { type: 'text' })}
          inputMode={name === 'url' ? 'url' : 'text'}
          minLength={schema.minLength}
          maxLength={schema.maxLength}
          autocomplete="off"
          spellcheck={false}
          defaultValue={value == null ? '' : String(value)}
        />
      )}
      {below}
    </div>
  )
}

type Read = { readonly value: unknown } | { readonly problem: string }

function readField(form: HTMLFormElement, name: string, schema: FormSchema): Read {
  const control = form.elements.namedItem(name) as HTMLInputElement | null
  if (control === null) return { value: undefined }
  const shape = shapeOf(schema)
  if (shape === 'toggle') return { value: control.checked }
  const text = shape === 'long' ? control.value : control.value.trim()
  if (text === '') {
    const isNullable = [schema.type].flat().includes('null') || schema.anyOf?.some(({ type }) => type === 'null')
    return { value: isNullable ? null : shape === 'text' || shape === 'long' ? '' : undefined }
  }
  if (shape === 'number') return { value: Number(text) }
  if (shape === 'list')
    return {
      value: text
        .split(/[\n,]/)
        .map((item) => item.trim())
        .filter(Boolean),
    }
  if (shape === 'choice') return { value: schema.enum?.find((choice) => String(choice) === text) }
  if (shape !== 'json') {
    if (schema.pattern !== undefined && !new RegExp(schema.pattern, 'u').test(text)) {
      return { problem: `must match ${schema.pattern}` }
    }
    return { value: text }
  }
  try {
    return { value: JSON.parse(text) }
  } catch {
    return { problem: 'is not valid JSON' }
  }
}

function isUnset(value: unknown): boolean {
  return value === undefined || value === null || value === '' || value === false
}

function isSame(a: unknown, b: unknown): boolean {
  return (isUnset(a) && isUnset(b)) || JSON.stringify(a) === JSON.stringify(b)
}

/** Whether a field is a length of time in seconds. */
export function isSeconds(name: string): boolean {
  return name.endsWith('Seconds')
}

/** `timeoutMs` → `Timeout (ms)`. */
export function labelOf(name: string): string {
  const [, stem = name, unit] = /^(.*?)(Ms|Seconds)?$/.exec(name) ?? []
  const text = capital(words(stem)).replace(/\b(url|uid|id)\b/gi, (word) => word.toUpperCase())
  return unit === undefined ? text : `${text} (${unit === 'Ms' ? 'ms' : 's'})`
}
