import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { startChild } from '../bench/child.ts'
import { type Chance, chanceOf } from '../test/attack/chance.ts'
import type { Life } from '../test/e2e/at-end.ts'
import { Program } from '../test/e2e/program.ts'
import { sources } from '../test/prepared.ts'
import { type Before, cutPower, lookBefore, type Unsynced } from './power-cut.ts'
import type { ReceiverCommands } from './receiver.ts'
import { Shim } from './shim.ts'
import type { TraceRecord } from './trace.ts'

export type StoreKind = 'sqlite' | 'postgres'

/** What every run of this process shares. */
export interface Workshop {
  /** Below it, each world has a folder. */
  readonly folder: string
  /** The shim's library, where this machine has one. */
  readonly shim: string | undefined
  /** The program as one bundle; from its sources without one. */
  readonly bundle: string | undefined
}

export interface WorldOptions {
  readonly seed: number
  /** A module that is loaded before the program, whose sources it changes. */
  readonly plant?: string | undefined
  /** Settings of the programs beside those of every test. */
  readonly settings?: Readonly<Record<string, string>> | undefined
}

/** Programs, a store and a receiver of their own, for one run of faults. `close` ends all of them. */
export abstract class World {
  abstract readonly kind: StoreKind
  readonly chance: Chance
  readonly folder: string
  readonly shim: Shim | undefined
  readonly receiver
  readonly #workshop: Workshop
  readonly #options: WorldOptions
  readonly #ends = new AsyncDisposableStack()
  readonly #life: Life
  readonly #programs = new Map<'serve' | 'worker', Program>()
  #before: Before | undefined

  constructor(workshop: Workshop, options: WorldOptions) {
    this.#workshop = workshop
    this.#options = options
    this.chance = chanceOf(options.seed)
    this.folder = mkdtempSync(join(workshop.folder, 'world-'))
    this.#ends.defer(() => rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 }))
    this.receiver = startChild<ReceiverCommands>('../faults/receiver', this.#ends)
    this.#life = {
      after: (end?: unknown) => this.#ends.defer(end as () => Promise<void>),
      diagnostic() {},
    }
    const disk = join(this.folder, 'disk')
    mkdirSync(disk)
    this.shim = workshop.shim === undefined ? undefined : new Shim(workshop.shim, this.tracedFolder(disk), this.folder)
  }

  /** The setting `store`. */
  abstract get store(): string
  /** Brings the store up, before any program. */
  abstract open(): Promise<void>
  /** How many deliveries have not ended. */
  abstract pending(): Promise<number>
  /** Whether the store finds its own files in order; a sentence when it does not. */
  abstract damage(): Promise<string | undefined>

  /** The folder whose changes the shim traces. */
  protected tracedFolder(disk: string): string {
    return disk
  }

  /** Does something when the world ends: the last comer's first. */
  protected atEnd(end: () => unknown): void {
    this.#ends.defer(async () => void (await end()))
  }

  get server(): Program {
    return this.#programs.get('serve') as Program
  }

  get worker(): Program | undefined {
    return this.#programs.get('worker')
  }

  get programs(): Program[] {
    return [...this.#programs.values()]
  }

  /** Starts a program, also in the place of one that has ended. */
  async start(command: 'serve' | 'worker'): Promise<void> {
    const { plant, settings = {} } = this.#options
    const { bundle } = this.#workshop
    const program = await Program.start(
      this.#life,
      command,
      this.store,
      { ...settings, ...this.settingsOf(command) },
      {
        ...(plant === undefined ? { program: bundle } : { program: sources, nodeArguments: ['--import', plant] }),
        variables: this.programVariables(),
      },
    )
    this.#programs.set(command, program)
  }

  /** Settings of one program beside those of the world. */
  protected settingsOf(_command: 'serve' | 'worker'): Readonly<Record<string, string>> {
    return {}
  }

  /** The shim of a program's own, unless it is the database that has one. */
  protected programVariables(): Readonly<Record<string, string>> {
    return this.shim?.variables ?? {}
  }

  /** Remembers the disk as it is; no program writes to it now. */
  protected lookBefore(folder: string): void {
    if (this.shim === undefined) return
    this.#before = lookBefore(folder, join(this.folder, 'before'))
    this.shim.clearTrace()
  }

  /** Everything that the disk was told since `lookBefore`. */
  protected trace(): readonly TraceRecord[] {
    return this.shim?.readTrace() ?? []
  }

  /** What a power cut after these records leaves in `into`. */
  protected image(records: readonly TraceRecord[], unsynced: Unsynced, into: string) {
    if (this.#before === undefined) throw new Error('a power cut needs the shim')
    return cutPower(this.#before, records, unsynced, this.chance, into)
  }

  async close(): Promise<void> {
    await this.#ends.disposeAsync()
  }
}
