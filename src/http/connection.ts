import type { FastifyInstance, FastifyRequest } from 'fastify'

declare module 'fastify' {
  interface FastifyRequest {
    /**
     * The client's address, taken when its connection was accepted: the operating system forgets it as soon as the
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

/** Notes the address of every client when it connects, as `request.address`. */
export function rememberAddresses(app: FastifyInstance): void {
  const addresses = new WeakMap<object, string>()
  app.server.on('connection', (socket) => {
    if (socket.remoteAddress !== undefined) addresses.set(socket, socket.remoteAddress)
  })
  app.decorateRequest('address', {
    getter() {
      const { socket } = this.raw
      return addresses.get(socket) ?? socket.remoteAddress
    },
  })
}

/** Whether the client is gone, so that no answer can reach it. */
export function hasHungUp({ raw, address }: FastifyRequest): boolean {
  return raw.socket.destroyed || raw.socket.writableEnded || address === undefined
}
