import type { EpochMs } from './clock.ts'
import { aboutMany, moment, perSecond } from './phrases.ts'
import type { FlowRate, FlowRates } from './queue-flow.ts'

/**
 * The future of a queue, or of the turn of one delivery:
 *   at                — its turn comes then, or within the range;
 *   drains            — the queue is empty then, or within the range;
 *   growing           — more arrives than leaves, so that there is no date;
 *   steady            — as much arrives as leaves;
 *   needs_operator    — nothing happens before an operator acts;
 *   if_probe_succeeds — the circuit is open: so it is if the next probe succeeds;
 *   unknown           — no pace is known yet.
 */
export const forecastKinds = [
  'at',
  'drains',
  'growing',
  'steady',
  'needs_operator',
  'if_probe_succeeds',
  'unknown',
] as const
export type ForecastKind = (typeof forecastKinds)[number]

export interface Forecast {
  readonly kind: ForecastKind
  /** The instant, or the earliest one of a range; null where there is none. */
  readonly at: EpochMs | null
  /** The latest instant of a range, and `at` where there is no range; null where no end can be told. */
  readonly latest: EpochMs | null
  /** Deliveries a second: the pace of the queue, or by how much it grows. */
  readonly perSecond: number | null
  /** The same in a sentence, numbers first. */
  readonly sentence: string
}

/** The pace of a lane, as far as it is known. */
export interface LaneOutlook extends FlowRates {
  readonly now: EpochMs
  /** Nothing of the lane starts before; `now` or earlier when it may send. */
  readonly freeFrom: EpochMs
  readonly needsOperator: boolean
  /** Whether the circuit is open: `freeFrom` is the instant of its probe. */
  readonly isProbing: boolean
  /** Attempts a second that start, while the lane may send; null when no pace is known. */
  readonly pace: number | null
  /**
   * When each slot of the lane is free, in milliseconds from the moment that it may send, the first to be free first. So many
   * deliveries start without a pace, as far as the rate limit has tokens for them.
   */
  readonly slotsMs: readonly number[]
  /** Tokens of the rate limit that are there at that moment; `Infinity` without a limit. */
  readonly tokens: number
  /** After the instant `freeFrom` the pace climbs to its full value within this time; 0 when it is there already. */
  readonly rampMs: number
  /** One delivery goes at a time (`fifo`), or the receiver asks for silence again and again: a date would lie. */
  readonly isUncertain: boolean
}

/** The queue in front of one delivery. */
export interface Turn {
  /** Deliveries in front of it: with an ordering key, those of its key. */
  readonly ahead: number
  /** Deliveries that its lane starts before it, of its class. */
  readonly line: number
  readonly isExact: boolean
  /** It does not start before, whatever is ahead of it: its own retry or schedule. */
  readonly notBefore: EpochMs
  /** The share of the starts that deliveries of its class get while those of higher classes wait; 1 for the highest. */
  readonly share: number
  /** Deliveries of higher classes that wait. */
  readonly higher: number
  /** With an ordering key: how long the deliveries of its key take that are ahead of it, one after the other. */
  readonly keyMs: number
}

