import { isPathStep } from '../../domain/api.ts'
import { isSettable, unknownField } from './settable.ts'

/** A value of the file: as YAML and JSON have them. */
export type Value = string | number | boolean | null | readonly Value[] | { readonly [name: string]: Value }
export type Fields = Readonly<Record<string, Value>>

/** The kinds of things that a file describes, and the word that names each of them within its list. */
export const kinds = {
  eventTypes: { noun: 'event type', named: 'name', path: 'event-type' },
  applications: { noun: 'application', named: 'uid', path: 'app' },
  endpoints: { noun: 'endpoint', named: 'uid', path: 'endpoint' },
  sources: { noun: 'source', named: 'uid', path: 'source' },
  schedules: { noun: 'schedule', named: 'uid', path: 'schedule' },
} as const
export type Kind = keyof typeof kinds
/** The kinds that belong to an application. */
export const ownedKinds = ['endpoints', 'sources', 'schedules'] as const

/** A thing as the file wants it. */
export interface Wanted {
  readonly kind: Kind
  /** The application that it belongs to. */
  readonly app: string | undefined
  readonly name: string
  readonly fields: Fields
}

/** The things of a file, and the lists that it has: a list that is there, even an empty one, is complete. */
export interface WantedState {
  readonly things: readonly Wanted[]
  readonly complete: readonly { readonly kind: Kind; readonly app: string | undefined }[]
}

/** The file describes no state; the message names every place. */
export class WrongState extends Error {}

/**
 * Reads a document. `resolve` gives the value of `{env: NAME}` and `{file: PATH}`, which stand for a text anywhere; it throws
 * WrongState. Throws WrongState with all problems.
 */
export function readWanted(document: unknown, resolve: (reference: Fields) => string | undefined): WantedState {
  const reader = new Reader(resolve)
  reader.document(document)
  if (reader.problems.length > 0) throw new WrongState(reader.problems.join('\n'))
  return reader
}

class Reader implements WantedState {
  readonly things: Wanted[] = []
  readonly complete: { kind: Kind; app: string | undefined }[] = []
  readonly problems: string[] = []
  readonly #resolve: (reference: Fields) => string | undefined

  constructor(resolve: (reference: Fields) => string | undefined) {
    this.#resolve = resolve
  }

  document(document: unknown): void {
    if (!isFields(document)) {
      this.problems.push('The file must be an object with eventTypes and applications.')
      return
    }
    for (const name of Object.keys(document)) {
      if (name !== 'eventTypes' && name !== 'applications') {
        this.problems.push(`${name}: the file has eventTypes and applications alone.`)
      }
    }
    this.#list('eventTypes', document.eventTypes, undefined, 'eventTypes')
    this.#list('applications', document.applications, undefined, 'applications')
  }

  #list(kind: Kind, value: Value | undefined, app: string | undefined, at: string): void {
    if (value === undefined) return
    if (!Array.isArray(value)) {
      this.problems.push(`${at}: must be a list.`)
      return
    }
    this.complete.push({ kind, app })
    const { named } = kinds[kind]
    const seen = new Set<string>()
    for (const [i, item] of (value as readonly Value[]).entries()) {
      const place = `${at}[${i}]`
      const name = isFields(item) ? item[named] : undefined
      if (!isFields(item) || typeof name !== 'string' || name === '') {
        this.problems.push(`${place}: needs ${named === 'uid' ? 'a uid' : 'a name'}.`)
        continue
      }
      if (!isPathStep(name)) this.problems.push(`${place}: ${JSON.stringify(name)} names nothing in a URL.`)
      if (seen.has(name)) this.problems.push(`${place}: ${named} ${name} stands here twice.`)
      seen.add(name)
      this.#thing(kind, app, name, item, `${at}.${name}`)
    }
  }

  #thing(kind: Kind, app: string | undefined, name: string, item: Fields, at: string): void {
    const owned: readonly string[] = kind === 'applications' ? ownedKinds : []
    const own = Object.entries(item).filter(([field]) => !owned.includes(field))
    for (const [field] of own) {
      if (!isSettable(kind, field)) this.problems.push(`${at}.${field}: ${unknownField(kind, field)}`)
    }
    const fields = Object.fromEntries(own.map(([field, value]) => [field, this.#resolved(value, `${at}.${field}`)]))
    this.things.push({ kind, app, name, fields })
    for (const each of ownedKinds) if (owned.includes(each)) this.#list(each, item[each], name, `${at}.${each}`)
  }

  /** The value with the texts that its references stand for. */
  #resolved(value: Value, at: string): Value {
    if (Array.isArray(value)) return value.map((each, i) => this.#resolved(each, `${at}[${i}]`))
    if (!isFields(value)) return value
    try {
      const text = this.#resolve(value)
      if (text !== undefined) return text
    } catch (error) {
      if (!(error instanceof WrongState)) throw error
      this.problems.push(`${at}: ${error.message}`)
      return ''
    }
    return Object.fromEntries(
      Object.entries(value).map(([name, each]) => [name, this.#resolved(each, `${at}.${name}`)]),
    )
  }
}

export function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
