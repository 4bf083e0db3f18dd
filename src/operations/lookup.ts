import { isPathStep } from '../domain/api.ts'
import { AppError, noSuch } from '../domain/app-error.ts'
import { decodeKey } from '../domain/ids.ts'
import { type Endpoint, managementApplication, type SealedField } from '../features/endpoints/rules.ts'
import { type NounName, type NounThings, nounNames, nouns } from '../features/nouns.ts'
import type { Source } from '../features/sources/noun.ts'
import type { Declaration } from '../noun/noun.ts'
import type { Store } from '../store/store.ts'
import type { Caller } from './access.ts'
import type { Route, Things } from './route.ts'

/** Things that were looked up for a request. */
export type FoundThings = { -readonly [Name in keyof Things]?: Things[Name] | undefined }

type Params = Readonly<Record<string, string>>

interface LookupKind {
  /** The noun in a 404. */
  readonly noun: string
  find(store: Store, name: string, found: FoundThings): Promise<Things[keyof Things] | undefined>
}

/** How each name in a path is looked up, by id or by the caller's own name. The application comes first in every path. */
const kinds: Readonly<Record<keyof Things, LookupKind>> = {
  ...(Object.fromEntries(nounNames.map((name) => [name, lookupOf(name)])) as Record<NounName, LookupKind>),
  app: { noun: 'application', find: (store, name) => store.findApplication(name) },
  // The endpoints of operational webhooks are in no application of the caller's.
  endpoint: {
    noun: 'endpoint',
    find: (store, name, { app, source }) => store.findEndpoint(app?.key ?? source?.app ?? managementApplication, name),
  },
  message: { noun: 'message', find: async (store, name, { app }) => app && store.findMessage(app.key, name) },
  attempt: {
    noun: 'attempt',
    find: async (store, name, { message }) => {
      const isId = decodeKey('atmpt', name) !== undefined
      return isId && message !== undefined ? store.findAttempt(message.key, name) : undefined
    },
  },
  // Svix's routes name no application.
  source: {
    noun: 'source',
    find: (store, name, { app }) => (app === undefined ? sourceAnywhere(store, name) : store.findSource(app.key, name)),
  },
  task: {
    noun: 'task',
    find: async (store, name, { app }) => {
      const task = await store.findTask(name)
      return app === undefined || task?.app === app.key ? task : undefined
    },
  },
  erasure: {
    noun: 'erasure',
    find: async (store, name, { app }) => {
      const task = await store.findTask(name)
      return task?.work.type === 'subject.erase' && task.app === app?.key ? task : undefined
    },
  },
}

/** The lookup of a noun by its method in the store: `findSchedule` for `schedule`. */
function lookupOf(name: NounName): LookupKind {
  const { name: noun, owner } = nouns[name] as Declaration
  const method = `find${name.charAt(0).toUpperCase()}${name.slice(1)}` as `find${Capitalize<NounName>}`
  type Find = (app: number | null, ref: string) => Promise<NounThings[NounName] | undefined>
  return {
    noun,
    find: async (store, ref, { app }) => {
      const key = owner === undefined ? null : app?.key
      return key === undefined ? undefined : (store[method] as Find)(key, ref)
    },
  }
}

/** The source with this id, or the only one with this uid. Throws AppError `conflict` when there are several. */
async function sourceAnywhere(store: Store, name: string): Promise<Source | undefined> {
  const key = decodeKey('src', name)
  const named = key === undefined ? undefined : await store.sourceAt(key)
  if (named?.id === name) return named
  const [first, second] = await store.sourcesNamed(name)
  if (second === undefined) return first
  throw new AppError('conflict', `Several applications have a source with the uid ${name}; name it by its id.`)
}

/**
 * Makes the lookup of a route: it adds the things that the path names to `found`. Throws AppError `not_found` for one
 * that does not exist, unless the route may create it. Undefined when the path names none.
 */
export function finderOf({ path, lookup = 'each' }: Route) {
  const names = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name).filter(isThing)
  if (lookup === 'none' || names.length === 0) return undefined
  const created = lookup === 'upsert' ? names.at(-1) : undefined
  return async (store: Store, found: FoundThings & { readonly params: Params }): Promise<void> => {
    for (const name of names) {
      const { noun, find } = kinds[name]
      const ref = found.params[name] ?? ''
      const thing = isRef(ref) ? await find(store, ref, found) : undefined
      if (thing === undefined && name !== created) throw noSuch(noun, ref)
      Object.assign(found, { [name]: thing })
    }
  }
}

function isThing(name: string): name is keyof Things {
  return Object.hasOwn(kinds, name)
}

/** Whether a text can name anything. Other texts are not looked up: Postgres would refuse some of them as a parameter. */
export function isRef(text: string): boolean {
  return /^[a-zA-Z0-9\-_.]{1,256}$/.test(text)
}

/** A name in a path as the uid of a new thing. Throws AppError `not_found` for one that cannot be a uid. */
export function newUid(noun: string, prefix: string, name: string): string {
  if (!isRef(name) || !isPathStep(name) || name.startsWith(`${prefix}_`)) throw noSuch(noun, name)
  return name
}

const damagedParts: Readonly<Record<SealedField, readonly [string, string]>> = {
  secrets: ['secret', 'rotate it to a new one'],
  headers: ['headers', 'replace them as a whole with PUT'],
  auth: ['credentials', 'set `auth` again'],
  clientCertificate: ['client certificate', 'set `clientCertificate` again'],
}

/** Throws AppError `damaged_record` when the stored record of a sealed field does not open. */
export function refuseDamaged({ id, damaged }: Endpoint, field: SealedField): void {
  if (!damaged?.includes(field)) return
  const [what, remedy] = damagedParts[field]
  throw new AppError(
    'damaged_record',
    `The stored ${what} of ${id} cannot be opened; ${remedy}, or delete the endpoint.`,
  )
}

/** The thing that a caller names in a query or a body; AppError `not_found` when there is none. */
export async function lookUp<T>(noun: string, ref: string, find: (ref: string) => Promise<T | undefined>): Promise<T> {
  return found(isRef(ref) ? await find(ref) : undefined, noun, ref)
}

/** The key of the application that a caller names, or is bound to; null for all. Another one's looks like an unknown one. */
export async function appKeyOf(store: Store, caller: Caller | null, ref: string | undefined): Promise<number | null> {
  const own = caller?.app ?? null
  if (own === null && ref === undefined) return null
  if (own !== null && ref !== undefined && ref !== own.id && ref !== own.uid) throw noSuch('application', ref)
  return (await lookUp('application', own?.id ?? (ref as string), store.findApplication)).key
}

/** The thing itself; AppError `not_found` when there is none, or none any more. */
export function found<T>(thing: T | undefined, noun: string, name: string): T {
  if (thing === undefined) throw noSuch(noun, name)
  return thing
}
