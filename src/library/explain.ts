import type { Static } from 'typebox'
import type { ApplicationWhyOut, EndpointWhyOut, WhyOut } from '../http/api/why.ts'
import type { Request } from '../http/in-process.ts'
import { part } from './manage.ts'

/** Where one delivery stands. */
export type DeliveryWhy = Static<typeof WhyOut>
/** What stands in the way of all that waits for an endpoint. */
export type EndpointWhy = Static<typeof EndpointWhyOut>
/** What an application's endpoints wait for: the first hundred of them that something waits for, the worst first. */
export type ApplicationWhy = Static<typeof ApplicationWhyOut>

/**
 * Tells why something is not delivered yet, and when it will next move: an application, one of its endpoints, or a message
 * on its way to one. Each is named by its id or its uid, a message by its id or eventId.
 */
export interface Explain {
  (app: string): Promise<ApplicationWhy>
  (app: string, endpoint: string): Promise<EndpointWhy>
  (app: string, endpoint: string, message: string): Promise<DeliveryWhy>
}

export function explain(request: Request): Explain {
  function told(app: string): Promise<ApplicationWhy>
  function told(app: string, endpoint: string): Promise<EndpointWhy>
  function told(app: string, endpoint: string, message: string): Promise<DeliveryWhy>
  function told(app: string, endpoint?: string, message?: string): Promise<unknown> {
    const at = `/app/${part(app)}`
    if (endpoint === undefined) return request('GET', `${at}/why?limit=100`)
    if (message === undefined) return request('GET', `${at}/endpoint/${part(endpoint)}/why`)
    return request('GET', `${at}/msg/${part(message)}/endpoint/${part(endpoint)}/why`)
  }
  return told
}