/** When the turn of a delivery comes. */
export function forecastTurn(lane: LaneOutlook, turn: Turn): Forecast {
  if (lane.needsOperator) return without('needs_operator', 'Its turn comes once an operator has acted.')
  const { now } = lane
  const from = Math.max(now, lane.freeFrom, turn.notBefore)
  const before = turn.line + turn.higher
  const first = turn.keyMs === 0 ? lane.slotsMs[before] : undefined
  if (first === 0 && before < Math.max(1, lane.tokens)) return atOnce(lane, from)
  if (first !== undefined && lane.tokens === Number.POSITIVE_INFINITY && !lane.isUncertain) {
    return inSlot(lane, turn, Math.max(from, Math.max(now, lane.freeFrom) + first))
  }
  if (lane.pace === null || lane.pace <= 0) return without('unknown', `${aheadText(turn)}; no pace is known yet.`)
  const waitMs = Math.max(turn.keyMs, timeFor(lane, turn))
  const at = Math.round(Math.max(Math.max(now, lane.freeFrom) + waitMs, turn.notBefore))
  if (!Number.isFinite(at)) {
    return without('growing', `${aheadText(turn)}, and as many arrive that go first as leave: there is no date.`)
  }
  const pace = perSecond(lane.pace)
  if (lane.isProbing) {
    const text = `${aheadText(turn)}: if the probe at ${moment(from, now)} succeeds, its turn comes at about ${moment(at, now)}.`
    return { kind: 'if_probe_succeeds', at, latest: at, perSecond: lane.pace, sentence: text }
  }
  if (!lane.isUncertain) {
    const text = `${aheadText(turn)}, at ${pace}: its turn comes at about ${moment(at, now)}.`
    return { kind: 'at', at, latest: at, perSecond: lane.pace, sentence: text }
  }
  const latest = latestOf(lane, turn.line + turn.higher, at)
  const until =
    latest === null ? `not before ${moment(at, now)}` : `between ${moment(at, now)} and ${moment(latest, now)}`
  const sentence = `${aheadText(turn)}: its turn comes ${until}.`
  return { kind: 'at', at, latest, perSecond: lane.pace, sentence }
}

function atOnce({ now, isProbing, pace }: LaneOutlook, from: EpochMs): Forecast {
  const at = Math.round(from)
  if (isProbing) {
    const text = `It is the next probe, at ${moment(at, now)}, or follows if that succeeds.`
    return { kind: 'if_probe_succeeds', at, latest: at, perSecond: pace, sentence: text }
  }
  const sentence = from > now ? `Its turn comes at ${moment(at, now)}.` : 'Its turn is now.'
  return { kind: 'at', at, latest: at, perSecond: pace, sentence }
}

/** It starts when one of the attempts under way ends. */
function inSlot({ now, pace }: LaneOutlook, turn: Turn, from: EpochMs): Forecast {
  const at = Math.round(from)
  const sentence = `${aheadText(turn)}; it starts when an attempt under way ends, at about ${moment(at, now)}.`
  return { kind: 'at', at, latest: at, perSecond: pace, sentence }
}

/** How long a lane takes for the deliveries in front, from the moment that it may send. */
function timeFor(lane: LaneOutlook, { line, share, higher }: Turn): number {
  const pace = lane.pace as number
  if (higher === 0) return climbed(lane, line)
  // While higher classes have deliveries, this one gets its share; what arrives there goes first, too.
  const drain = pace * (1 - share) - usual(lane.arrivals)
  const higherMs = drain <= 0 ? Number.POSITIVE_INFINITY : (higher / drain) * 1000
  const shared = ((line + 1) / (pace * share)) * 1000
  if (shared <= higherMs) return shared
  const left = line - (higherMs / 1000) * pace * share
  return higherMs + (Math.max(0, left) / Math.max(pace * share, pace - usual(lane.arrivals))) * 1000
}

/**
 * The time for so many deliveries. Where all slots are in use, they come free in the order in which they were taken, again and
 * again. The pace may have to climb first, in a straight line from a twentieth.
 */
function climbed({ pace, rampMs, slotsMs, tokens }: LaneOutlook, deliveries: number): number {
  const full = (pace as number) / 1000
  const [soonest = 0] = slotsMs
  if (rampMs <= 0 && soonest > 0) {
    const rounds = Math.floor(deliveries / slotsMs.length)
    return (slotsMs[deliveries % slotsMs.length] ?? soonest) + (rounds * slotsMs.length) / full
  }
  if (rampMs <= 0) return Math.max(0, deliveries - (Number.isFinite(tokens) ? Math.max(0, tokens - 1) : 0)) / full
  const first = full * rampStart
  const climb = full / rampMs
  const duringRamp = first * rampMs + (climb * rampMs * rampMs) / 2
  if (deliveries >= duringRamp) return rampMs + (deliveries - duringRamp) / full
  return (Math.sqrt(first * first + 2 * climb * deliveries) - first) / climb
}

/** A circuit that closes lets this share of the full rate through at first. */
const rampStart = 0.05

