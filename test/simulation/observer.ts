import type { Message } from '../../src/domain/delivery.ts'
import { firstKeyAt } from '../../src/domain/ids.ts'
import { Explainer } from '../../src/features/why/service.ts'
import { Ledger } from '../../src/metrics/ledger.ts'
import type { Store } from '../../src/store/store.ts'
import { serverDefaults } from '../engine/engine-under-test.ts'
import type { VirtualClock } from '../virtual-clock.ts'
import type { History } from './history.ts'
import type { Seeded } from './seeded.ts'

/** An answer to `why`, to be compared with later events. Instants are of the steady clock. */
export interface Prediction {
  readonly askedAt: number
  readonly answeredAt: number
  readonly endpoint: number
  /** The one delivery it is about; 0 when it is about the endpoint. */
  readonly message: number
  readonly reason: string
  readonly reasons: readonly string[]
  /** When it is to move, and not before. */
  readonly nextAt: number | undefined
  /** The attempts in flight by its owner's word, if its owner answered. */
  readonly inFlight: number | undefined
  /** When the delivery's time is up. */
  readonly endsAt: number | undefined
  /** No message that existed at the time of the explanation has a greater key. */
  readonly newestKey: number
}

/** Asks at random moments why random deliveries and endpoints wait, and writes down the explanations. */
export class Observer {
  readonly #deps: ObserverDeps
  readonly #explainer: Explainer
  #over = false

  constructor(deps: ObserverDeps) {
    this.#deps = deps
    this.#explainer = new Explainer(deps.store, deps.clock, serverDefaults, new Ledger(deps))
  }

  watch(): void {
    const { clock, chance } = this.#deps
    const next = () => {
      if (this.#over) return
      void this.#ask().finally(() => clock.after(chance.between(50, 1500), next))
    }
    clock.after(chance.between(50, 1500), next)
  }

  stop(): void {
    this.#over = true
  }

  async #ask(): Promise<void> {
    const { chance, history, store, clock } = this.#deps
    const { key } = chance.pick(history.endpoints)
    const askedAt = clock.steady()
    const [endpoint] = await store.loadEndpoints([key])
    if (endpoint === undefined || this.#over) return
    const sent = history.published.filter((fact) => fact.key !== 0 && fact.endpoints.includes(key)).slice(-30)
    const fact = chance.chance(0.6) && sent.length > 0 ? chance.pick(sent) : undefined
    // A deleted endpoint has no lane to tell of.
    const isGone = () => history.stops.some((stop) => stop.endpoint === key && stop.kind === 'deleted')
    const explained = await (fact === undefined
      ? this.#explainer.endpoint(endpoint)
      : this.#explainer.delivery(
          {
            key: fact.key,
            expunged: false,
            endpoints: fact.endpoints,
            deliverAt: fact.delayed ? clock.now() : null,
          } as unknown as Message,
          endpoint,
        )
    ).catch((error) => {
      if (isGone()) return undefined
      throw error
    })
    if (explained === undefined || this.#over) return
    const { why, lane } = explained
    const endsAt = 'queued' in explained ? explained.queued?.endsAt : null
    const answeredAt = clock.steady()
    history.predictions.push({
      askedAt,
      answeredAt,
      endpoint: key,
      message: fact?.key ?? 0,
      reason: why.reason,
      reasons: why.blockers.map(({ reason }) => reason),
      nextAt: why.nextAt === null ? undefined : answeredAt + why.nextAt - lane.now,
      inFlight: lane.live?.snapshot.inFlight,
      endsAt: endsAt == null ? undefined : answeredAt + endsAt - lane.now,
      newestKey: firstKeyAt(lane.now),
    })
  }
}

export interface ObserverDeps {
  readonly store: Store
  readonly clock: VirtualClock
  readonly chance: Seeded
  readonly history: History
}
