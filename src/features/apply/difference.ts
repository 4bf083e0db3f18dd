import { isSame } from '../../domain/field.ts'
import { type Fields, isFields, type Kind, kinds, type Value, type Wanted, type WantedState } from './wanted.ts'

/** One step that brings the server to the state of the file. */
export interface Step {
  readonly kind: Kind
  readonly app: string | undefined
  readonly name: string
  readonly action: 'create' | 'change' | 'delete'
  /** The fields that a request sends; none to delete. */
  readonly fields: Fields
  /** The values of changed fields before. */
  readonly before: Fields
}

/** A thing as the server lists it. */
export type Present = Fields

/** Fields that answers hide: they are written with a new thing, and again only when that is asked for. */
export const hiddenFields: readonly string[] = ['secret', 'headers', 'auth', 'clientCertificate', 'settings', 'token']

export interface DifferenceOptions {
  /** Whether things that complete lists do not have are deleted. */
  readonly prune: boolean
  /** Whether hidden fields of things that are there are written again. */
  readonly secrets: boolean
}

/**
 * The steps from what is present to what is wanted, in an order that works: event types, applications, their things; deletions
 * last. A field that the file does not name stays as it is.
 */
export function difference(
  wanted: WantedState,
  presentOf: (kind: Kind, app: string | undefined) => ReadonlyMap<string, Present>,
  { prune, secrets }: DifferenceOptions,
): Step[] {
  const steps = wanted.things.flatMap((thing) =>
    stepOf(thing, presentOf(thing.kind, thing.app).get(thing.name), secrets),
  )
  if (!prune) return steps
  const names = new Set(wanted.things.map((thing) => keyOf(thing)))
  const surplus = wanted.complete.flatMap(({ kind, app }) =>
    [...presentOf(kind, app).keys()]
      .filter((name) => !names.has(keyOf({ kind, app, name })))
      .map((name): Step => ({ kind, app, name, action: 'delete', fields: {}, before: {} })),
  )
  return [...steps, ...surplus.reverse()]
}

function keyOf({ kind, app, name }: Pick<Wanted, 'kind' | 'app' | 'name'>): string {
  return JSON.stringify([kind, app, name])
}

function stepOf({ kind, app, name, fields }: Wanted, present: Present | undefined, secrets: boolean): Step[] {
  if (present === undefined) return [{ kind, app, name, action: 'create', fields, before: {} }]
  const differs = ([field, value]: [string, Value]): boolean => {
    if (field === kinds[kind].named) return false
    if (hiddenFields.includes(field) && !(field in present)) return secrets
    return !covers(present[field] ?? null, value)
  }
  const changed = Object.fromEntries(Object.entries(fields).filter(differs))
  if (Object.keys(changed).length === 0) return []
  const before = Object.fromEntries(Object.keys(changed).map((field) => [field, present[field] ?? null]))
  return [{ kind, app, name, action: 'change', fields: changed, before }]
}

/** Whether a value has what is wanted. An object may have more: defaults that the server filled in. */
function covers(present: Value, wanted: Value): boolean {
  if (isFields(wanted) && isFields(present)) {
    return Object.entries(wanted).every(([name, value]) => covers(present[name] ?? null, value))
  }
  return isSame(present, wanted)
}

const signs = { create: '+', change: '~', delete: '-' } as const

/** A step as lines for a person: its thing, then each field. Values of hidden fields are never shown. */
export function stepLines({ kind, app, name, action, fields, before }: Step): string[] {
  const owner = app === undefined ? '' : ` of ${app}`
  const shown = (field: string, value: Value): string => (hiddenFields.includes(field) ? '(hidden)' : shortened(value))
  const lines = Object.entries(fields)
    .filter(([field]) => field !== kinds[kind].named)
    .map(([field, value]) => {
      const now = shown(field, value)
      return `    ${field}: ${action === 'change' ? `${shown(field, before[field] ?? null)} → ${now}` : now}`
    })
  return [`${signs[action]} ${kinds[kind].noun} ${name}${owner}`, ...lines]
}

function shortened(value: Value): string {
  const text = JSON.stringify(value)
  return text.length > 100 ? `${text.slice(0, 99)}…` : text
}
