import { AppError } from '../domain/app-error.ts'
import type { Message } from '../domain/delivery.ts'
import type { Application, Endpoint, SealedField } from '../domain/endpoint.ts'
import type { Schedule } from '../domain/schedule.ts'
import type { Store } from '../store/store.ts'

/** The application by id or uid; AppError `not_found` when there is none. */
export async function getApplication(store: Store, ref: string): Promise<Application> {
  return found(isRef(ref) ? await store.findApplication(ref) : undefined, 'application')
}

/** The application's endpoint by id or uid. One of another application is as unknown as any other. */
export async function getEndpoint(store: Store, app: string, ref: string): Promise<Endpoint> {
  const { key } = await getApplication(store, app)
  return requireEndpoint(store, key, ref)
}

/** The same, for an application that is known. */
export async function requireEndpoint(store: Store, app: number, ref: string): Promise<Endpoint> {
  return found(isRef(ref) ? await store.findEndpoint(app, ref) : undefined, 'endpoint')
}

/** Throws AppError `damaged_record` when the stored record of a sealed field does not open. */
export function refuseDamaged({ id, damaged }: Endpoint, field: SealedField): void {
  if (!damaged?.includes(field)) return
  const [what, remedy] =
    field === 'secrets' ? ['secret', 'rotate it to a new one'] : ['headers', 'replace them as a whole with PUT']
  throw new AppError(
    'damaged_record',
    `The stored ${what} of ${id} cannot be opened; ${remedy}, or delete the endpoint.`,
  )
}

/** The application's message by id or eventId. */
export async function getMessage(store: Store, app: string, ref: string): Promise<Message> {
  const { key } = await getApplication(store, app)
  return found(isRef(ref) ? await store.findMessage(key, ref) : undefined, 'message')
}

/** The application's schedule by id or uid. */
export async function getSchedule(
  store: Store,
  refs: { readonly app: string; readonly schedule: string },
): Promise<Schedule> {
  const { key } = await getApplication(store, refs.app)
  return found(isRef(refs.schedule) ? await store.findSchedule(key, refs.schedule) : undefined, 'schedule')
}

/** Whether a text can name anything. What cannot is not looked up: Postgres would refuse some of it as a parameter. */
export function isRef(text: string): boolean {
  return /^[a-zA-Z0-9\-_.]{1,256}$/.test(text)
}

function found<T>(thing: T | undefined, what: string): T {
  if (thing === undefined) throw new AppError('not_found', `There is no such ${what}.`)
  return thing
}
