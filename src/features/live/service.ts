import { AppError } from '../../domain/app-error.ts'
import type { SteadyMs } from '../../domain/clock.ts'
import { Turns } from '../../domain/turns.ts'
import type { Facts, StoreFigures } from '../../metrics/facts.ts'
import { type Caller, seesErasures } from '../../operations/access.ts'
import type { Authenticator } from '../../operations/auth.ts'
import type { ServiceDeps } from '../../operations/services.ts'
import { StoreTrouble } from '../../store/store.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import { toLaneOut } from '../lanes/schemas.ts'
import type { Task } from '../tasks/rules.ts'
import { toTaskOut } from '../tasks/schemas.ts'
import type { Explainer } from '../why/service.ts'
import type { LiveCounts, ReadCounts, RecentAttempts } from './meter.ts'
import { toLiveAttemptOut, toOverviewOut } from './routes.ts'
import { attemptFeed, endpointFeed, type Frame, LiveStream } from './stream-service.ts'

/** Between two polls of the store. */
const tickMs = 1000
/** Rates are over the readings of this long. */
const rateWindowMs = 10_000
/** Ticks between two checks of a reader's key, and between two looks for tasks while none runs. */
const slowTicks = 5
/** Endpoints looked at in one tick; the others follow in the next. */
const endpointsPerTick = 20
const tasksListed = 20
/** Attempts kept for readers that come back. */
const keptAttempts = 100
/** How long a browser waits before it connects again. */
const retryMs = 2000
const streamsPerTurn = 50

/** Where the figures of the stream come from. */
export interface LiveSources {
  readonly recent: RecentAttempts
  readonly counts: ReadCounts
}

/** The counters of the whole server at one instant. */
export interface Overview {
  readonly figures: StoreFigures
  readonly perSecond: LiveCounts
  /** Attempts shown since the last overview, and how many there were. */
  readonly shown: number
  readonly of: number
}

interface LiveDeps extends LiveSources, Pick<ServiceDeps, 'store' | 'clock' | 'randomText' | 'limits' | 'onBug'> {
  readonly facts: Pick<Facts, 'current'>
  readonly auth: Authenticator
  readonly explainer: Explainer
}

/** A reader: a page that is open. */
interface Reader {
  readonly caller: Caller
  /** The one endpoint that it follows; null for all that the caller may see. */
  readonly endpoint: Endpoint | null
  /** The id of the last event that it got on an earlier connection. */
  readonly lastEventId: string | undefined
  /** Rejects when the caller may read no more: its session, key or token has ended. */
  readonly recheck: () => Promise<void>
}

interface Following extends Reader {
  readonly stream: LiveStream
}

interface Kept {
  readonly app: number
  readonly frame: Frame
}

/**
 * The live stream: one poll of the store every second for all readers, and none without a reader. Each reader gets the
 * overview (a caller of all applications), attempts that its caller may see, one endpoint's lane if it asks for one, and
 * tasks that go on.
 */
export class Live {
  readonly #deps: LiveDeps
  readonly #readers = new Set<Following>()
  /** Tells the ids of this process from those before a restart. */
  readonly #series: string
  #n = 0
  #ticks = 0
  #isAwake = false
  #cancel = () => {}
  #stopListening = () => {}
  #mustRecheck = false
  readonly #readings: { readonly at: SteadyMs; readonly counts: LiveCounts }[] = []
  #overview: Frame | undefined
  #kept: Kept[] = []
  #feed: ReturnType<typeof attemptFeed>
  /** By endpoint; the one that waited longest for its turn is the first. */
  readonly #endpoints = new Map<number, ReturnType<typeof endpointFeed>>()
  /** Undefined before the first look. */
  #tasks: readonly Task[] | undefined
  readonly #taskVersions = new Map<string, string>()

  constructor(deps: LiveDeps) {
    this.#deps = deps
    this.#series = deps.randomText(6)
    this.#feed = attemptFeed(deps.store, deps.recent)
  }

  /** The number of open streams. */
  get size(): number {
    return this.#readers.size
  }

