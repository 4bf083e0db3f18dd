import type { FastifyInstance } from 'fastify'
import type { Clock } from '../domain/clock.ts'
import type { RandomText } from '../domain/ids.ts'
import type { Loaded } from '../runtime/config.ts'
import type { Logger } from '../runtime/log.ts'
import type { Terminal } from '../runtime/process.ts'
import type { Config } from '../runtime/settings.ts'
import type { Store } from '../store/store.ts'

/** What commands are made from. The composition root supplies it; nothing below knows which parts stand behind it. */
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
  /** Waits for attempts under way up to the limit; then gives them up, records what happened and hands lanes back. */
  stop(limitMs: number): Promise<void>
  /** Whether nothing can be sent within this time, as far as is known. */
  isIdle(withinMs: number): boolean
  /** How many attempts ended how, since the start. */
  readonly tally: Readonly<Record<'delivered' | 'waiting' | 'dead', number>>
}

/** A command with its settings read. */
export type Command = (world: World, loaded: Loaded) => Promise<number>
