import type { SteadyMs } from './clock.ts'
import { type Class, replay } from './delivery.ts'
import type { Flow } from './flow.ts'
import { invariant, present } from './invariant.ts'

/** A first-in-first-out queue with both ends cheap: an array that forgets its front in bulk. */
export class Queue<T> {
  #items: (T | undefined)[] = []
  #front = 0

  get size(): number {
    return this.#items.length - this.#front
  }

  push(item: T): void {
    this.#items.push(item)
  }

  /** Puts an item back at the front. */
  unshift(item: T): void {
    if (this.#front > 0) this.#items[--this.#front] = item
    else this.#items.unshift(item)
  }

  shift(): T | undefined {
    if (this.#front === this.#items.length) return undefined
    const item = this.#items[this.#front]
    this.#items[this.#front++] = undefined
    // An empty queue keeps no memory: most lanes get a message now and then.
    if (this.#front === this.#items.length) {
      this.#items.length = 0
      this.#front = 0
    }
    // Half of the array is spent: moving the rest costs less than it has already saved.
    if (this.#front > 32 && this.#front * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#front)
      this.#front = 0
    }
    return item
  }

  clear(): T[] {
    const rest = this.#items.slice(this.#front) as T[]
    this.#items = []
    this.#front = 0
    return rest
  }
}

/** A binary min-heap of items by a number given when they are put in. Equal numbers come out in no particular order. */
export class Heap<T> {
  readonly #at: number[] = []
  readonly #items: T[] = []

  get size(): number {
    return this.#items.length
  }

  /** The smallest number, or undefined when the heap is empty. */
  peek(): number | undefined {
    return this.#at[0]
  }

  push(at: number, item: T): void {
    let i = this.#items.length
    while (i > 0) {
      const parent = (i - 1) >> 1
      if ((this.#at[parent] as number) <= at) break
      this.#at[i] = this.#at[parent] as number
      this.#items[i] = this.#items[parent] as T
      i = parent
    }
    this.#at[i] = at
    this.#items[i] = item
  }

  /** Takes out the item with the smallest number, if that is at most `limit`. */
  popUntil(limit: number): T | undefined {
    const first = this.#at[0]
    if (first === undefined || first > limit) return undefined
    const item = this.#items[0] as T
    const at = this.#at.pop() as number
    const last = this.#items.pop() as T
    const size = this.#items.length
    if (size > 0) this.#sink(at, last, size)
    return item
  }

  #sink(at: number, item: T, size: number): void {
    let i = 0
    for (;;) {
      let child = 2 * i + 1
      if (child >= size) break
      if (child + 1 < size && (this.#at[child + 1] as number) < (this.#at[child] as number)) child++
      if ((this.#at[child] as number) >= at) break
      this.#at[i] = this.#at[child] as number
      this.#items[i] = this.#items[child] as T
      i = child
    }
    this.#at[i] = at
    this.#items[i] = item
  }
}

/** How an ordered lane orders its deliveries. */
export type Ordering = Exclude<Flow['order'], 'none'>

/** The place of a delivery in its lane: by the instant at which it was due, then by its message. */
export interface QueuePosition {
  readonly class: Class
  readonly dueAt: number
  readonly message: number
  /** Deliveries with the same key go one after the other; null for a delivery without order. */
  readonly orderKey: number | null
}

/** A delivery in an ordered queue. Only the queue changes it. */
export interface Entry<T> extends QueuePosition {
  readonly item: T
  /** The delivery does not start before this instant; `Infinity` while it waits for an operator. */
  waitsUntil: SteadyMs
  state: 'waiting' | 'under way' | 'gone'
  readonly keyQueue: KeyQueue<T>
}

/** All deliveries with one key. */
interface KeyQueue<T> {
  readonly key: number | null
  /** Waiting deliveries, by their places. The first blocks the others. */
  readonly waiting: Entry<T>[]
  /** Replays, which go after all others. They have lost their places, so they block nothing. */
  readonly replays: Entry<T>[]
  underWay: Entry<T> | undefined
  /** Whether it counts among the keys of which a delivery may start. */
  startable: boolean
}

/**
 * The deliveries of an ordered lane. Deliveries with the same key are in one key queue. Only the first of a key queue may
 * start, when no other of it is under way; a first-in-first-out lane has a single key queue. A delivery that waits for its
 * retry stays at the front. Pure: it holds no clock.
 */
export class OrderedQueue<T> {
  readonly ordering: Ordering
  readonly #keyQueues = new Map<number, KeyQueue<T>>()
  /** Deliveries without a key, each in a key queue of its own. */
  readonly #keyless = new Set<Entry<T>>()
  /** Startable by due time, waiting by the end of the wait. All three may contain stale entries. */
  readonly #ready = new Heap<Entry<T>>()
  readonly #readyReplays = new Heap<Entry<T>>()
  readonly #delayed = new Heap<Entry<T>>()
  readonly #known: [number, number, number] = [0, 0, 0]
  #waiting = 0
  #startable = 0

  constructor(ordering: Ordering) {
    this.ordering = ordering
  }

  /** The number of waiting deliveries. */
  get size(): number {
    return this.#waiting
  }

  /** The number of keys of which a delivery may start. */
  get startable(): number {
    return this.#startable
  }

  /** The number of deliveries of a class that wait or are under way. */
  known(itsClass: Class): number {
    return this.#known[itsClass]
  }

  add(item: T, place: QueuePosition, waitsUntil: SteadyMs, now: SteadyMs): Entry<T> {
    const keyQueue = this.#keyQueueOf(this.ordering === 'fifo' ? 0 : place.orderKey)
    const { class: itsClass, dueAt, message, orderKey } = place
    const entry: Entry<T> = { class: itsClass, dueAt, message, orderKey, item, waitsUntil, state: 'waiting', keyQueue }
    this.#known[itsClass]++
    if (keyQueue.key === null) this.#keyless.add(entry)
    this.#insert(entry)
    // A delivery behind others changes nothing.
    if (nextOf(keyQueue, now) === entry) this.#surface(keyQueue, now)
    return entry
  }

  /** When a delivery may start: `now`, the end of a wait, or `Infinity`. */
  nextAt(now: SteadyMs): SteadyMs {
    this.#wake(now)
    if (this.#first(this.#ready, now) ?? this.#first(this.#readyReplays, now)) return now
    return this.#delayed.peek() ?? Number.POSITIVE_INFINITY
  }

  /** Takes the delivery that starts next: the longest due first, replays last. Its key waits until it ends or is put back. */
  take(now: SteadyMs): Entry<T> | undefined {
    this.#wake(now)
    const entry = this.#first(this.#ready, now) ?? this.#first(this.#readyReplays, now)
    if (entry === undefined) return undefined
    this.#withdraw(entry)
    invariant(entry.keyQueue.underWay === undefined, 'one delivery of a key is under way at a time')
    entry.state = 'under way'
    entry.keyQueue.underWay = entry
    this.#surface(entry.keyQueue, now)
    return entry
  }

  /** Puts a delivery back at its place, to start no sooner than said. */
  putBack(entry: Entry<T>, waitsUntil: SteadyMs, now: SteadyMs): void {
    if (entry.state !== 'under way') return
    entry.keyQueue.underWay = undefined
    entry.state = 'waiting'
    entry.waitsUntil = waitsUntil
    this.#insert(entry)
    this.#surface(entry.keyQueue, now)
  }

  /** The delivery has ended, or its row is gone: the next of its key may start. */
  end(entry: Entry<T>, now: SteadyMs): void {
    if (entry.state === 'gone') return
    if (entry.state === 'waiting') this.#withdraw(entry)
    else entry.keyQueue.underWay = undefined
    entry.state = 'gone'
    this.#keyless.delete(entry)
    this.#known[entry.class]--
    invariant(this.#known[entry.class] >= 0, 'no more deliveries end in a lane than it has')
    this.#surface(entry.keyQueue, now)
  }

  /** Changes until when a delivery waits. */
  delay(entry: Entry<T>, waitsUntil: SteadyMs, now: SteadyMs): void {
    entry.waitsUntil = waitsUntil
    if (entry.state === 'waiting') this.#surface(entry.keyQueue, now)
  }

  /**
   * Until when nothing can start, even if deliveries are added: in a first-in-first-out lane, a waiting front blocks all
   * others. With keys, an added delivery may have another key.
   */
  restsUntil(): SteadyMs {
    if (this.ordering !== 'fifo') return Number.NEGATIVE_INFINITY
    return this.#keyQueues.get(0)?.waiting[0]?.waitsUntil ?? Number.NEGATIVE_INFINITY
  }

  /** All deliveries that wait or are under way. */
  *entries(): Iterable<Entry<T>> {
    for (const { waiting, replays, underWay } of this.#keyQueues.values()) {
      if (underWay) yield underWay
      yield* waiting
      yield* replays
    }
    yield* this.#keyless
  }

  /** Forgets everything; answers the deliveries that waited. */
  clear(): T[] {
    const items = [...this.entries()].filter(({ state }) => state === 'waiting').map(({ item }) => item)
    this.#keyQueues.clear()
    this.#keyless.clear()
    this.#waiting = 0
    this.#startable = 0
    this.#known.fill(0)
    return items
  }

  #keyQueueOf(key: number | null): KeyQueue<T> {
    const found = key === null ? undefined : this.#keyQueues.get(key)
    if (found) return found
    const keyQueue: KeyQueue<T> = { key, waiting: [], replays: [], underWay: undefined, startable: false }
    if (key !== null) this.#keyQueues.set(key, keyQueue)
    return keyQueue
  }

  #insert(entry: Entry<T>): void {
    const list = listOf(entry)
    let i = list.length
    while (i > 0 && isBefore(entry, list[i - 1] as Entry<T>)) i--
    list.splice(i, 0, entry)
    this.#waiting++
  }

  #withdraw(entry: Entry<T>): void {
    const list = listOf(entry)
    const at = list.indexOf(entry)
    invariant(at >= 0, 'a waiting delivery is in the list of its key')
    list.splice(at, 1)
    this.#waiting--
  }

  /** Puts the next delivery of a key where it is found when its time comes. */
  #surface(keyQueue: KeyQueue<T>, now: SteadyMs): void {
    const next = nextOf(keyQueue, now)
    const startable = next !== undefined && next.waitsUntil <= now
    if (startable !== keyQueue.startable) this.#startable += startable ? 1 : -1
    keyQueue.startable = startable
    if (next === undefined) {
      const isEmpty = keyQueue.waiting.length === 0 && keyQueue.replays.length === 0 && keyQueue.underWay === undefined
      if (isEmpty && keyQueue.key !== null) this.#keyQueues.delete(keyQueue.key)
    } else if (startable) (next.class === replay ? this.#readyReplays : this.#ready).push(next.dueAt, next)
    else if (next.waitsUntil < Number.POSITIVE_INFINITY) this.#delayed.push(next.waitsUntil, next)
  }

  /** Makes deliveries startable whose wait is over, and forgets stale entries. */
  #wake(now: SteadyMs): void {
    for (let at = this.#delayed.peek(); at !== undefined; at = this.#delayed.peek()) {
      const entry = present(this.#delayed.popUntil(at), 'a heap that has a first instant has its item')
      const isTrue = entry.waitsUntil === at && isNext(entry)
      if (isTrue && at > now) {
        this.#delayed.push(at, entry)
        return
      }
      if (isTrue) this.#surface(entry.keyQueue, now)
    }
  }

  /** The first delivery that may start, past stale entries; it stays in the heap. */
  #first(heap: Heap<Entry<T>>, now: SteadyMs): Entry<T> | undefined {
    for (let entry = heap.popUntil(Infinity); entry; entry = heap.popUntil(Infinity)) {
      if (entry.waitsUntil > now || !isNext(entry)) continue
      heap.push(entry.dueAt, entry)
      return entry
    }
    return undefined
  }
}

/** The next delivery of a key: its first, or else the first replay that may start, or else the one that may soonest. */
function nextOf<T>({ waiting, replays, underWay }: KeyQueue<T>, now: SteadyMs): Entry<T> | undefined {
  if (underWay !== undefined) return undefined
  if (waiting.length > 0 || replays.length === 0) return waiting[0]
  let soonest = present(replays[0], 'a key without waiting deliveries has replays here')
  for (const entry of replays) {
    if (entry.waitsUntil <= now) return entry
    if (entry.waitsUntil < soonest.waitsUntil) soonest = entry
  }
  return soonest
}

/** Whether no delivery of its key blocks it. */
function isNext<T>(entry: Entry<T>): boolean {
  const { waiting, underWay } = entry.keyQueue
  if (entry.state !== 'waiting' || underWay !== undefined) return false
  return entry.class === replay ? waiting.length === 0 : waiting[0] === entry
}

function listOf<T>(entry: Entry<T>): Entry<T>[] {
  return entry.class === replay ? entry.keyQueue.replays : entry.keyQueue.waiting
}

/** Whether one place is before another. Fresh and timed deliveries are in one queue, by the instant they were due at. */
export function isBefore(
  one: Pick<QueuePosition, 'dueAt' | 'message'>,
  other: Pick<QueuePosition, 'dueAt' | 'message'>,
): boolean {
  return one.dueAt === other.dueAt ? one.message < other.message : one.dueAt < other.dueAt
}
