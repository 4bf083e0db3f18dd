import { join } from 'node:path'
import type { FaultKind } from './fault-kind.ts'
import { faultKinds } from './faults.ts'
import type { ReplicatedWorld } from './replicated-world.ts'
import type { Plan } from './run.ts'
import type { StoreKind } from './world.ts'

/** A change of the program's sources: the text `from` of the file becomes `to`. */
export interface Patch {
  readonly file: string
  readonly from: string
  readonly to: string
}

/** A worker whose lease is over goes on: neither it nor the store asks whether it was declared dead. */
export const epochIgnored: readonly Patch[] = [
  {
    file: 'src/store/postgres/settle-statement.ts',
    from: 'select id from worker where id = $1 and ended_at is null for key share',
    to: 'select id from worker where id = $1 for key share',
  },
  {
    file: 'src/engine/membership.ts',
    from: 'return now < this.#leaseUntil && now < this.#unseenFrom',
    to: 'return now < Number.POSITIVE_INFINITY',
  },
  {
    file: 'src/engine/membership.ts',
    from: 'if (renewal?.alive === false) return this.lose()',
    to: '',
  },
  {
    file: 'src/engine/membership.ts',
    from: 'this.#cancelLapse = clock.after(this.#leaseUntil - clock.steady(), onLapsed)',
    to: 'void onLapsed',
  },
]

/** A fault of the program's own, or of its disk, that the checker must find while something else fails. */
export interface PlantedFault {
  readonly name: string
  readonly store: StoreKind
  readonly kind: FaultKind
  readonly plant: NonNullable<Plan['plant']>
}

const kindOf = (name: string) => faultKinds.find((each) => each.name === name) as FaultKind
const lies: Plan['plant'] = {
  begin: (world) => world.shim?.set({ liePercent: 98, lieState: world.chance.below(2 ** 31) }),
}

export const plantedFaults: readonly PlantedFault[] = [
  { name: '98 % of syncs dropped', store: 'sqlite', kind: kindOf('power-cut-dropped'), plant: lies },
  { name: '98 % of syncs dropped', store: 'postgres', kind: kindOf('power-cut-dropped'), plant: lies },
  {
    name: 'an epoch ignored',
    store: 'postgres',
    kind: kindOf('freeze'),
    plant: { module: join(import.meta.dirname, 'plant-epoch.ts') },
  },
  {
    name: 'an asynchronous standby',
    store: 'postgres',
    kind: kindOf('failover-killed'),
    plant: { begin: (world) => (world as ReplicatedWorld).replication.waitForNoStandby() },
  },
]
