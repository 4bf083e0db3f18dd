import type { Clock, EpochMs, SteadyMs } from '../../domain/clock.ts'
import { replay } from '../../domain/delivery.ts'
import type { Verdict } from '../../domain/judge.ts'
import { counts } from '../../domain/outcome.ts'
import { Turns } from '../../domain/turns.ts'
import { endOf } from '../../metrics/meter.ts'
import type { CommitObserver } from '../../metrics/observed-store.ts'
import type { PendingRow, Publication, RestingEnd, Settlement, Store, TriedAttempt } from '../../store/store.ts'
import {
  bucketOf,
  type Counter,
  hourMs,
  leastHeldUpMs,
  minuteMs,
  type SumSpan,
  Sums,
  serverScope,
  statusCounter,
  writtenForMs,
} from './rules.ts'
import type { HistoryRow } from './store.ts'

/** Changed sums are written this often. A crash of the process loses the counts since. */
export const writeEveryMs = 5000
/** Sums that are kept by the hour alone are many, and are written this often. */
const writeHoursEveryMs = 60_000
/** Rows of one statement; a turn for others follows each. */
const rowsPerWrite = 200

/** How many applications and endpoints are followed within one hour. */
export interface HistoryLimits {
  /** By the minute; later ones are followed by the hour alone. */
  readonly byMinute: number
  /** By the minute, of the endpoints of one application: a tenant must not take the minutes of all others. */
  readonly byMinutePerApp: number
  /** In all; later ones count for the server, and endpoints for their application, but not for themselves. */
  readonly followed: number
}

const defaultLimits: HistoryLimits = { byMinute: 2000, byMinutePerApp: 500, followed: 20_000 }

/** How many deliveries wait: at an endpoint, or of an application, whose `app` is null; of the server, whose scope is. */
export interface QueueDepth {
  readonly scope: number | null
  readonly app: number | null
  readonly waiting: number
}

interface HistoryDeps {
  readonly store: Pick<Store, 'writeHistory'>
  readonly clock: Clock
  /** Makes names that no other process has. */
  readonly newWriter: () => string
  readonly limits?: HistoryLimits
  onTrouble(error: unknown): void
}

/** The sums of a scope over one minute or one hour. They are written whole, again and again while they grow. */
class Row {
  readonly sums = new Sums()
  readonly writer: string
  readonly scope: number
  readonly span: SumSpan
  readonly at: EpochMs
  /** Of an hour: its minute under way, which is not part of its sums yet. */
  minute: Row | undefined
  /** Whether it changed since it was last written, or begun to be. */
  isChanged = false
  writtenAt: SteadyMs = Number.NEGATIVE_INFINITY

  constructor(writer: string, scope: number, span: SumSpan, at: EpochMs) {
    this.writer = writer
    this.scope = scope
    this.span = span
    this.at = at
  }

  toStored(): HistoryRow {
    const { scope, span, at, sums, minute } = this
    const whole = minute === undefined ? sums : new Sums().merge(sums).merge(minute.sums)
    return { scope, span, at, sums: whole.toJSON() }
  }
}

type End = 'delivered' | 'coalesced' | ReturnType<typeof endOf>

/** An attempt, in the forms in which it is counted. */
interface Tried {
  readonly status: Counter
  readonly isFailed: boolean
  readonly latency: number
  /** Undefined unless it is the first attempt of its delivery. */
  readonly wait: number | undefined
  readonly heldUp: number | undefined
}

function triedOf(row: PendingRow, { status, code, durationMs, waitedMs, heldUpMs = 0 }: TriedAttempt): Tried {
  const isFirst = waitedMs !== undefined && row.class !== replay && row.attempts + row.priorAttempts === 0
  return {
    status: statusCounter(status),
    isFailed: code !== 'delivered' && counts(code),
    latency: bucketOf(durationMs),
    wait: isFirst ? bucketOf(waitedMs) : undefined,
    heldUp: isFirst && heldUpMs >= leastHeldUpMs ? bucketOf(heldUpMs) : undefined,
  }
}

function endAfter(verdict: Verdict): End | undefined {
  if (verdict.state === 'delivered') return 'delivered'
  return verdict.state === 'dead' ? endOf(verdict.reason) : undefined
}

