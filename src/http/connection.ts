import type { IncomingHttpHeaders } from 'node:http'
import { isIP, isIPv6 } from 'node:net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { networkList } from '../wire/network.ts'

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

/** The length of a body; 0 without one, undefined when only its end shows. */
export function announcedBytes(headers: IncomingHttpHeaders): number | undefined {
  const length = headers['content-length']
  if (length !== undefined) return Number(length)
  return headers['transfer-encoding'] === undefined ? 0 : undefined
}

/** Whether the client is gone, so that no answer can reach it. */
export function hasHungUp({ raw, address }: FastifyRequest): boolean {
  return raw.socket.destroyed || raw.socket.writableEnded || address === undefined
}

/** Proxies in a row that are looked through. A longer list costs no more. */
const mostHops = 16

/**
 * Finds the address of a client behind proxies. Each proxy appends the address that it was called from to
 * `X-Forwarded-For`, so the list is read from its end, and only as far as trusted proxies wrote it: the last address that is
 * no trusted proxy is the client. Everything in front of it may be forged.
 */
export function clientAddresses(
  trustedProxies: readonly string[],
): (peer: string, forwardedFor: string | undefined) => string {
  if (trustedProxies.length === 0) return (peer) => peer
  const trusted = networkList(trustedProxies)
  const isTrusted = (address: string) => trusted.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')

  return (peer, forwardedFor = '') => {
    let address = plainAddress(peer) ?? peer
    let rest = forwardedFor
    for (let hops = 0; hops < mostHops && rest !== '' && isIP(address) !== 0 && isTrusted(address); hops++) {
      const comma = rest.lastIndexOf(',')
      const before = plainAddress(rest.slice(comma + 1).trim())
      // A proxy that does not know its caller, or writes something else, is the last address that is known.
      if (before === undefined) return address
      address = before
      rest = comma < 0 ? '' : rest.slice(0, comma)
    }
    return address
  }
}

/** An address in its shortest form, without a port and without the IPv6 form of IPv4; undefined for any other text. */
function plainAddress(text: string): string | undefined {
  const [, bracketed, dotted] = /^\[(.*)\](?::\d{1,5})?$|^([\d.]+):\d{1,5}$/.exec(text) ?? []
  const address = bracketed ?? dotted ?? text
  const family = isIP(address)
  if (family === 0 || address.includes('%')) return undefined
  if (family === 4) return address
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address)
  return mapped?.[1] ?? new URL(`http://[${address}]/`).hostname.slice(1, -1)
}
