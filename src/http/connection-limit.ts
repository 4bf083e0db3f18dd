import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import { networkOf } from '../wire/network.ts'

/** A connection of the newcomer's own network gives way only when it has been idle for this long. */
const restMs = 1000

/** The connections of one network: an IPv4 address or an IPv6 /64. */
interface Network {
  readonly name: string
  /** In the order in which they connected. */
  readonly places: Set<ConnectionSlot>
  /** Those without a request under way; the one that has been idle for longest is first. */
  readonly idle: Set<ConnectionSlot>
}

/** The place that a connection takes. */
export class ConnectionSlot {
  readonly socket: Socket
  readonly network: Network
  readonly #clock: Clock
  idleSince: SteadyMs

  constructor(socket: Socket, network: Network, clock: Clock) {
    this.socket = socket
    this.network = network
    this.#clock = clock
    this.idleSince = clock.steady()
    network.places.add(this)
    network.idle.add(this)
  }

  /** A request is under way. */
  setBusy(): void {
    this.network.idle.delete(this)
  }

  /** No request is under way any more. */
  setIdle(): void {
    if (!this.network.places.has(this)) return
    this.idleSince = this.#clock.steady()
    this.network.idle.add(this)
  }
}

/**
 * Bounds the connections of a server. When all places are taken, the network with most connections gives one up: the connection
 * that has been idle for longest, or else its newest. A newcomer of that network itself gets a place only if one of its
 * neighbours has been idle for a second. So clients of other networks always get in, and strangers who connect at once
 * compete with each other. A refused connection costs no parser, and is reset.
 */
export class ConnectionLimit {
  readonly #atMost: number
  readonly #clock: Clock
  readonly #onFull: () => void
  readonly #networks = new Map<string, Network>()
  /** The networks by the number of their connections. */
  readonly #bySize: Set<Network>[] = []
  readonly #places = new WeakMap<object, ConnectionSlot>()
  #count = 0

  constructor(server: Server, atMost: number, clock: Clock, onFull: () => void = () => {}) {
    this.#atMost = atMost
    this.#clock = clock
    this.#onFull = onFull
    // Node's own listener makes the parser.
    const [accept] = server.listeners('connection') as [(this: Server, socket: Socket) => void]
    server.removeListener('connection', accept)
    server.prependListener('connection', (socket: Socket) => {
      if (this.#admit(socket)) accept.call(server, socket)
    })
  }

  /** The place of a socket; undefined for one that got none. */
  of(socket: object): ConnectionSlot | undefined {
    return this.#places.get(socket)
  }

  #admit(socket: Socket): boolean {
    // The client has hung up already.
    const { remoteAddress } = socket
    if (remoteAddress === undefined) {
      socket.destroy()
      return false
    }
    const name = networkOf(remoteAddress)
    if (this.#count >= this.#atMost) {
      this.#onFull()
      if (!this.#makeRoom(name)) {
        socket.resetAndDestroy()
        return false
      }
    }
    const network = this.#networks.get(name) ?? { name, places: new Set(), idle: new Set() }
    this.#networks.set(name, network)
    const place = this.#resize(network, () => new ConnectionSlot(socket, network, this.#clock))
    this.#count++
    this.#places.set(socket, place)
    socket.once('close', () => this.#leave(place))
    return true
  }

  #makeRoom(newcomer: string): boolean {
    const own = this.#networks.get(newcomer)
    const [largest] = this.#bySize.at(-1) as Set<Network>
    const isOwn = own !== undefined && own.places.size === largest?.places.size
    const network = (isOwn ? own : largest) as Network
    const [idle] = network.idle
    const isRested = idle !== undefined && (!isOwn || this.#clock.steady() - idle.idleSince >= restMs)
    const victim = isRested ? idle : isOwn ? undefined : [...network.places].at(-1)
    if (victim === undefined) return false
    this.#leave(victim)
    victim.socket.destroy()
    return true
  }

  #leave(place: ConnectionSlot): void {
    const { network } = place
    if (!network.places.has(place)) return
    this.#resize(network, () => network.places.delete(place))
    network.idle.delete(place)
    this.#count--
    if (network.places.size === 0) this.#networks.delete(network.name)
  }

  /** Changes the size of a network, and keeps it among those of its size. */
  #resize<T>(network: Network, change: () => T): T {
    this.#bySize[network.places.size]?.delete(network)
    const answer = change()
    const { size } = network.places
    while (this.#bySize.length <= size) this.#bySize.push(new Set())
    if (size > 0) this.#bySize[size]?.add(network)
    while (this.#bySize.at(-1)?.size === 0) this.#bySize.pop()
    return answer
  }
}
