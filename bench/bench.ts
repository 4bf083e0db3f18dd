import { chmod, mkdtemp, rm, statfs } from 'node:fs/promises'
import { join } from 'node:path'

export type StoreKind = 'sqlite' | 'postgres'

/** One run of one scenario: its store and directory, and the processes that end with it. */
export interface Bench extends AsyncDisposable {
  readonly store: StoreKind
  /** An empty directory on a disk, removed afterwards. */
  readonly dir: string
  /** Where each server leaves a CPU profile when it ends, if anywhere. */
  readonly profileDir: string | undefined
  /** How long a scenario that is long runs. */
  readonly minutes: number
  /** Whatever is started says here how it ends; disposed in reverse order, also on failure and Ctrl-C. */
  readonly ends: AsyncDisposableStack
  /** Says on standard error what is going on. */
  note(sentence: string): void
}

/** A number that must be reached for the scenario to count as met. */
export interface Target {
  readonly figure: string
  readonly atLeast?: number
  readonly atMost?: number
  /** Missing it breaks a promise on any machine, however slow, and fails the run. */
  readonly promised?: true
}

export type Row = Readonly<Record<string, number | string>>

/** The figures of a scenario, in the order of the report. */
export type Figures = Readonly<Record<string, number | string | readonly Row[]>>

export interface Scenario {
  /** The measured figure and its reference, in one sentence. */
  readonly summary: string
  readonly targets: Readonly<Record<StoreKind, readonly Target[]>>
  /** It runs for as many minutes as are asked for. */
  readonly isLong?: true
  run(bench: Bench): Promise<Figures>
}

const tmpfsMagic = 0x01021994

/** Makes the run's directory in `parent`. Data kept in memory makes a commit free, so tmpfs is named as a flaw. */
export async function openBench(
  choices: Pick<Bench, 'store' | 'profileDir' | 'minutes' | 'note'> & { readonly parent: string },
): Promise<Bench> {
  const { parent, note } = choices
  const ends = new AsyncDisposableStack()
  const dir = await mkdtemp(join(parent, 'sluice-bench-'))
  ends.defer(() => rm(dir, { recursive: true, force: true }))
  await chmod(dir, 0o755) // Postgres may run as another user and must pass through.
  if ((await statfs(dir)).type === tmpfsMagic) {
    note(`${parent} is kept in memory: commits cost nothing there and the figures flatter. Name a disk with --dir.`)
  }
  const { store, profileDir, minutes } = choices
  return { store, dir, profileDir, minutes, ends, note, [Symbol.asyncDispose]: () => ends.disposeAsync() }
}
