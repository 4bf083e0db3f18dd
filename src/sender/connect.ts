import { X509Certificate } from 'node:crypto'
import { connect as connectTcp, isIP, type LookupFunction, type Socket } from 'node:net'
import type { SecureContext } from 'node:tls'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { ClientCertificate } from '../features/credentials/rules.ts'
import type { EgressProxy } from '../wire/egress-proxy.ts'
import { connectTls, createSecureContext, getCACertificates } from '../wire/network.ts'
import { ConnectFailure, connectFailure } from './classify.ts'
import type { Egress } from './egress.ts'
import { type AddressPolicy, isLocalhost, isWebPort } from './guard.ts'
import type { Resolve, Resolved } from './resolve.ts'
import { openTunnel, refusal as proxyRefusal } from './tunnel.ts'

/** Scheme, host, port and client certificate: attempts at the same origin share connections. */
export interface Origin {
  /** Such as `https://example.com:8443`, followed by the fingerprint of the client certificate. */
  readonly key: string
  /** The URL, such as `https://example.com:8443`. */
  readonly url: string
  /** An address, or a name without a trailing dot. */
  readonly host: string
  readonly port: number
  readonly secure: boolean
  /** The certificate that connections show to the receiver; none when it is absent. */
  readonly identity?: Identity
  /** The proxy through which connections leave; none when it is absent. */
  readonly proxy?: EgressProxy
}

/** A client certificate with its chain, and its key, both as PEM. */
type Identity = Pick<ClientCertificate, 'certificate' | 'key'>

/** How far a connection got. The outcome at its deadline depends on it. */
export type Phase = 'resolving' | 'connecting' | 'securing' | 'open'

/** A connection being made. After `giveUp`, no socket is left and `done` is not called. */
export interface Connecting {
  readonly opening: Opening
  giveUp(): void
}

/** The phases of opening one connection, and their times. */
export class Opening {
  readonly beganAt: SteadyMs
  #phase: Phase
  #enteredAt: SteadyMs
  #dnsMs: number | null = null
  #connectMs: number | null = null
  #tlsMs: number | null = null

  constructor(phase: Phase, now: SteadyMs) {
    this.#phase = phase
    this.beganAt = now
    this.#enteredAt = now
  }

  get phase(): Phase {
    return this.#phase
  }

  enter(phase: Phase, now: SteadyMs): void {
    this.#count(now)
    this.#phase = phase
  }

