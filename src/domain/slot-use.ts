import type { SteadyMs } from './clock.ts'
import { invariant } from './invariant.ts'
import { Queue } from './queue.ts'

/** How an endpoint uses slots: its attempts end quickly, no attempt ended recently, or its attempts occupy slots for long. */
export type SlotUser = 'quick' | 'untried' | 'slow'

/** An attempt that ends within this time is quick. */
const quickMs = 1000
/** The time that an endpoint owes at most: it is repaid within ten minutes. */
const mostOwedMs = 150_000
/** A quick answer repays this share of the time since the attempt before it. */
const repaidShare = 0.25
/** How long a quick answer counts. */
const quickForMs = 10 * 60_000

/**
 * The time for which one endpoint's attempts occupied slots beyond a second each. The endpoint owes it, and is slow until it
 * is repaid: an attempt that hangs for 15 s makes it slow for a minute at least, and until it answers quickly. Repaying
 * takes time, and not only answers, because answers cost an attacker nothing.
 */
export class SlotUse {
  #owedMs = 0
  #endedAt: SteadyMs = Number.NEGATIVE_INFINITY
  #quickAt: SteadyMs = Number.NEGATIVE_INFINITY

  /** An attempt ended that occupied its slot for `slotMs`. */
  ended(slotMs: number, now: SteadyMs): void {
    if (slotMs > quickMs) this.#owedMs = Math.min(mostOwedMs, this.#owedMs + slotMs - quickMs)
    else {
      this.#owedMs = Math.max(0, this.#owedMs - repaidShare * (now - this.#endedAt))
      this.#quickAt = now
    }
    this.#endedAt = now
  }

  userAt(now: SteadyMs): SlotUser {
    if (this.#owedMs > 0) return 'slow'
    return now - this.#quickAt <= quickForMs ? 'quick' : 'untried'
  }
}

/** How many of all slots each kind of user may occupy. Slots of slow users count for untried ones too. */
export function slotLimits(slots: number): Readonly<Record<SlotUser, number>> {
  return { quick: slots, untried: slots - Math.floor(slots / 8), slow: slots - Math.floor(slots / 4) }
}

/**
 * Keeps slots for endpoints that answer quickly. Of 1,024 slots, all slow endpoints occupy at most 768, and all slow and
 * untried ones at most 896; 128 are always left for endpoints whose attempts end within a second. However many
 * applications hang, an endpoint that answers within 50 ms gets its share of 128 slots, which is 2,560 attempts a second
 * over all. Without it, 1,024 applications with one hanging endpoint each occupied every slot until their timeout.
 */
export class SlotReserve<L extends { waitsForSlot: boolean }> {
  readonly #limits: Readonly<Record<SlotUser, number>>
  readonly #used: Record<SlotUser, number> = { quick: 0, untried: 0, slow: 0 }
  readonly #waiting = { untried: new Queue<L>(), slow: new Queue<L>() }

  constructor(slots: number) {
    this.#limits = slotLimits(slots)
  }

  /** Counts slots that are taken, or with a negative number freed. */
  count(user: SlotUser, slots: number): void {
    this.#used[user] += slots
    invariant(this.#used[user] >= 0, 'no more slots come free than a kind of user has taken')
  }

  /** How many more slots users of a kind may take, by the reserve. */
  roomFor(user: SlotUser): number {
    const { quick, untried, slow } = this.#used
    const ofAll = this.#limits.quick - quick - untried - slow
    if (user === 'quick') return ofAll
    const ofUnproved = Math.min(ofAll, this.#limits.untried - untried - slow)
    return user === 'untried' ? ofUnproved : Math.min(ofUnproved, this.#limits.slow - slow)
  }

  /** Lets a lane wait for a slot of its kind. */
  wait(user: Exclude<SlotUser, 'quick'>, lane: L): void {
    if (lane.waitsForSlot) return
    lane.waitsForSlot = true
    this.#waiting[user].push(lane)
  }

  /** Whether a lane has to wait behind others: a free slot is for the lane that has waited the longest. */
  isBehind(user: SlotUser): boolean {
    if (user === 'quick') return false
    return this.#waiting.untried.size > 0 || (user === 'slow' && this.#waiting.slow.size > 0)
  }

  /** Whether a lane waits for which there is room by now. */
  get hasNext(): boolean {
    const { untried, slow } = this.#waiting
    return (untried.size > 0 && this.roomFor('untried') > 0) || (slow.size > 0 && this.roomFor('slow') > 0)
  }

  /**
   * The next lane whose kind has room beside `taken` more slots, in the order they began to wait. Untried lanes go first:
   * after one attempt they are untried no longer.
   */
  next(taken: number): L | undefined {
    for (const user of ['untried', 'slow'] as const) {
      const lane = this.roomFor(user) > taken ? this.#waiting[user].shift() : undefined
      if (lane === undefined) continue
      lane.waitsForSlot = false
      return lane
    }
    return undefined
  }
}
