import type { Clock } from '../domain/clock.ts'
import { fresh } from '../domain/delivery.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import type { NamedRows, RowName, Store } from '../store/store.ts'
import type { Bodies } from './bodies.ts'
import { Delivery } from './delivery.ts'
import type { Loop } from './loop.ts'
import type { OwnedLane } from './owned-lane.ts'

/** Rows that one call reads at most, with their messages: about a millisecond of the store's time. */
const rowsPerCall = 256

interface NamedRequest {
  readonly owned: OwnedLane
  readonly name: RowName
}

/**
 * Brings rows that another process has stored, and named, into the queues of lanes that have read all others. Read from the
 * front of the queue, each row would come as many times as others come before its end is recorded: 3 to 5 times in a stream of
 * 1,800 deliveries a second. The row is read although its name says all of it: it may have been read and sent before. The same
 * call brings its message.
 * While a call is under way, names gather for the next.
 */
export class NamedReader {
  readonly #deps: NamedReaderDeps
  #requests: NamedRequest[] = []
  #busy = false

  constructor(deps: NamedReaderDeps) {
    this.#deps = deps
  }

  /** Requests a row of a lane. False means that the lane has to read its queue. */
  request(owned: OwnedLane, name: RowName): boolean {
    const { clock } = this.#deps
    const answer = owned.awaitNamed(name.message, clock.steady())
    if (answer === 'in memory') return true
    if (answer === 'unread') return false
    this.#requests.push({ owned, name })
    if (!this.#busy) {
      this.#busy = true
      clock.soon(() => void this.#readAll())
    }
    return true
  }

  /** Never rejects. */
  async #readAll(): Promise<void> {
    while (this.#requests.length > 0) {
      const requests = this.#requests.slice(0, rowsPerCall)
      this.#requests = this.#requests.slice(rowsPerCall)
      await this.#read(requests)
    }
    this.#busy = false
  }

  async #read(requests: readonly NamedRequest[]): Promise<void> {
    const { store, clock, bodies, scheduler, loop, onTrouble } = this.#deps
    const wanted = new Set(requests.map(({ name }) => name.message))
    for (const message of wanted) if (bodies.get({ message, variant: null })) wanted.delete(message)
    const names = requests.map(({ name }) => ({ ...name, withMessage: wanted.delete(name.message) }))
    let rows: NamedRows['rows'] | undefined
    try {
      rows = (await bodies.bringAlong(() => store.readNamed(names))).rows
    } catch (error) {
      onTrouble(error)
    }
    const now = clock.steady()
    const lanes = new Map(requests.map(({ owned }) => [owned.endpoint.key, owned]))
    for (const row of rows ?? []) {
      const owned = lanes.get(row.endpoint)
      if (!owned?.isOwned) continue
      // Only a lane that was ordered holds rows back. Its queue is read as after any such change.
      if (owned.lane.order || row.retryInMs !== 0) owned.rowsAdded([fresh], now)
      else if (owned.rows.take(fresh, row)) scheduler.offer(owned.lane, fresh, new Delivery(owned, row, now), now)
    }
    for (const { owned } of requests) {
      owned.rows.endNamed(now)
      // Housekeeping has the queue read then.
      if (rows === undefined) owned.rowsAdded([fresh], now)
    }
    loop.turn()
  }
}

interface NamedReaderDeps {
  readonly store: Pick<Store, 'readNamed'>
  readonly clock: Clock
  readonly bodies: Bodies
  readonly scheduler: Scheduler<Delivery>
  readonly loop: Pick<Loop, 'turn'>
  onTrouble(error: unknown): void
}
