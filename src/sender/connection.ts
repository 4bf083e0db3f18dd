import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { Client } from 'undici'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Connect, Connecting, Destination, Phase } from './connect.ts'

/** Scheme, host and port: what connections are shared by. */
export interface Origin extends Destination {
  /** Such as `https://example.com:8443`. */
  readonly key: string
}

const clientOptions = {
  allowH2: false,
  pipelining: 1,
  // The attempt's one deadline covers all of it. undici's own are idle timers, which a byte now and then keeps alive.
  headersTimeout: 0,
  bodyTimeout: 0,
  maxHeaderSize: 16 * 1024,
  // An open socket is not checked against the guard again, so no receiver may hold one idle for longer than a name is
  // believed.
  keepAliveMaxTimeout: 30_000,
} as const

/**
 * One undici client and the one socket it has at a time; it carries one attempt at a time. Keeping clients ourselves
 * instead of in undici's Pool is what makes three things exact: whether a socket was used before, that a second try gets a
 * new one, and that a deadline while connecting leaves no request behind that would be sent later.
 */
export class Connection {
  readonly client: Client
  readonly origin: Origin
  /** Whether the socket has carried no request yet. */
  fresh = true
  openedAt: SteadyMs = 0
  /** Called when the receiver sends more than one attempt takes in; without it, the connection is given up. */
  onFlood: (() => void) | undefined
  readonly #limitBytes: number
  readonly #onDisconnect: (connection: Connection) => void
  #connecting: Connecting | undefined
  #socket: Socket | undefined
  /** What the socket had read when the attempt that it carries began. */
  #readBefore = 0

  constructor(
    origin: Origin,
    connect: Connect,
    clock: Clock,
    limitBytes: number,
    onDisconnect: (connection: Connection) => void,
  ) {
    this.origin = origin
    this.#limitBytes = limitBytes
    this.#onDisconnect = onDisconnect
    this.client = new Client(origin.key, {
      ...clientOptions,
      connect: (_options, callback) => {
        this.fresh = true
        this.#connecting = connect(origin, (failure, socket) => {
          this.openedAt = clock.steady()
          if (socket) callback(null, this.#limited(socket))
          else callback(failure ?? new Error('no socket'), null)
        })
      },
    })
    this.client.on('disconnect', () => onDisconnect(this))
    // undici reports a handler that threw this way, and an unheard 'error' would end the process.
    const events: EventEmitter = this.client
    events.on('error', () => onDisconnect(this))
  }

  get phase(): Phase {
    return this.#connecting?.phase ?? 'resolving'
  }

  /** An attempt begins: the bytes that it takes in count from here. */
  begin(onFlood: () => void): void {
    this.onFlood = onFlood
    this.#readBefore = this.#socket?.bytesRead ?? 0
  }

  /**
   * Counts every byte at the socket. undici limits headers and Sluice limits bodies, but neither counts a reason phrase, a
   * chunk extension, a trailer or empty lines before the status: one attempt took in 5.4 GB of them. This listener runs
   * before undici's, so bytes beyond the limit are never parsed.
   */
  #limited(socket: Socket): Socket {
    this.#socket = socket
    this.#readBefore = 0
    socket.on('readable', () => {
      if (socket.bytesRead - this.#readBefore <= this.#limitBytes) return
      if (this.onFlood) this.onFlood()
      else this.#onDisconnect(this)
    })
    return socket
  }

  /** Ends it at once, whatever it is doing: no byte is written afterwards. */
  destroy(): Promise<void> {
    this.#connecting?.giveUp()
    return this.client.destroy()
  }
}
