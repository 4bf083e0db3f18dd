import type { FastifyInstance } from 'fastify'
import type { Clock } from '../domain/clock.ts'
import type { RandomText } from '../domain/ids.ts'
import type { Loaded } from '../runtime/config.ts'
import type { Logger } from '../runtime/log.ts'
import type { Terminal } from '../runtime/process.ts'
import type { Config } from '../runtime/settings.ts'
import type { Store } from '../store/store.ts'

/** The parts that commands are built from. The composition root supplies them; commands know only these interfaces. */
export interface World {
  readonly version: string
  readonly clock: Clock
  readonly randomText: RandomText
  readonly terminal: Terminal
  openLog(config: Config): Logger
  /** Throws CommandError when the store cannot be opened. */
  openStore(config: Config, log: Logger): Promise<Store>
  /** The newest schema this program knows for the store. */
  newestSchema(config: Config): Promise<{ readonly version: number; readonly name: string }>
  openApi(config: Config, store: Store, log: Logger): Promise<FastifyInstance>
  /** Delivers from the store until stopped. */
  startDelivering(config: Config, store: Store, log: Logger, description: string): Promise<Delivering>
}

export interface Delivering {
  /** Waits for attempts under way up to the limit, then cancels them, records the results and releases the lanes. */
  stop(limitMs: number): Promise<void>
  /** Whether this worker knows of nothing to send within this time. */
  isIdle(withinMs: number): boolean
  /** The number of attempts since the start, by result. */
  readonly tally: Readonly<Record<'delivered' | 'waiting' | 'dead', number>>
}

/** Runs a command with its settings and returns the exit code. */
export type Command = (world: World, loaded: Loaded) => Promise<number>
