import { FairQueue } from '../domain/fair-queue.ts'
import type { Regions } from '../domain/region.ts'
import type { DueLane, DuePlace, Store } from '../store/store.ts'

/** Applications that one step of the walk looks at. */
const applicationsPerStep = 128
/** Lanes that a pass finds of each application: many where few applications have lanes that are due, else few. */
const lanesPerPass = 256
const leastLanesEach = 4
/**
 * An application of which this many owned lanes have started nothing gets no more: it has no slots, or may not send for a
 * moment. Its other lanes cost no memory meanwhile, and do not delay those of others.
 */
const unstartedLimit = 32

/**
 * Chooses the lanes that are claimed next while more are due than one claim takes. Applications take turns, a lane a turn,
 * from the first claim on. The walk over the store's due lanes goes on where it stopped, so that a choice costs the same
 * however many lanes are due; a lane that wakes meanwhile takes its turn without waiting for the walk, unless others of its
 * application wait already.
 */
export class ClaimTurns {
  readonly #parts: ClaimTurnsParts
  #isCrowded = false
  #waiting = new FairQueue<DueLane>()
  /** Where the walk stopped; null in front of the first application. */
  #place: DuePlace | null = null
  #lanesEach = leastLanesEach
  /** Applications of which the pass under way found lanes. */
  readonly #found = new Set<number>()

  constructor(parts: ClaimTurnsParts) {
    this.#parts = parts
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
    for (const lane of lanes) if (!this.#waiting.has(lane.app)) this.#waiting.push(lane.app, lane)
  }

  /** Chooses up to `max` lanes; none while all that are due belong to applications that get no more. */
  async next(max: number): Promise<number[]> {
    const chosen = this.#choose(max)
    if (chosen.length === max || (chosen.length > 0 && this.#place === null)) return chosen
    await this.#walk()
    return [...chosen, ...this.#choose(max - chosen.length)]
  }

  /** One step of the walk. A pass that finds nothing due ends the crowd. */
  async #walk(): Promise<void> {
    const { store, regions } = this.#parts
    if (this.#place === null) {
      // Lanes that were not chosen in the last pass are found again.
      this.#waiting = new FairQueue()
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
    this.#lanesEach = Math.max(leastLanesEach, Math.ceil(lanesPerPass / Math.max(1, this.#found.size)))
    if (this.#found.size === 0) this.#isCrowded = false
  }

  #choose(max: number): number[] {
    const chosen: number[] = []
    const ofApp = new Map<number, number>()
    const kept: DueLane[] = []
    for (let left = this.#waiting.size; left > 0 && chosen.length < max; left--) {
      const lane = this.#waiting.shift() as DueLane
      const taken = ofApp.get(lane.app) ?? this.#parts.unstarted(lane.app)
      if (taken >= unstartedLimit) kept.push(lane)
      else {
        ofApp.set(lane.app, taken + 1)
        chosen.push(lane.endpoint)
      }
    }
    for (const lane of kept) this.#waiting.push(lane.app, lane)
    return chosen
  }
}

interface ClaimTurnsParts {
  readonly store: Pick<Store, 'findDue'>
  /** The regions whose lanes this worker may own. */
  readonly regions: Regions
  /** How many lanes of an application this worker owns that have started nothing yet. */
  unstarted(app: number): number
}
