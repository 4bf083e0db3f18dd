import { FairQueue } from '../domain/fair-queue.ts'
import { present } from '../domain/invariant.ts'
import { Queue } from '../domain/queue.ts'
import type { Regions } from '../features/regions/rules.ts'
import type { DueLane, DuePlace, Store } from '../store/store.ts'

/**
 * Lanes that an application gets at its turn. They were stored one after the other, so they lie beside each other, and so do
 * their rows: the pages that a claim, the verdicts and a release write are a fraction of those of as many applications.
 */
const lanesPerTurn = 8
/** Applications that one step of the walk looks at. */
const applicationsPerStep = 64
/** Lanes that a pass finds of each application: many where few applications have lanes that are due, else a turn. */
const lanesPerPass = 256
/**
 * An application of which this many owned lanes have started nothing gets no more: it has no slots, or may not send for a
 * moment. Its other lanes cost no memory meanwhile, and do not delay those of others.
 */
const unstartedLimit = 32

/**
 * Chooses the lanes that are claimed next while more are due than one claim takes. Applications take turns, a few lanes a
 * turn, from the first claim on. The walk over the store's due lanes goes on where it stopped, so that a choice costs the same
 * however many lanes are due.
 *
 * A lane that wakes meanwhile does not wait for the walk, unless others of its application wait already. Where its application
 * had no turn yet in the pass under way, it goes before the others: the first message of a tenant must not wait for a turn of
 * a thousand tenants with a backlog. Up to half of a choice goes to such lanes, so that newcomers without end hold no lane up.
 */
export class ClaimTurns {
  readonly #deps: ClaimTurnsDeps
  #isCrowded = false
  #waiting = new FairQueue<DueLane>()
  /** A lane each of applications that had no turn in the pass under way. */
  #newcomers = new Queue<DueLane>()
  /** Applications that had a turn in the pass under way, or wait for their first as newcomers. */
  readonly #served = new Set<number>()
  /** Where the walk stopped; null in front of the first application. */
  #place: DuePlace | null = null
  #lanesEach = lanesPerTurn
  /** Applications of which the pass under way found lanes. */
  readonly #found = new Set<number>()

  constructor(deps: ClaimTurnsDeps) {
    this.#deps = deps
  }

  /** Whether more lanes may be due than one claim takes. */
  get isCrowded(): boolean {
    return this.#isCrowded
  }

  /** A claim took as many lanes as it may, so more may be due. */
  crowd(): void {
    this.#isCrowded = true
  }

  /** These lanes are due from now on. */
  woken(lanes: readonly DueLane[]): void {
    if (!this.#isCrowded) return
    for (const lane of lanes) {
      if (this.#waiting.has(lane.app)) continue
      if (this.#served.has(lane.app)) this.#waiting.push(lane.app, lane)
      else {
        this.#served.add(lane.app)
        this.#newcomers.push(lane)
      }
    }
  }

  /** Chooses up to `max` lanes; none while all that are due belong to applications that get no more. */
  async next(max: number): Promise<readonly number[]> {
    const choice = new Choice(max, (app) => this.#deps.unstarted(app))
    this.#welcome(choice, max >> 1)
    const tookTurns = this.#takeTurns(choice)
    if (!choice.isFull && (this.#place !== null || !tookTurns)) {
      await this.#walk()
      this.#takeTurns(choice)
    }
    this.#welcome(choice, choice.room)
    return [...choice.chosen]
  }

  /** One step of the walk. A pass that finds nothing due ends the crowd. */
  async #walk(): Promise<void> {
    const { store, regions } = this.#deps
    if (this.#place === null) {
      // Lanes that were not chosen in the last pass are found again.
      this.#waiting = new FairQueue()
      this.#served.clear()
      this.#found.clear()
    }
    const most = { applications: applicationsPerStep, lanesEach: this.#lanesEach }
    const { lanes, next } = await store.findDue(this.#place, most, regions)
    for (const lane of lanes) {
      this.#found.add(lane.app)
      this.#waiting.push(lane.app, lane)
    }
    this.#place = next
    if (next !== null) return
    this.#lanesEach = Math.max(lanesPerTurn, Math.ceil(lanesPerPass / Math.max(1, this.#found.size)))
    if (this.#found.size === 0) this.#isCrowded = false
  }

  /** Adds lanes whose turn it is; answers whether there were any. */
  #takeTurns(choice: Choice): boolean {
    let tookTurns = false
    // Ends when as many turns in a row have led to nothing as applications wait.
    for (let vain = 0; vain < this.#waiting.tenants && !choice.isFull; vain++) {
      for (const lane of this.#waiting.shiftSome(Math.min(lanesPerTurn, choice.room))) {
        if (choice.take(lane)) {
          this.#served.add(lane.app)
          tookTurns = true
          vain = -1
        } else this.#waiting.push(lane.app, lane)
      }
    }
    return tookTurns
  }

  /** Adds lanes of newcomers. */
  #welcome(choice: Choice, atMost: number): void {
    for (let left = Math.min(this.#newcomers.size, atMost); left > 0; left--) {
      const lane = present(this.#newcomers.shift(), 'a queue with a size has an item')
      if (!choice.take(lane)) this.#waiting.push(lane.app, lane)
    }
  }
}

/** Lanes that are being chosen. */
class Choice {
  /** A lane that woke may be found by the walk as well. */
  readonly #chosen = new Set<number>()
  readonly #max: number
  readonly #unstartedOf: (app: number) => number
  readonly #ofApp = new Map<number, number>()

  constructor(max: number, unstartedOf: (app: number) => number) {
    this.#max = max
    this.#unstartedOf = unstartedOf
  }

  get chosen(): Iterable<number> {
    return this.#chosen
  }

  get room(): number {
    return this.#max - this.#chosen.size
  }

  get isFull(): boolean {
    return this.room === 0
  }

  /** Chooses a lane, unless its application gets no more. */
  take({ app, endpoint }: DueLane): boolean {
    const taken = this.#ofApp.get(app) ?? this.#unstartedOf(app)
    if (taken >= unstartedLimit) return false
    this.#ofApp.set(app, taken + 1)
    this.#chosen.add(endpoint)
    return true
  }
}

interface ClaimTurnsDeps {
  readonly store: Pick<Store, 'findDue'>
  /** The regions whose lanes this worker may own. */
  readonly regions: Regions
  /** How many lanes of an application this worker owns that have started nothing yet. */
  unstarted(app: number): number
}