function count(sums: Sums | undefined, end: End | undefined, tried: Tried | undefined): void {
  if (sums === undefined) return
  if (end !== undefined) sums.add(end, 1)
  if (tried === undefined) return
  sums.add(tried.status, 1)
  if (tried.isFailed) sums.add('failed', 1)
  sums.latency.addAt(tried.latency, 1)
  if (tried.wait !== undefined) sums.wait.addAt(tried.wait, 1)
  if (tried.heldUp !== undefined) sums.heldUp.addAt(tried.heldUp, 1)
}

/** The rows in parts of one writer each, with the place of each part. */
function* batchesOf(rows: readonly Row[]): Generator<[place: number, part: Row[]]> {
  for (let place = 0; place < rows.length; ) {
    const { writer } = rows[place] as Row
    let end = place + 1
    while (end < rows.length && end - place < rowsPerWrite && rows[end]?.writer === writer) end++
    yield [place, rows.slice(place, end)]
    place = end
  }
}

/**
 * Sums up what this process commits, by the minute and by the hour, for the server, its applications and its endpoints.
 * Counting adds to numbers in memory. Changed sums are written every few seconds, and when the process stops. A write that
 * fails, or may have failed, is repeated: rows replace themselves, so nothing is lost and nothing counts twice.
 */
export class HistoryWriter implements CommitObserver {
  readonly #deps: HistoryDeps
  readonly #limits: HistoryLimits
  #writer: string
  #minuteAt: EpochMs = 0
  #hourAt: EpochMs = 0
  /** The hours under way. */
  #hours = new Map<number, Row>()
  /** How many of them are followed by the minute: in all, and of the endpoints of each application. */
  #byMinute = 0
  #byMinuteOf = new Map<number, number>()
  #changed: Row[] = []
  #cancel = () => {}
  /** A write is set for later or under way. There is never a second one: it could be overtaken by the first. */
  #isSet = false
  #underWay: Promise<void> = Promise.resolve()
  #stopped = false

  constructor(deps: HistoryDeps) {
    this.#deps = deps
    this.#limits = deps.limits ?? defaultLimits
    this.#writer = deps.newWriter()
  }

  /** Notes how many deliveries wait: of the server, of applications and of endpoints. The leader does so for all. */
  look(depths: readonly QueueDepth[]): void {
    this.#turn()
    for (const { scope, app, waiting } of depths) {
      const sums = this.#sums(scope ?? serverScope, app)
      sums?.add('waiting', waiting)
      sums?.add('looks', 1)
    }
  }

  accepted({ app, special, endpoints }: Publication, merged: readonly number[]): void {
    this.#turn()
    this.#arrived(app, endpoints, special)
    this.#sums(serverScope, null)?.add('accepted', 1)
    this.#sums(app, null)?.add('accepted', 1)
    for (const endpoint of merged) this.#count(app, endpoint, 'coalesced')
    if (special === undefined) return
    for (const { endpoint, drop } of special) if (drop !== undefined) this.#count(app, endpoint, endOf(drop))
  }

