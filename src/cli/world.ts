import type { Parts } from '../compose/parts.ts'
import type { Clock } from '../domain/clock.ts'
import type { RandomText } from '../domain/ids.ts'
import type { Loaded } from '../runtime/config.ts'
import type { Logger } from '../runtime/log.ts'
import type { Terminal } from '../runtime/process.ts'
import type { Config } from '../runtime/settings.ts'

/** The parts that commands are built from. The composition root supplies them; commands know only these interfaces. */
export interface World {
  readonly version: string
  readonly clock: Clock
  readonly randomText: RandomText
  readonly terminal: Terminal
  openLog(config: Config): Logger
  /** Opens the store and the parts over it. Throws CommandError when the store cannot be opened. */
  openParts(config: Config, log: Logger): Promise<Parts>
  /** The newest schema this program knows for the store. */
  newestSchema(config: Config): Promise<{ readonly version: number; readonly name: string }>
}

/** Runs a command with its settings and returns the exit code. */
export type Command = (world: World, loaded: Loaded) => Promise<number>