  /** Opens a stream. Throws AppError `rate_limited` beyond the limits. */
  open(reader: Reader): LiveStream {
    this.#admit(reader.caller)
    const unfollow = reader.endpoint === null ? this.#deps.recent.follow(appOf(reader)) : () => {}
    const stream = new LiveStream(() => {
      unfollow()
      this.#readers.delete(following)
      if (this.#readers.size === 0) this.#sleep()
    })
    const following = { ...reader, stream }
    this.#readers.add(following)
    stream.show('retry', { n: 0, text: `retry: ${retryMs}\n\n` })
    if (seesAll(reader) && this.#overview !== undefined) stream.show('overview', this.#overview)
    for (const { frame } of this.#missed(reader)) stream.add(frame)
    for (const task of this.#tasks ?? []) if (task.status === 'running') this.#showTask(task, [following])
    if (!this.#isAwake) this.#wake()
    return stream
  }

  /** Ends every stream. */
  close(): void {
    for (const { stream } of this.#readers) stream.finish()
  }

  #admit(caller: Caller): void {
    const { maxLive, maxLivePerKey } = this.#deps.limits
    const refuse = (limit: string) => {
      const message = `Too many live streams are open (${limit}). Close a page, or read less often without a stream.`
      throw new AppError('rate_limited', message, [], { retryAfterMs: 10_000 })
    }
    const readers = [...this.#readers]
    if (readers.filter((each) => each.caller.id === caller.id).length >= maxLivePerKey) refuse('maxLivePerKey')
    if (readers.length >= maxLive) refuse('maxLive')
    // Half is for keys of all applications, whatever customers do, and a tenth for admins, whatever other keys do.
    const ofApps = readers.filter((each) => each.caller.app !== null).length
    if (caller.app !== null && ofApps >= maxLive / 2) refuse('maxLive')
    const ofAdmins = readers.filter((each) => isAdmin(each.caller)).length
    const keptForAdmins = Math.min(maxLive - 1, Math.ceil(maxLive / 10))
    if (!isAdmin(caller) && readers.length - ofAdmins >= maxLive - keptForAdmins) refuse('maxLive')
  }

  #wake(): void {
    this.#isAwake = true
    this.#stopListening = this.#deps.auth.onForget(() => {
      this.#mustRecheck = true
      this.#schedule(0)
    })
    this.#schedule(0)
  }

  #sleep(): void {
    this.#isAwake = false
    this.#cancel()
    this.#stopListening()
    this.#readings.length = 0
    this.#overview = undefined
    this.#kept = []
    this.#tasks = undefined
    this.#taskVersions.clear()
    this.#endpoints.clear()
    this.#feed = attemptFeed(this.#deps.store, this.#deps.recent)
  }

  /** A tick that is under way goes on to its end, and then leaves the next one to the tick that began behind it. */
  #schedule(waitMs: number): void {
    this.#cancel()
    this.#cancel = this.#deps.clock.after(waitMs, () => void this.#tick())
  }

  async #tick(): Promise<void> {
    const { clock } = this.#deps
    const startedAt = clock.steady()
    const tick = ++this.#ticks
    // Each second, whatever the store does: a reader knows by it that the server lives.
    const beat = this.#frame('beat', {})
    await this.#send([...this.#readers], (stream) => stream.show('beat', beat))
    if (this.#mustRecheck || tick % slowTicks === 0) await this.#recheck()
    const feed = await this.#quietly(() => this.#showAttempts())
    await this.#quietly(() => this.#showOverview(feed?.shown ?? 0, feed?.of ?? 0))
    await this.#quietly(() => this.#showEndpoints())
    await this.#quietly(() => this.#showTasks())
    if (tick !== this.#ticks || !this.#isAwake) return
    this.#schedule(this.#mustRecheck ? 0 : Math.max(tickMs / 4, tickMs - (clock.steady() - startedAt)))
  }

  /** A store that cannot answer leaves this part out; the overview says that the store is down. */
  async #quietly<T>(work: () => Promise<T>): Promise<T | undefined> {
    if (!this.#isAwake) return undefined
    try {
      return await work()
    } catch (error) {
      // The store may have been closed behind the last reader.
      if (this.#isAwake && !(error instanceof StoreTrouble)) this.#deps.onBug(error)
      return undefined
    }
  }

  async #recheck(): Promise<void> {
    this.#mustRecheck = false
    for (const reader of [...this.#readers]) {
      try {
        await reader.recheck()
      } catch (error) {
        // Trouble with the store says nothing about the key.
        if (error instanceof AppError) reader.stream.finish()
        else if (!(error instanceof StoreTrouble)) this.#deps.onBug(error)
      }
    }
  }

  async #showOverview(shown: number, of: number): Promise<void> {
    const { facts, clock } = this.#deps
    const readers = [...this.#readers].filter(seesAll)
    if (readers.length === 0) return
    const figures = await facts.current()
    const counts = figures.storeUp ? await this.#quietly(async () => this.#deps.counts()) : undefined
    if (counts !== undefined) this.#readings.push({ at: clock.steady(), counts })
    const from = clock.steady() - rateWindowMs
    for (let [first] = this.#readings; first !== undefined && first.at < from; [first] = this.#readings) {
      this.#readings.shift()
    }
    const overview = { figures, perSecond: rateOf(this.#readings), shown, of }
    const frame = this.#frame('overview', toOverviewOut(overview))
    this.#overview = frame
    await this.#send(readers, (stream) => stream.show('overview', frame))
  }

  async #showAttempts(): Promise<{ shown: number; of: number }> {
    const readers = [...this.#readers].filter(({ endpoint }) => endpoint === null)
    if (readers.length === 0) return { shown: 0, of: 0 }
    const { attempts, of } = await this.#feed(new Set(readers.map(appOf)))
    for (const attempt of attempts) {
      const frame = this.#frame('attempt', toLiveAttemptOut(attempt))
      this.#kept.push({ app: attempt.app, frame })
      const seeing = readers.filter((reader) => appOf(reader) === null || appOf(reader) === attempt.app)
      await this.#send(seeing, (stream) => stream.add(frame))
    }
    this.#kept = this.#kept.slice(-keptAttempts)
    return { shown: attempts.length, of }
  }

  async #showEndpoints(): Promise<void> {
    const { store, explainer, clock } = this.#deps
    const followed = Map.groupBy(
      [...this.#readers].filter(({ endpoint }) => endpoint !== null),
      ({ endpoint }) => (endpoint as Endpoint).key,
    )
    for (const key of this.#endpoints.keys()) if (!followed.has(key)) this.#endpoints.delete(key)
    for (const key of followed.keys()) {
      if (!this.#endpoints.has(key)) this.#endpoints.set(key, endpointFeed(store, key, clock.now()))
    }
    const turn = [...this.#endpoints].slice(0, endpointsPerTick)
    const endpoints = new Map((await store.loadEndpoints(turn.map(([key]) => key))).map((each) => [each.key, each]))
    for (const [key, feed] of turn) {
      // Behind the others, so that all have their turn.
      this.#endpoints.delete(key)
      this.#endpoints.set(key, feed)
      const readers = followed.get(key) ?? []
      const endpoint = endpoints.get(key)
      if (endpoint === undefined) {
        for (const { stream } of readers) stream.finish()
        continue
      }
      const lane = this.#frame('lane', toLaneOut(await explainer.endpoint(endpoint)))
      await this.#send(readers, (stream) => stream.show('lane', lane))
      for (const attempt of await feed()) {
        const frame = this.#frame('attempt', toLiveAttemptOut(attempt))
        await this.#send(readers, (stream) => stream.add(frame))
      }
    }
  }

  async #showTasks(): Promise<void> {
    const readers = [...this.#readers].filter(seesTasks)
    const known = this.#tasks
    const isDue = known?.some(({ status }) => status === 'running') ?? true
    if (readers.length === 0 || (!isDue && this.#ticks % slowTicks !== 0)) return
    this.#tasks = await this.#deps.store.listTasks({ limit: tasksListed, order: 'descending', after: null })
    const versions = new Map(this.#taskVersions)
    this.#taskVersions.clear()
    for (const task of this.#tasks) {
      const version = `${task.status} ${task.updatedAt}`
      this.#taskVersions.set(task.id, version)
      if (versions.get(task.id) === version) continue
      // At the first look, tasks that have ended are no news.
      if (known !== undefined || task.status === 'running') this.#showTask(task, readers)
    }
  }

  #showTask(task: Task, readers: readonly Following[]): void {
    const frames = new Map<boolean, Frame>()
    for (const reader of readers) {
      if (!seesTasks(reader) || (appOf(reader) !== null && appOf(reader) !== task.app)) continue
      const isWhole = seesErasures(reader.caller)
      const frame = frames.get(isWhole) ?? this.#frame('task', toTaskOut(task, reader.caller))
      frames.set(isWhole, frame)
      reader.stream.show(`task ${task.id}`, frame)
    }
  }

  /** Attempts that a reader missed between two connections, as far as they are kept. */
  #missed(reader: Reader): Kept[] {
    const [series, n] = reader.lastEventId?.split('-') ?? []
    if (series !== this.#series || reader.endpoint !== null) return []
    const app = appOf(reader)
    return this.#kept.filter(({ frame, app: of }) => frame.n > Number(n) && (app === null || app === of))
  }

  /** Sends to many readers in several turns of the event loop. */
  async #send(readers: readonly Following[], send: (stream: LiveStream) => void): Promise<void> {
    for (const [i, { stream }] of readers.entries()) {
      if (i > 0 && i % streamsPerTurn === 0) await Turns.by(this.#deps.clock).next()
      send(stream)
    }
  }

  #frame(event: string, data: unknown): Frame {
    const n = ++this.#n
    return { n, text: `id: ${this.#series}-${n}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n` }
  }
}

/** The application whose attempts a reader gets; null for all. */
function appOf({ caller }: Pick<Reader, 'caller'>): number | null {
  return caller.app?.key ?? null
}

function seesAll({ caller, endpoint }: Pick<Reader, 'caller' | 'endpoint'>): boolean {
  return caller.app === null && endpoint === null
}

/** Whether the caller is an operator: with an admin key of all applications, or a session of one. */
function isAdmin({ app, scopes }: Caller): boolean {
  return app === null && scopes.has('admin')
}

/** A portal token sees no tasks. */
function seesTasks({ caller }: Pick<Reader, 'caller'>): boolean {
  return caller.capabilities === undefined
}

function rateOf(readings: readonly { readonly at: SteadyMs; readonly counts: LiveCounts }[]): LiveCounts {
  const [first, last] = [readings[0], readings.at(-1)]
  const seconds = first === undefined || last === undefined ? 0 : (last.at - first.at) / 1000
  const rate = (name: keyof LiveCounts) =>
    first === undefined || last === undefined || seconds === 0
      ? 0
      : Math.max(0, (last.counts[name] - first.counts[name]) / seconds)
  return { accepted: rate('accepted'), delivered: rate('delivered'), failed: rate('failed'), dead: rate('dead') }
}
