import type { Random, SteadyMs } from '../domain/clock.ts'
import type { Endpoint } from '../domain/endpoint.ts'
import type { HealthChange } from '../domain/health.ts'
import { type HealthDefaults, rulesOf } from '../domain/health-facts.ts'
import type { Outcome } from '../domain/outcome.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import type { Delivery, OwnedLane } from './owned-lane.ts'
import type { Settler } from './settler.ts'

/** Lets lanes follow how well their receivers do, and sees to it that what must outlive this worker is recorded. */
export class HealthKeeper {
  readonly #parts: HealthKeeperParts

  constructor(parts: HealthKeeperParts) {
    this.#parts = parts
  }

  /** The lane is owned from now on. */
  taken(owned: OwnedLane, now: SteadyMs): void {
    mirror(owned)
    this.#follow(owned, now)
  }

  /** The endpoint's settings changed. Whoever enables it wants to see it tried. */
  changed(owned: OwnedLane, before: Endpoint, now: SteadyMs): void {
    owned.rules = rulesOf(owned.endpoint, this.#parts.defaults)
    if (before.disabled && !owned.endpoint.disabled) owned.health.forget()
    mirror(owned)
    this.#follow(owned, now)
  }

  /** A delivery is about to be sent. */
  began(delivery: Delivery, now: SteadyMs): void {
    const { health } = delivery.owned
    if (health.circuit === 'open') this.#apply(delivery.owned, health.began(), now)
    delivery.era = health.era
  }

  /** An attempt ended. */
  ended(delivery: Delivery, outcome: Outcome, now: SteadyMs): void {
    const { owned } = delivery
    const change = owned.health.ended(outcome, delivery, owned.rules, now, this.#parts.random)
    if (change !== undefined) this.#apply(owned, change, now)
    else if (owned.lane.pace !== owned.health.pace) mirror(owned)
  }

  #follow(owned: OwnedLane, now: SteadyMs): void {
    const { health, rules, endpoint } = owned
    this.#apply(owned, health.follow(rules, now), now)
    this.#apply(owned, health.obey(endpoint.flow.circuitOrder, rules, now), now)
  }

  #apply(owned: OwnedLane, change: HealthChange | undefined, now: SteadyMs): void {
    if (change === undefined) return
    const endpoint = owned.endpoint.key
    const { disableAfterFailingMs } = change
    mirror(owned)
    if (disableAfterFailingMs !== undefined) owned.lane.closed = true
    this.#parts.scheduler.reconsider(owned.lane, now)
    owned.unsettled++
    this.#parts.settler.tell({
      endpoint,
      health: owned.health.toText(now),
      notices: change.notices.map((notice) => ({ ...notice, endpoint })),
      disableAfterFailingMs,
      recorded: () => {
        owned.unsettled--
      },
    })
  }
}

function mirror({ lane, health }: OwnedLane): void {
  lane.silentUntil = health.silentUntil
  lane.probing = health.probing
  lane.pace = health.pace
}

export interface HealthKeeperParts {
  readonly random: Random
  readonly scheduler: Scheduler<Delivery>
  readonly settler: Settler
  readonly defaults: HealthDefaults
}
