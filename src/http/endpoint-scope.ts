import type { FieldError } from '../domain/app-error.ts'
import { managementApplication } from '../domain/endpoint.ts'
import type { Store } from '../store/store.ts'
import { getApplication } from './lookup.ts'
import type { EndpointPatch } from './schemas/endpoint.ts'

/** Where endpoints live. Those of operational webhooks are endpoints like any other, of an application of our own. */
export interface EndpointScope {
  /** The path of the list. */
  readonly path: string
  /** The key of the application they belong to; AppError `not_found` when there is none. */
  owner(params: unknown): Promise<number>
  /** What is wrong with what the endpoint subscribes to, beyond its syntax. */
  subscriptionProblems(input: EndpointPatch): Promise<FieldError[]>
}

/** The endpoints of an application, which may subscribe to what is known as an event type. */
export function applicationScope(store: Store): EndpointScope {
  return {
    path: '/app/:app/endpoint',
    owner: async (params) => (await getApplication(store, (params as { app: string }).app)).key,
    subscriptionProblems: async ({ eventTypes, filterTypes }) => [
      ...(await unknownProblems(store, 'eventTypes', eventTypes)),
      ...(await unknownProblems(store, 'filterTypes', filterTypes)),
    ],
  }
}

/** The endpoints of operational webhooks; what those send is no event type of the caller's. */
export const operationalScope: EndpointScope = {
  path: '/operational-webhook/endpoint',
  owner: async () => managementApplication,
  subscriptionProblems: async () => [],
}

async function unknownProblems(
  store: Store,
  field: string,
  patterns: readonly string[] | null | undefined,
): Promise<FieldError[]> {
  const names = (patterns ?? []).filter((pattern) => !pattern.endsWith('*'))
  if (names.length === 0) return []
  const unknown = new Set(await store.unknownEventTypes(names))
  return (patterns ?? []).flatMap((pattern, i) =>
    unknown.has(pattern) ? [{ at: ['body', field, i], message: 'is not an event type', type: 'event_type' }] : [],
  )
}
