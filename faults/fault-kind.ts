import { eventually } from '../test/e2e/eventually.ts'
import type { StoreKind, Workshop, World, WorldOptions } from './world.ts'

/** A kind of fault: a row of the table for each store that it is done to. */
export interface FaultKind {
  readonly name: string
  readonly stores: readonly StoreKind[]
  /** Whether it needs the shim between a program and its disk and clock. */
  readonly needsShim: boolean
  /** How long before the fault an answer may have come that is not on record for good (docs/guarantees.md, the small print). */
  readonly unrecordedMs: number
  readonly leavesOpen?: true
  /** The stores whose clock it moves, and a Retry-After with it. */
  readonly movesHolds?: readonly StoreKind[]
  /** Settings of the programs beside those of every test. */
  readonly settings?: Readonly<Record<string, string>>
  /** Whether everything was delivered and recorded before, and no message is published meanwhile. */
  readonly isQuiet?: true
  /** Whether disks of earlier instants are looked at, too. */
  readonly cutsPower?: true
  /** The programs and servers that it is done to, where they are others than those of its stores. */
  readonly world?: new (
    workshop: Workshop,
    options: WorldOptions,
  ) => World
  /** The reason why this machine cannot do it; undefined where it can. */
  readonly missing?: string | undefined
  /** Does the fault, and resolves when nothing is broken any more. Answers counts of what it did. */
  run(world: World, marks: Marks): Promise<Readonly<Record<string, number>>>
  /** Puts right what would keep the last deliveries waiting for very long. */
  finish?(world: World): void
}

/** A fault calls these at the instants that its row and the checker tell apart. */
export interface Marks {
  /** The primary takes no more writes. */
  gone(): void
  /** Another server takes writes in its place. */
  promoted(): void
  /** Nothing is broken any more, though the fault goes on: from here on, nothing is repeated. */
  healed(): void
}

/** Longer than that of tests: a busy machine must not stop a program for so long that its lease is over without a fault. */
export const leaseMs = 4000

/**
 * An answer is recorded within 15 ms, or with 512 others, and a power cut undoes the records of the last second as well. The rest
 * is for two cores that other programs use, too: beside a load of 20, a statement of Postgres took 0.7 s.
 */
export const unrecordedMs = 1500

/** By then, everything works again that a fault broke; it is a hang guard, and no measurement. */
export const recoveryMs = 60_000
export const pause = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))

/** Waits until a publish can be stored again. Answers whether it can. */
export async function takesWrites(world: World, withinMs: number): Promise<boolean> {
  const isWell = () =>
    fetch(`${world.server.api}/health`).then(
      ({ ok }) => ok,
      () => false,
    )
  return eventually('the store takes writes again', isWell, withinMs).catch(() => false)
}
