import type { FastifyRequest } from 'fastify'

/**
 * The client that a request counts for. A key or token of one application is one client wherever it is used; any other key
 * may be in use by several machines, of which each is one.
 */
export function clientOf({ caller, address = '' }: FastifyRequest): string {
  if (caller == null) return address
  return caller.app === null ? `${caller.id} ${address}` : caller.id
}
