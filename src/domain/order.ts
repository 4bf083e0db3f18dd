import type { SteadyMs } from './clock.ts'
import { type Class, replay } from './delivery.ts'
import type { Flow } from './flow.ts'
import { Heap } from './heap.ts'

/** How a lane that keeps an order keeps it. */
export type Ordering = Exclude<Flow['order'], 'none'>

/** Where a delivery stands in its lane: by the instant it was due at, then by its message. */
export interface Place {
  readonly class: Class
  readonly dueAt: number
  readonly message: number
  /** What goes one after the other; null for what has no order. */
  readonly orderKey: number | null
}

/** A delivery in an ordered lane. Only the line it stands in moves it. */
export interface Entry<T> extends Place {
  item: T
  /** It is not sent before this instant; `Infinity` while it waits for an operator. */
  heldUntil: SteadyMs
  state: 'waiting' | 'under way' | 'gone'
  readonly file: File<T>
}

/** All deliveries with one key. */
interface File<T> {
  readonly key: number | null
  /** Who waits, by their places. The first one blocks the others. */
  readonly waiting: Entry<T>[]
  /** Who is sent again on request, after everybody else. They have lost their place, so none of them blocks anybody. */
  readonly replays: Entry<T>[]
  underWay: Entry<T> | undefined
  /** Whether it counts among the files of which one may start. */
  startable: boolean
}

/**
 * What waits in a lane that keeps an order. Deliveries with the same key stand in one file, and only the first of a file
 * may start, when nothing of it is under way; a first-in-first-out lane has a single file. What waits for its retry stays
 * where it is, at the head of its file. Pure: it holds no clock.
 */
export class OrderedLine<T> {
  readonly ordering: Ordering
  readonly #files = new Map<number, File<T>>()
  /** What has no key, and stands in a file of its own. */
  readonly #loose = new Set<Entry<T>>()
  /** Who may start, by the instant it was due at, and who is held, by when that ends; or of whom that was true once. */
  readonly #ready = new Heap<Entry<T>>()
  readonly #readyReplays = new Heap<Entry<T>>()
  readonly #held = new Heap<Entry<T>>()
  readonly #known: [number, number, number] = [0, 0, 0]
  #waiting = 0
  #startable = 0

  constructor(ordering: Ordering) {
    this.ordering = ordering
  }

  /** How many wait. */
  get size(): number {
    return this.#waiting
  }

  /** In how many files the first may start. */
  get startable(): number {
    return this.#startable
  }

  /** How many of a class wait or are under way. */
  known(itsClass: Class): number {
    return this.#known[itsClass]
  }

  /** Lets a delivery take its place. */
  add(item: T, place: Place, heldUntil: SteadyMs, now: SteadyMs): Entry<T> {
    const file = this.#fileOf(this.ordering === 'fifo' ? 0 : place.orderKey)
    const { class: itsClass, dueAt, message, orderKey } = place
    const entry: Entry<T> = { class: itsClass, dueAt, message, orderKey, item, heldUntil, state: 'waiting', file }
    this.#known[itsClass]++
    if (file.key === null) this.#loose.add(entry)
    this.#insert(entry)
    // Behind others it changes nothing.
    if (nextOf(file, now) === entry) this.#surface(file, now)
    return entry
  }

