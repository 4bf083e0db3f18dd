import { type Store, StoreTrouble } from '../../src/store/store.ts'
import type { VirtualClock } from '../virtual-clock.ts'
import type { SimProcess } from './process.ts'
import type { Seeded } from './seeded.ts'

/** How often a call to the store goes wrong, while `on`. */
export interface StoreFaults {
  on: boolean
  /** Busy: nothing happened. */
  readonly busy: number
  /** It happened, but the answer was lost. */
  readonly lostAnswer: number
  /** The process dies just before, or just after. */
  readonly crash: number
  readonly latencyMs: readonly [number, number]
}

/**
 * The real store as one process sees it over a bad line. Each call may be late, fail before or after it took effect, or
 * be the last thing the process ever did.
 */
export function faultyStore(
  store: Store,
  process: SimProcess,
  world: VirtualClock,
  chance: Seeded,
  faults: StoreFaults,
): Store {
  const wait = (ms: number) => new Promise<void>((resolve) => void process.clock.after(ms, resolve))
  const never = new Promise<never>(() => {})

  async function call(method: (...args: unknown[]) => Promise<unknown>, args: unknown[]): Promise<unknown> {
    await wait(chance.between(...faults.latencyMs))
    if (faults.on && chance.chance(faults.crash)) {
      process.kill(world.steady())
      return never
    }
    if (faults.on && chance.chance(faults.busy)) throw new StoreTrouble('busy')
    const result = await method.apply(store, args)
    if (faults.on && chance.chance(faults.crash)) {
      process.kill(world.steady())
      return never
    }
    await wait(chance.between(...faults.latencyMs))
    if (faults.on && chance.chance(faults.lostAnswer)) throw new StoreTrouble('the answer was lost')
    return result
  }

  return new Proxy(store, {
    get(target, name) {
      const value = Reflect.get(target, name)
      if (typeof value !== 'function' || name === 'watch') return value
      return (...args: unknown[]) => call(value, args)
    },
  })
}
