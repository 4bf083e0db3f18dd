import type { EventEmitter } from 'node:events'
import type { Socket } from 'node:net'
import { Client } from 'undici'
import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Connect, Connecting, Opening, Origin, Phase } from './connect.ts'
import { InterimAnswers } from './interim.ts'
import { joinWrites } from './one-write.ts'

const maxIdlePerOrigin = 256
const maxIdle = 2048
/** A busy socket is closed at this age, so that deliveries follow a name that moved to another address. */
const maxAgeMs = 60_000

interface Group {
  /** The connection used last is at the end and is used next, so that connections beyond need fall idle and close. */
  readonly idle: Connection[]
  live: number
}

/**
 * All open connections, in groups by origin. There is no queue: the scheduler limits how many attempts run at once, so each
 * gets an idle connection or a new one. An origin without connections takes no memory.
 */
export class Pool {
  readonly #connect: Connect
  readonly #clock: Clock
  readonly #groups = new Map<string, Group>()
  readonly #live = new Set<Connection>()
  readonly #attemptLimitBytes: number
  readonly #retired = new WeakSet<Origin>()
  readonly #idle = new IdleOrder()

  /** `attemptLimitBytes` limits the bytes that one attempt reads from its socket. */
  constructor(connect: Connect, clock: Clock, attemptLimitBytes: number) {
    this.#connect = connect
    this.#clock = clock
    this.#attemptLimitBytes = attemptLimitBytes
  }

