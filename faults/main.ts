import { mkdtempSync, rmSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import { resolve } from 'node:path'
import { Command, InvalidArgumentError, Option } from 'commander'
import type { FaultKind } from './fault-kind.ts'
import { faultKinds } from './faults.ts'
import { type PlantedFault, plantedFaults } from './plants.ts'
import { type Outcome, type Plan, runPlan, type Tools } from './run.ts'
import { describe, type Found, renderFound, renderRows, rowOf } from './table.ts'
import { prepare } from './tools.ts'
import { writeTable } from './write-table.ts'

/**
 * Does every kind of fault to real programs under load, checks what producers and receivers saw, and prints a table.
 * Exits with 1 when a promise was broken, or a planted fault was not found.
 *
 *     npm run faults
 *     npm run faults -- --only power-cut --store sqlite --rounds 20 --seed 42 --keep ./histories
 */
interface Options {
  readonly rounds: number
  readonly only: readonly string[]
  readonly store?: string
  readonly seed: number
  readonly keep?: string
  readonly jobs: number
  readonly dir: string
  readonly write: boolean
}

/** A world takes three seconds to begin and to end, so that several rounds share one. */
const roundsPerWorld = 5
const earlierCuts = 8
/** A planted fault that so many rounds do not find is not found. */
const plantedRounds = 20

const whole = (text: string) => {
  if (!/^[1-9]\d*$/.test(text)) throw new InvalidArgumentError('It must be a whole number above 0.')
  return Number(text)
}

await new Command('faults')
  .description('Makes a table of faults: what was done, what arrived, and what broke.')
  .option('--rounds <number>', 'rounds of each fault', whole, 5)
  .option(
    '--only <names>',
    'faults whose name contains one of these, separated by commas',
    (text) => text.split(','),
    [],
  )
  .addOption(new Option('--store <kind>', 'faults on this store').choices(['sqlite', 'postgres']))
  .option('--seed <number>', 'the first seed; each world adds 1', whole, 1)
  .option('--keep <directory>', 'leave the raw histories there')
  .option('--jobs <number>', 'worlds at once', whole, 2)
  .option('--dir <directory>', 'where the stores are meanwhile', tmpdir())
  .option('--write', 'put the table into docs/faults.md', false)
  .action(main)
  .parseAsync()

async function main(options: Options): Promise<void> {
  const folder = mkdtempSync(`${resolve(options.dir)}/sluice-faults-`)
  process.once('exit', () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
  const begunAt = performance.now()
  const tools = await prepare(folder)
  if (tools.missing !== undefined) console.error(`Faults of disks and clocks are left out: ${tools.missing}`)
  const isWanted = (name: string) => options.only.length === 0 || options.only.some((part) => name.includes(part))
  const isPossible = ({ needsShim, missing }: FaultKind) =>
    (!needsShim || tools.shim !== undefined) && missing === undefined
  for (const { name, missing } of faultKinds.filter((kind) => isWanted(kind.name))) {
    if (missing !== undefined) console.error(`${name} is left out: ${missing}`)
  }

  const kinds = faultKinds.filter((kind) => isWanted(kind.name) && isPossible(kind))
  const lines = kinds.flatMap((kind) => kind.stores.filter(isStoreWanted).map((store) => ({ kind, store })))
  const plans = lines.flatMap((line) => plansOf(line, options))
  const outcomes = await inTurns(plans, options.jobs, async (plan) => report(await runPlan(tools, plan)))
  const rows = lines.map(({ kind, store }) =>
    rowOf(
      kind.name,
      store,
      outcomes.filter(({ plan }) => plan.kind === kind && plan.store === store),
    ),
  )
  const planted = plantedFaults.filter(
    ({ name, store, kind }) => isWanted(name) && isStoreWanted(store) && isPossible(kind),
  )
  const found = await inTurns(planted, options.jobs, (each) => find(tools, each, options))
  const seconds = Math.round((performance.now() - begunAt) / 1000)
  const machine = `${cpus().length} cores (${cpus()[0]?.model ?? 'unknown'}), Node ${process.version}, ${seconds} s`
  const tables = [rows.length > 0 ? renderRows(rows) : '', found.length > 0 ? renderFound(found) : ''].filter(Boolean)
  console.log(`\n${tables.join('\n\n')}\n\n${machine}`)
  if (options.write) writeTable(renderRows(rows), renderFound(found))
  const broken = rows.some(({ violations }) => violations.length > 0) || found.some(({ round }) => round === undefined)
  process.exit(broken ? 1 : 0)

  function isStoreWanted(store: string): boolean {
    return options.store === undefined || options.store === store
  }
}

function plansOf(line: Pick<Plan, 'kind' | 'store'>, { rounds, seed, keep }: Options): Plan[] {
  return Array.from({ length: Math.ceil(rounds / roundsPerWorld) }, (_, i) => ({
    ...line,
    seed: seed + i,
    rounds: Math.min(roundsPerWorld, rounds - i * roundsPerWorld),
    earlierCuts,
    keep: keep && resolve(keep),
  }))
}

/** Tries one round after the other, each with the next seed, until the checker finds the planted fault. */
async function find(tools: Tools, { name, store, kind, plant }: PlantedFault, options: Options): Promise<Found> {
  for (let round = 1; round <= plantedRounds; round++) {
    const seed = options.seed + round - 1
    const outcome = await runPlan(tools, { kind, store, seed, rounds: 1, plant })
    const by = describe(outcome)
    console.error(`planted: ${name} on ${store}, round ${round}: ${by.join('; ') || 'nothing found'}`)
    if (by.length > 0) return { name, store, during: kind.name, round, by }
  }
  return { name, store, during: kind.name, round: undefined, by: [] }
}

/** Tells at once what a world showed, and each violation in full. */
function report(outcome: Outcome): Outcome {
  const { plan, histories, violations, stuck } = outcome
  const summary = `${histories.faults.length} of ${plan.rounds} rounds, ${histories.arrived.length} arrived`
  console.error(`${plan.kind.name} on ${plan.store}, seed ${plan.seed}: ${summary}, ${violations.length} violations`)
  for (const { rule, sentence } of violations.slice(0, 10)) console.error(`  ${rule}: ${sentence}`)
  for (const sentence of stuck) console.error(`  stuck: ${sentence}`)
  return outcome
}

/** Runs each in its turn, so many at once. */
async function inTurns<T, R>(items: readonly T[], atOnce: number, run: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let next = 0
  const take = async (): Promise<void> => {
    for (let i = next++; i < items.length; i = next++) results[i] = await run(items[i] as T)
  }
  await Promise.all(Array.from({ length: atOnce }, take))
  return results
}