  /** The times of the phases; the time of an unfinished phase ends now. */
  split(now: SteadyMs): {
    readonly dnsMs: number | null
    readonly connectMs: number | null
    readonly tlsMs: number | null
  } {
    this.#count(now)
    return { dnsMs: this.#dnsMs, connectMs: this.#connectMs, tlsMs: this.#tlsMs }
  }

  #count(now: SteadyMs): void {
    const ms = now - this.#enteredAt
    this.#enteredAt = now
    if (this.#phase === 'resolving') this.#dnsMs = (this.#dnsMs ?? 0) + ms
    else if (this.#phase === 'connecting') this.#connectMs = (this.#connectMs ?? 0) + ms
    else if (this.#phase === 'securing') this.#tlsMs = (this.#tlsMs ?? 0) + ms
  }
}

/** Begins a connection; `done` is called at most once and never before this returns. */
export type Connect = (to: Origin, done: (failure: ConnectFailure | null, socket: Socket | null) => void) => Connecting

interface ConnectorDeps {
  readonly policy: AddressPolicy
  readonly resolve: Resolve
  readonly egress: Egress
  readonly extraCa: readonly string[]
  readonly clock: Clock
}

const tuning = { noDelay: true, keepAlive: true, keepAliveInitialDelay: 60_000 }
/** How the bytes of a TLS connection get to the receiver. */
type Way =
  | { readonly host: string; readonly port: number; readonly lookup: LookupFunction; readonly autoSelectFamily: true }
  | { readonly socket: Socket }

const maxSessions = 1000

/**
 * Makes connections that only ever reach permitted addresses. The guard sits here and nowhere above, because here the
 * address is known that is really connected to: a name is resolved, every address it has must be permitted, and exactly
 * those are tried, so a name cannot mean one thing when checked and another when used. A literal never passes through
 * lookup (Node does not ask for it), so it is checked by itself; and what the socket says it reached is checked again.
 */
export function createConnector({ policy, resolve, egress, extraCa, clock }: ConnectorDeps): Connect {
  // Made once: reading some 150 root certificates costs milliseconds, too much for each connection. With certificates of
  // the operator's own at once, so that a broken one shows at the start.
  let trust = extraCa.length > 0 ? createTrust(extraCa) : undefined
  const sessions = new Map<string, Buffer>()
  const contexts = new WeakMap<Identity, SecureContext>()

  /** Made at the first connection, in 0.4 ms, and kept as long as the target that has the identity. */
  const contextOf = (to: Origin, identity: Identity): SecureContext => {
    const known = contexts.get(identity)
    if (known !== undefined) return known
    try {
      const made = createTrust(extraCa, identity)
      contexts.set(identity, made)
      return made
    } catch (error) {
      const message = `The client certificate for ${to.host} cannot be used (${(error as Error).message}).`
      throw new ConnectFailure('client_certificate', message, error)
    }
  }

  /** A TLS connection to the receiver: over a new socket, or over one that a proxy has connected. */
  const secured = (to: Origin, over: Way): Socket => {
    trust ??= createTrust([])
    const secureContext = to.identity === undefined ? trust : contextOf(to, to.identity)
    const socket = connectTls({
      ...over,
      ...tuning,
      secureContext,
      ALPNProtocols: ['http/1.1'],
      // Said outright: the default can be switched off for the whole process by NODE_TLS_REJECT_UNAUTHORIZED.
      rejectUnauthorized: true,
      ...(isIP(to.host) === 0 && { servername: to.host }),
      ...(sessions.has(to.key) && { session: sessions.get(to.key) }),
    })
    // Node announces a session only after the certificate was accepted, so resuming one skips no check.
    socket.on('session', (session) => {
      sessions.delete(to.key)
      if (sessions.size >= maxSessions) sessions.delete(sessions.keys().next().value as string)
      sessions.set(to.key, session)
    })
    return socket
  }

  const openSocket = (to: Origin, lookup: LookupFunction): Socket => {
    const way = { host: to.host, port: to.port, lookup, autoSelectFamily: true } as const
    return to.secure ? secured(to, way) : connectTcp({ ...way, ...tuning })
  }

  /** A connection to the proxy itself. The operator named it, so no address of it is refused. */
  const openProxy = ({ kind, host, port }: EgressProxy, onOpen: () => void): Socket => {
    if (kind !== 'https') return connectTcp({ host, port, ...tuning }, onOpen)
    trust ??= createTrust([])
    const name = isIP(host) === 0 && { servername: host }
    return connectTls({ host, port, ...name, ...tuning, secureContext: trust, rejectUnauthorized: true }, onOpen)
  }

  /** The addresses that a proxy is asked for, one after another: all are permitted. A name where the proxy resolves names. */
  const destinationsOf = async ({ host, port }: Origin): Promise<readonly string[]> => {
    if (isIP(host) !== 0) {
      if (!policy.permits(host)) throw refusal(host, host)
      return [host]
    }
    if (egress.resolvedBy === 'proxy' && !isLocalhost(host)) return [host]
    const found = await addressesOf(host, port, policy, resolve)
    return [...found].sort((a, b) => a.family - b.family).map(({ address }) => address)
  }

  const connectThrough = (proxy: EgressProxy, to: Origin, done: Parameters<Connect>[1]): Connecting => {
    const opening = new Opening('resolving', clock.steady())
    let settled = false
    let socket: Socket | undefined
    const settle = (failure: ConnectFailure | null): void => {
      if (settled) return
      settled = true
      if (failure) socket?.destroy()
      done(failure, failure || socket === undefined ? null : socket)
    }
    const tryNext = (destinations: readonly string[]): void => {
      const [host = to.host, ...others] = destinations
      const toProxy = openProxy(proxy, () => {
        openTunnel(toProxy, proxy, { host, port: to.port }, (failure) => {
          if (settled) return
          if (failure === null) return finish(toProxy)
          if (failure.outcome === 'proxy_failed' || others.length === 0) return settle(failure)
          toProxy.destroy()
          tryNext(others)
        })
      })
      socket = toProxy
      // Stays for the socket's life, as below.
      toProxy.on('error', (error: NodeJS.ErrnoException) => {
        if (opening.phase === 'connecting' && socket === toProxy) {
          settle(proxyRefusal(proxy, error.code ?? error.message, error))
        }
      })
    }
    const finish = (toProxy: Socket): void => {
      if (!to.secure) {
        opening.enter('open', clock.steady())
        return settle(null)
      }
      opening.enter('securing', clock.steady())
      const secure = secured(to, { socket: toProxy })
      socket = secure
      secure.once('secureConnect', () => {
        opening.enter('open', clock.steady())
        settle(null)
      })
      secure.on('error', (error) => settle(connectFailure(to, opening.phase, error)))
    }
    const begin = async (): Promise<void> => {
      try {
        const destinations = await destinationsOf(to)
        if (settled) return
        opening.enter('connecting', clock.steady())
        tryNext(destinations)
      } catch (error) {
        if (!(error instanceof ConnectFailure)) throw error
        settle(error)
      }
    }
    void begin()
    return {
      opening,
      giveUp: () => {
        settled = true
        socket?.destroy()
      },
    }
  }

  return (to, done) => {
    if (to.proxy !== undefined) return connectThrough(to.proxy, to, done)
    let settled = false
    const literal = isIP(to.host) !== 0
    const opening = new Opening(literal ? 'connecting' : 'resolving', clock.steady())
    const refuse = (failure: ConnectFailure): Connecting => {
      queueMicrotask(() => settled || done(failure, null))
      return {
        opening,
        giveUp: () => {
          settled = true
        },
      }
    }
    if (literal && !policy.permits(to.host)) return refuse(refusal(to.host, to.host))

    let socket: Socket
    try {
      socket = openSocket(to, guardedLookup(to.port, policy, resolve))
    } catch (error) {
      if (!(error instanceof ConnectFailure)) throw error
      return refuse(error)
    }
    const settle = (failure: ConnectFailure | null) => {
      if (settled) return
      settled = true
      if (failure) socket.destroy()
      done(failure, failure ? null : socket)
    }
    const connecting: Connecting = {
      opening,
      giveUp: () => {
        settled = true
        socket.destroy()
      },
    }
    socket.once('lookup', (error) => {
      if (opening.phase === 'resolving' && !error) opening.enter('connecting', clock.steady())
    })
    socket.once('connect', () => {
      const reached = socket.remoteAddress ?? 'nowhere'
      if (!policy.permits(reached)) return settle(refusal(to.host, reached))
      opening.enter(to.secure ? 'securing' : 'open', clock.steady())
      if (!to.secure) settle(null)
    })
    if (to.secure) {
      socket.once('secureConnect', () => {
        opening.enter('open', clock.steady())
        settle(null)
      })
    }
    // Stays for the socket's life: an error after we have let go of it must not bring the process down.
    socket.on('error', (error) => settle(connectFailure(to, opening.phase, error)))
    return connecting
  }
}

function createTrust(extraCa: readonly string[], identity?: Identity): SecureContext {
  // OpenSSL passes over what it cannot read without a word; this throws.
  for (const pem of extraCa) new X509Certificate(pem)
  const ca = extraCa.length > 0 && { ca: [...getCACertificates('default'), ...extraCa] }
  const own = identity && { cert: identity.certificate, key: identity.key }
  return createSecureContext({ minVersion: 'TLSv1.2', ...ca, ...own })
}

function guardedLookup(port: number, policy: AddressPolicy, resolve: Resolve): LookupFunction {
  return async (name, options, answer) => {
    let found: readonly Resolved[]
    try {
      found = await addressesOf(name, port, policy, resolve)
    } catch (failure) {
      return answer(failure as Error, '')
    }
    const [first] = found
    if (options.all) answer(null, [...found])
    else answer(null, first?.address ?? '', first?.family)
  }
}

/** All addresses of a name, every one of them permitted. A forbidden address refuses the name: a mixed set is an attack. */
async function addressesOf(
  name: string,
  port: number,
  policy: AddressPolicy,
  resolve: Resolve,
): Promise<readonly Resolved[]> {
  if (isLocalhost(name)) {
    // No server is asked. The operator may have allowed only one of the two.
    const found = loopback.filter(({ address }) => policy.permits(address))
    if (found.length === 0) throw refusal(name, '127.0.0.1')
    return found
  }
  const found = await resolve(name).catch((error) => {
    if (error instanceof ConnectFailure) throw error
    throw new ConnectFailure('dns_failed', `The addresses of ${name} could not be looked up.`, error)
  })
  for (const { address } of found) {
    if (!policy.permits(address)) throw refusal(name, address)
    if (!isWebPort(port) && !policy.inAllowedNetwork(address)) {
      throw new ConnectFailure('blocked', `Port ${port} of ${name} is not one that deliveries may go to.`)
    }
  }
  if (found.length === 0) throw new ConnectFailure('dns_not_found', `The host name ${name} has no address.`)
  return found
}

const loopback: readonly Resolved[] = [
  { address: '127.0.0.1', family: 4, ttlSeconds: 0 },
  { address: '::1', family: 6, ttlSeconds: 0 },
]

function refusal(host: string, address: string): ConnectFailure {
  const what = host === address ? host : `${host} (${address})`
  return new ConnectFailure('blocked', `${what} is not a public address, and allowNetworks does not permit it.`)
}