/** The figures about all of a queue. */
export interface QueueLoad {
  readonly waiting: number
  readonly isExact: boolean
}

/** Predicts the future of a queue. */
export function forecastQueue(lane: LaneOutlook, { waiting, isExact }: QueueLoad): Forecast {
  const { now } = lane
  const many = `${aboutMany(waiting, isExact, 'delivery', 'deliveries')} waiting`
  if (waiting === 0) return { ...without('steady', 'Nothing waits.'), perSecond: 0 }
  if (lane.needsOperator) return without('needs_operator', `${many} until an operator acts.`)
  const growth = growthOf(lane)
  if (growth > 0 && !lane.isProbing) {
    return { ...without('growing', `${many}, growing by ${perSecond(growth)}.`), perSecond: growth }
  }
  if (lane.pace === null || lane.pace <= 0) return without('unknown', `${many}; no pace is known yet.`)
  const net = lane.pace - usual(lane.arrivals)
  if (net <= steadyShare * lane.pace) {
    return { ...without('steady', `${many}: as many arrive as leave.`), perSecond: 0 }
  }
  const ms = climbed({ ...lane, pace: net }, waiting)
  const at = Math.round(Math.max(now, lane.freeFrom) + ms)
  if (lane.isProbing) {
    const text = `${many}: if the probe at ${moment(Math.max(now, lane.freeFrom), now)} succeeds, none at about ${moment(at, now)}.`
    return { kind: 'if_probe_succeeds', at, latest: at, perSecond: net, sentence: text }
  }
  if (!lane.isUncertain) {
    const sentence = `${many}, shrinking by ${perSecond(net)}: none at about ${moment(at, now)}.`
    return { kind: 'drains', at, latest: at, perSecond: net, sentence }
  }
  const latest = latestOf(lane, waiting, at)
  const until =
    latest === null ? `not before ${moment(at, now)}` : `between ${moment(at, now)} and ${moment(latest, now)}`
  return { kind: 'drains', at, latest, perSecond: net, sentence: `${many}: none ${until}.` }
}

/**
 * The late end of a range: at the pace of the last minutes with all their holds and retries, and half as long again. Without a
 * departure in that time there is none.
 */
function latestOf({ now, departures, arrivals }: LaneOutlook, deliveries: number, earliest: EpochMs): EpochMs | null {
  const slowest = Math.min(departures.lasting, departures.recent > 0 ? departures.recent : departures.lasting)
  const net = Math.max(slowest / 4, slowest - usual(arrivals))
  if (net <= 0) return null
  return Math.round(Math.max(earliest, now + ((lateFactor * deliveries) / net) * 1000))
}

const lateFactor = 1.5
/** A queue that shrinks by less than this share of its pace neither grows nor shrinks. */
const steadyShare = 0.01

/** By how much a queue grows a second: more arrives than leaves over both windows. 0 when it does not. */
export function growthOf({ arrivals, departures }: FlowRates): number {
  const recent = arrivals.recent - departures.recent
  const lasting = arrivals.lasting - departures.lasting
  const least = Math.max(steadyShare * arrivals.lasting, noiseOf(arrivals.recent) / 2)
  return recent > least && lasting > 0 ? recent : 0
}

/** The rate of a flow: that of the long window, unless the short one differs by more than chance. */
export function usual({ recent, lasting }: FlowRate): number {
  return Math.abs(recent - lasting) <= 3 * noiseOf(Math.max(recent, lasting)) + 0.05 * recent ? lasting : recent
}

/** By how much the rate over ten seconds or more differs from the true one by chance. */
function noiseOf(rate: number): number {
  return Math.sqrt(rate / 15)
}

function without(kind: ForecastKind, sentence: string): Forecast {
  return { kind, at: null, latest: null, perSecond: null, sentence }
}

function aheadText({ ahead, higher, isExact }: Turn): string {
  const all = ahead + higher
  if (all === 0) return 'None ahead'
  return `${aboutMany(all, isExact, 'delivery', 'deliveries')} ahead`
}