  get size(): { readonly connections: number; readonly origins: number } {
    return { connections: this.#live.size, origins: this.#groups.size }
  }

  /** An idle connection to the origin, or a new one. */
  take(origin: Origin): Connection {
    const connection = this.#groups.get(origin.key)?.idle.pop()
    if (connection === undefined) return this.takeNew(origin)
    this.#idle.remove(connection)
    return connection
  }

  /** A connection that has carried no request. */
  takeNew(origin: Origin): Connection {
    const connection = new Connection(origin, this.#connect, this.#clock, this.#attemptLimitBytes, (lost) =>
      this.#onDisconnect(lost),
    )
    this.#live.add(connection)
    const group = this.#groups.get(origin.key)
    if (group) group.live++
    else this.#groups.set(origin.key, { idle: [], live: 1 })
    return connection
  }

  /**
   * Takes back a connection whose attempt ended well. When too many are idle, the one that has been idle the longest goes: its
   * origin may have no more work, while that of the connection given back has just had some.
   */
  give(connection: Connection, now: SteadyMs): void {
    const group = this.#groups.get(connection.origin.key)
    if (
      group === undefined ||
      group.idle.length >= maxIdlePerOrigin ||
      now - connection.openedAt > maxAgeMs ||
      (connection.origin.identity !== undefined && this.#retired.has(connection.origin))
    ) {
      this.drop(connection)
      return
    }
    const oldest = this.#idle.size >= maxIdle ? this.#idle.oldest : undefined
    if (oldest) this.#onDisconnect(oldest)
    group.idle.push(connection)
    this.#idle.add(connection)
  }

  /** Closes a connection. */
  drop(connection: Connection): void {
    if (!this.#live.delete(connection)) return
    const key = connection.origin.key
    const group = this.#groups.get(key)
    if (group && --group.live === 0) this.#groups.delete(key)
    // Resolves when the socket is closed; it cannot reject.
    void connection.destroy()
  }

  /** Closes the idle connections of an origin now, and each of those in use when its attempt ends. */
  retire(origin: Origin): void {
    this.#retired.add(origin)
    const idle = this.#groups.get(origin.key)?.idle.splice(0) ?? []
    for (const connection of idle) {
      this.#idle.remove(connection)
      this.drop(connection)
    }
  }

  /** Closes every connection and waits until their sockets are closed. */
  async close(): Promise<void> {
    const connections = [...this.#live]
    this.#live.clear()
    this.#groups.clear()
    this.#idle.clear()
    await Promise.all(connections.map((connection) => connection.destroy()))
  }

  /** A receiver may close an idle connection at any time. undici reports the loss of a connection in use to its attempt. */
  #onDisconnect(connection: Connection): void {
    const idle = this.#groups.get(connection.origin.key)?.idle
    // Those that have been idle the longest are at the front, and go first.
    const at = idle?.indexOf(connection) ?? -1
    if (idle === undefined || at < 0) return
    idle.splice(at, 1)
    this.#idle.remove(connection)
    this.drop(connection)
  }
}

/** All idle connections, in the order in which they fell idle: a list that is linked through them. */
class IdleOrder {
  #oldest: Connection | undefined
  #newest: Connection | undefined
  #size = 0

  get size(): number {
    return this.#size
  }

  get oldest(): Connection | undefined {
    return this.#oldest
  }

  add(connection: Connection): void {
    connection.idleBefore = this.#newest
    connection.idleAfter = undefined
    if (this.#newest) this.#newest.idleAfter = connection
    else this.#oldest = connection
    this.#newest = connection
    this.#size++
  }

  remove(connection: Connection): void {
    const { idleBefore, idleAfter } = connection
    if (idleBefore) idleBefore.idleAfter = idleAfter
    else this.#oldest = idleAfter
    if (idleAfter) idleAfter.idleBefore = idleBefore
    else this.#newest = idleBefore
    connection.idleBefore = undefined
    connection.idleAfter = undefined
    this.#size--
  }

  clear(): void {
    this.#oldest = undefined
    this.#newest = undefined
    this.#size = 0
  }
}

const clientOptions = {
  allowH2: false,
  pipelining: 1,
  // The attempt's one deadline covers all of it. undici's own timeouts restart with every byte.
  headersTimeout: 0,
  bodyTimeout: 0,
  maxHeaderSize: 16 * 1024,
  // The guard checks a socket only when it is opened, so it may stay idle no longer than the addresses of a name are cached.
  keepAliveMaxTimeout: 30_000,
} as const

/**
 * One undici client and the one socket it has at a time; it carries one attempt at a time. Sluice pools clients itself,
 * because undici's Pool cannot tell whether a socket was used before, give a second try a new socket, or drop a request
 * whose deadline passed while connecting.
 */
export class Connection {
  readonly client: Client
  readonly origin: Origin
  /** Whether the socket has carried no request yet. */
  fresh = true
  openedAt: SteadyMs = 0
  /** Its neighbours among all idle connections, while it is one; see `IdleOrder`. */
  idleBefore: Connection | undefined
  idleAfter: Connection | undefined
  /** The first error of the socket. undici reports a TLS alert as a hang-up, because the receiver hangs up after it. */
  socketError: Error | undefined
  /** Called when the receiver sends more bytes than one attempt reads; without it, the connection is dropped. */
  onFlood: (() => void) | undefined
  readonly #limitBytes: number
  readonly #onDisconnect: (connection: Connection) => void
  #connecting: Connecting | undefined
  #socket: Socket | undefined
  /** The bytes that the socket had read when its current attempt began. */
  #readBefore = 0
  readonly #interim = new InterimAnswers()

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
    this.client = new Client(origin.url, {
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
    return this.#connecting?.opening.phase ?? 'resolving'
  }

  /** How the socket was opened, or how far that is; undefined before undici asks for one. */
  get opening(): Opening | undefined {
    return this.#connecting?.opening
  }

  /** An attempt begins: its bytes count from here. */
  begin(onFlood: () => void): void {
    this.onFlood = onFlood
    this.#readBefore = this.#socket?.bytesRead ?? 0
  }

  /** The request of the attempt is written next; bytes from then on are its answer. */
  leave(): void {
    this.fresh = false
    this.#interim.expect()
  }

  /**
   * Counts every byte at the socket. undici limits headers and Sluice limits bodies, but neither counts a reason phrase, a
   * chunk extension, a trailer or empty lines before the status: one attempt took in 5.4 GB of them. This listener runs
   * before undici's, so bytes beyond the limit are never parsed.
   */
  #limited(socket: Socket): Socket {
    this.#socket = socket
    joinWrites(socket)
    this.#readBefore = 0
    this.socketError = undefined
    socket.once('error', (error) => {
      this.socketError = error
    })
    const push = socket.push
    socket.push = (chunk, encoding) => {
      if (chunk !== null) this.#interim.pass(chunk)
      return push.call(socket, chunk, encoding)
    }
    socket.on('readable', () => {
      if (socket.bytesRead - this.#readBefore <= this.#limitBytes) return
      if (this.onFlood) this.onFlood()
      else this.#onDisconnect(this)
    })
    return socket
  }

  /** Closes the connection at once: no byte is written afterwards. */
  destroy(): Promise<void> {
    this.#connecting?.giveUp()
    return this.client.destroy()
  }
}