  /** When something may start: `now`, the end of a wait, or never as things stand. */
  nextAt(now: SteadyMs): SteadyMs {
    this.#wake(now)
    if (this.#first(this.#ready, now) ?? this.#first(this.#readyReplays, now)) return now
    return this.#held.peek() ?? Number.POSITIVE_INFINITY
  }

  /** Takes what starts next, the longest due first, replays last. Its file waits until it is ended or put back. */
  take(now: SteadyMs): Entry<T> | undefined {
    this.#wake(now)
    const entry = this.#first(this.#ready, now) ?? this.#first(this.#readyReplays, now)
    if (entry === undefined) return undefined
    this.#withdraw(entry)
    entry.state = 'under way'
    entry.file.underWay = entry
    this.#surface(entry.file, now)
    return entry
  }

  /** It goes back to its place, to be sent again no sooner than said. */
  putBack(entry: Entry<T>, heldUntil: SteadyMs, now: SteadyMs): void {
    if (entry.state !== 'under way') return
    entry.file.underWay = undefined
    entry.state = 'waiting'
    entry.heldUntil = heldUntil
    this.#insert(entry)
    this.#surface(entry.file, now)
  }

  /** It has ended, or is no longer there: the next of its file may start. */
  end(entry: Entry<T>, now: SteadyMs): void {
    if (entry.state === 'gone') return
    if (entry.state === 'waiting') this.#withdraw(entry)
    else entry.file.underWay = undefined
    entry.state = 'gone'
    this.#loose.delete(entry)
    this.#known[entry.class]--
    this.#surface(entry.file, now)
  }

  /** Changes until when a waiting one is held. */
  hold(entry: Entry<T>, heldUntil: SteadyMs, now: SteadyMs): void {
    entry.heldUntil = heldUntil
    if (entry.state === 'waiting') this.#surface(entry.file, now)
  }

  /**
   * Until when nothing can be sent, whatever else may come: of one file the head that is held keeps all back. With several,
   * what comes may have another key.
   */
  restsUntil(): SteadyMs {
    if (this.ordering !== 'fifo') return Number.NEGATIVE_INFINITY
    return this.#files.get(0)?.waiting[0]?.heldUntil ?? Number.NEGATIVE_INFINITY
  }

  /** Who waits or is under way. */
  *entries(): Iterable<Entry<T>> {
    for (const { waiting, replays, underWay } of this.#files.values()) {
      if (underWay) yield underWay
      yield* waiting
      yield* replays
    }
    yield* this.#loose
  }

  /** Forgets everything and answers what waited. */
  clear(): T[] {
    const items = [...this.entries()].filter(({ state }) => state === 'waiting').map(({ item }) => item)
    this.#files.clear()
    this.#loose.clear()
    this.#waiting = 0
    this.#startable = 0
    this.#known.fill(0)
    return items
  }

  #fileOf(key: number | null): File<T> {
    const found = key === null ? undefined : this.#files.get(key)
    if (found) return found
    const file: File<T> = { key, waiting: [], replays: [], underWay: undefined, startable: false }
    if (key !== null) this.#files.set(key, file)
    return file
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
    list.splice(list.indexOf(entry), 1)
    this.#waiting--
  }

  /** Puts the one of a file that is next where it is found when its time comes. */
  #surface(file: File<T>, now: SteadyMs): void {
    const next = nextOf(file, now)
    const startable = next !== undefined && next.heldUntil <= now
    if (startable !== file.startable) this.#startable += startable ? 1 : -1
    file.startable = startable
    if (next === undefined) {
      const isEmpty = file.waiting.length === 0 && file.replays.length === 0 && file.underWay === undefined
      if (isEmpty && file.key !== null) this.#files.delete(file.key)
    } else if (startable) (next.class === replay ? this.#readyReplays : this.#ready).push(next.dueAt, next)
    else if (next.heldUntil < Number.POSITIVE_INFINITY) this.#held.push(next.heldUntil, next)
  }

  /** Brings up those whose wait is over, and forgets instants at which nobody's is. */
  #wake(now: SteadyMs): void {
    for (let at = this.#held.peek(); at !== undefined; at = this.#held.peek()) {
      const entry = this.#held.popUntil(at) as Entry<T>
      const isTrue = entry.heldUntil === at && isNext(entry)
      if (isTrue && at > now) {
        this.#held.push(at, entry)
        return
      }
      if (isTrue) this.#surface(entry.file, now)
    }
  }

  /** The first that really may start; it stays where it is. */
  #first(heap: Heap<Entry<T>>, now: SteadyMs): Entry<T> | undefined {
    for (let entry = heap.popUntil(Infinity); entry; entry = heap.popUntil(Infinity)) {
      if (entry.heldUntil > now || !isNext(entry)) continue
      heap.push(entry.dueAt, entry)
      return entry
    }
    return undefined
  }
}

/** Who of a file is next: its first, or else the first replay that may start, or else the one that may soonest. */
function nextOf<T>({ waiting, replays, underWay }: File<T>, now: SteadyMs): Entry<T> | undefined {
  if (underWay !== undefined) return undefined
  if (waiting.length > 0 || replays.length === 0) return waiting[0]
  let soonest = replays[0] as Entry<T>
  for (const entry of replays) {
    if (entry.heldUntil <= now) return entry
    if (entry.heldUntil < soonest.heldUntil) soonest = entry
  }
  return soonest
}

/** Whether nobody of its file keeps it back. */
function isNext<T>(entry: Entry<T>): boolean {
  const { waiting, underWay } = entry.file
  if (entry.state !== 'waiting' || underWay !== undefined) return false
  return entry.class === replay ? waiting.length === 0 : waiting[0] === entry
}

function listOf<T>(entry: Entry<T>): Entry<T>[] {
  return entry.class === replay ? entry.file.replays : entry.file.waiting
}

/** Fresh and timed deliveries stand in one file, by the instant they were due at. */
export function isBefore(one: Pick<Place, 'dueAt' | 'message'>, other: Pick<Place, 'dueAt' | 'message'>): boolean {
  return one.dueAt === other.dueAt ? one.message < other.message : one.dueAt < other.dueAt
}
