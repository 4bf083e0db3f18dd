import type { FastifyInstance, FastifyRequest } from 'fastify'
import { clientAddresses } from './client-address.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /**
     * The client's address, or the one that a trusted proxy names. It is taken when the connection was accepted: the operating system forgets it as soon as the
     * client resets. Undefined when the reset came first.
     */
    readonly address: string | undefined
  }
}

/** A request that ended because its client hung up. It is neither a fault of the server nor worth more than a debug line. */
export class HungUp extends Error {
  constructor() {
    super('The client hung up before the request was carried out.')
  }
}

/**
 * Notes the address of every client when it connects. `request.address` is that of the client, or of the client that a trusted
 * proxy names.
 */
export function rememberAddresses(app: FastifyInstance, trustedProxies: readonly string[]): void {
  const clientOf = clientAddresses(trustedProxies)
  const addresses = new WeakMap<object, string>()
  app.server.on('connection', (socket) => {
    if (socket.remoteAddress !== undefined) addresses.set(socket, socket.remoteAddress)
  })
  app.decorateRequest('address', {
    getter() {
      const { socket, headers } = this.raw
      const peer = addresses.get(socket) ?? socket.remoteAddress
      return peer === undefined ? undefined : clientOf(peer, headers['x-forwarded-for'] as string | undefined)
    },
  })
}

/** Whether the client is gone, so that no answer can reach it. */
export function hasHungUp({ raw, address }: FastifyRequest): boolean {
  return raw.socket.destroyed || raw.socket.writableEnded || address === undefined
}
