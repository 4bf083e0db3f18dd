import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Connect } from './connect.ts'
import { Connection, type Origin } from './connection.ts'

const maxIdlePerOrigin = 256
const maxIdle = 2048
/** A busy socket would otherwise stay with an address for as long as it is busy, long after its name has moved. */
const maxAgeMs = 60_000

interface Group {
  /** The one used last is at the end and is used next, so that what is not needed falls silent and closes. */
  readonly idle: Connection[]
  live: number
}

/**
 * All open connections, in groups by origin. There is no queue: how many attempts run at once is decided before they get
 * here, so each gets an idle connection or a new one. An origin without connections takes no memory.
 */
export class Pool {
  readonly #connect: Connect
  readonly #clock: Clock
  readonly #groups = new Map<string, Group>()
  readonly #live = new Set<Connection>()
  readonly #attemptLimitBytes: number
  #idleCount = 0

  /** `attemptLimitBytes` is all that one attempt takes in from its socket. */
  constructor(connect: Connect, clock: Clock, attemptLimitBytes: number) {
    this.#connect = connect
    this.#clock = clock
    this.#attemptLimitBytes = attemptLimitBytes
  }

  /** How many connections there are, and how many origins they lead to. */
  get size(): { readonly connections: number; readonly origins: number } {
    return { connections: this.#live.size, origins: this.#groups.size }
  }

  /** An idle connection to the origin, or a new one. */
  take(origin: Origin): Connection {
    const connection = this.#groups.get(origin.key)?.idle.pop()
    if (connection === undefined) return this.takeNew(origin)
    this.#idleCount--
    return connection
  }

  /** A connection that nothing was ever sent on. */
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

  /** Takes back a connection whose attempt ended well. */
  give(connection: Connection, now: SteadyMs): void {
    const group = this.#groups.get(connection.origin.key)
    if (
      group === undefined ||
      group.idle.length >= maxIdlePerOrigin ||
      this.#idleCount >= maxIdle ||
      now - connection.openedAt > maxAgeMs
    ) {
      this.drop(connection)
      return
    }
    group.idle.push(connection)
    this.#idleCount++
  }

  /** Ends a connection that can serve no more. */
  drop(connection: Connection): void {
    if (!this.#live.delete(connection)) return
    const key = connection.origin.key
    const group = this.#groups.get(key)
    if (group && --group.live === 0) this.#groups.delete(key)
    // Resolves when the socket is closed, which nobody waits for; it cannot reject.
    void connection.destroy()
  }

  /** Ends every connection and waits until their sockets are closed. */
  async close(): Promise<void> {
    const connections = [...this.#live]
    this.#live.clear()
    this.#groups.clear()
    this.#idleCount = 0
    await Promise.all(connections.map((connection) => connection.destroy()))
  }

  /** A receiver may close an idle connection at any time. One in use is told by undici itself. */
  #onDisconnect(connection: Connection): void {
    const idle = this.#groups.get(connection.origin.key)?.idle
    const at = idle?.lastIndexOf(connection) ?? -1
    if (idle === undefined || at < 0) return
    idle.splice(at, 1)
    this.#idleCount--
    this.drop(connection)
  }
}