  #arrived(app: number, endpoints: readonly number[], special: Publication['special']): void {
    const dropped = special?.flatMap(({ endpoint, drop }) => (drop === undefined ? [] : [endpoint])) ?? []
    this.#sums(serverScope, null)?.add('arrived', endpoints.length - dropped.length)
    this.#sums(app, null)?.add('arrived', endpoints.length - dropped.length)
    for (const endpoint of endpoints) {
      if (dropped.length === 0 || !dropped.includes(endpoint)) this.#sums(endpoint, app)?.add('arrived', 1)
    }
  }

  coalesced(app: number, endpoints: readonly number[]): void {
    this.#turn()
    for (const endpoint of endpoints) this.#count(app, endpoint, 'coalesced')
  }

  settled(settlements: readonly Settlement[]): void {
    this.#turn()
    for (const { app, endpoint, row, attempt, verdict } of settlements) {
      this.#count(app, endpoint, endAfter(verdict), attempt === null ? undefined : triedOf(row, attempt))
    }
  }

  ended(ends: readonly RestingEnd[]): void {
    this.#turn()
    for (const { app, endpoint, reason } of ends) this.#count(app, endpoint, endOf(reason))
  }

  /** Writes everything that is not written yet, and writes no more by itself. Trouble goes to its listener. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#cancel()
    await this.#underWay
    await this.#write(true)
  }

  #count(app: number, endpoint: number, end: End | undefined, tried?: Tried): void {
    count(this.#sums(serverScope, null), end, tried)
    count(this.#sums(app, null), end, tried)
    count(this.#sums(endpoint, app), end, tried)
  }

  /** Begins the minute and the hour of this instant, if they are not under way. */
  #turn(): void {
    const now = this.#deps.clock.now()
    if (now >= this.#minuteAt && now < this.#minuteAt + minuteMs) return
    const minuteAt = now - (now % minuteMs)
    // Minutes that come a second time, because the clock was set back, are another writer's: they add to the first.
    const isBack = minuteAt < this.#minuteAt
    if (isBack) this.#writer = this.#deps.newWriter()
    this.#minuteAt = minuteAt
    const hourAt = now - (now % hourMs)
    if (hourAt === this.#hourAt && !isBack) return
    this.#hourAt = hourAt
    this.#hours = new Map()
    this.#byMinute = 0
    this.#byMinuteOf = new Map()
  }

  /** The sums to add to, for a scope and, of an endpoint, its application. Undefined beyond the limit. */
  #sums(scope: number, app: number | null): Sums | undefined {
    const hour = this.#hours.get(scope) ?? this.#follow(scope, app)
    if (hour === undefined) return undefined
    if (!hour.isChanged) this.#change(hour)
    let { minute } = hour
    if (minute === undefined) return hour.sums
    if (minute.at !== this.#minuteAt) {
      hour.sums.merge(minute.sums)
      minute = new Row(this.#writer, scope, minuteMs, this.#minuteAt)
      hour.minute = minute
    }
    if (!minute.isChanged) this.#change(minute)
    return minute.sums
  }

  #follow(scope: number, app: number | null): Row | undefined {
    const { byMinute, byMinutePerApp, followed } = this.#limits
    if (this.#hours.size >= followed && scope !== serverScope) return undefined
    const hour = new Row(this.#writer, scope, hourMs, this.#hourAt)
    this.#hours.set(scope, hour)
    const ofApp = app === null ? 0 : (this.#byMinuteOf.get(app) ?? 0)
    if (this.#byMinute >= byMinute || ofApp >= byMinutePerApp) {
      hour.sums.byHour = true
      return hour
    }
    this.#byMinute++
    if (app !== null) this.#byMinuteOf.set(app, ofApp + 1)
    hour.minute = new Row(this.#writer, scope, minuteMs, this.#minuteAt)
    return hour
  }

  #change(row: Row): void {
    row.isChanged = true
    this.#changed.push(row)
    if (!this.#isSet && !this.#stopped) this.#writeLater()
  }

  #writeLater(): void {
    this.#isSet = true
    this.#cancel = this.#deps.clock.after(writeEveryMs, () => {
      this.#underWay = this.#write(false).then(() => {
        this.#isSet = false
        if (this.#changed.length > 0 && !this.#stopped) this.#writeLater()
      })
    })
  }

  /** Writes the rows that changed, in small statements with a turn for others in between. Never rejects. */
  async #write(all: boolean): Promise<void> {
    const { store, clock, onTrouble } = this.#deps
    const due = this.#take(all)
    for (const [place, part] of batchesOf(due)) {
      const stored = part.map((row) => row.toStored())
      for (const row of part) row.isChanged = false
      try {
        await store.writeHistory((part[0] as Row).writer, stored)
      } catch (error) {
        for (const row of part) if (!row.isChanged) this.#restore(row)
        // The others are marked as changed already.
        this.#changed.push(...due.slice(place + part.length))
        return onTrouble(error)
      }
      await Turns.by(clock).next()
    }
  }

  /** The changed rows to write now. Those of an hour alone wait for their time; those that are too old are forgotten. */
  #take(all: boolean): Row[] {
    const [now, steady] = [this.#deps.clock.now(), this.#deps.clock.steady()]
    const changed = this.#changed
    this.#changed = []
    return changed.filter((row) => {
      if (row.at + row.span < now - writtenForMs) return false
      const isUnderWay = row.sums.byHour && row.at === this.#hourAt
      if (!all && isUnderWay && steady - row.writtenAt < writeHoursEveryMs) {
        this.#changed.push(row)
        return false
      }
      row.writtenAt = steady
      return true
    })
  }

  #restore(row: Row): void {
    row.isChanged = true
    row.writtenAt = Number.NEGATIVE_INFINITY
    this.#changed.push(row)
  }
}
