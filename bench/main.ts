import { availableParallelism, cpus, tmpdir } from 'node:os'
import { resolve } from 'node:path'
import { Argument, Command, Option } from 'commander'
import { type Bench, openBench, type Scenario, type StoreKind } from './bench.ts'
import { isMet, renderFigures, roundedFigures } from './report.ts'
import { backlog } from './scenarios/backlog.ts'
import { broad } from './scenarios/broad.ts'
import { coalesce } from './scenarios/coalesce.ts'
import { fairness } from './scenarios/fairness.ts'
import { fleet } from './scenarios/fleet.ts'
import { ingest } from './scenarios/ingest.ts'
import { isolation } from './scenarios/isolation.ts'
import { latency } from './scenarios/latency.ts'
import { pooler } from './scenarios/pooler.ts'
import { rate } from './scenarios/rate.ts'
import { rolling } from './scenarios/rolling.ts'
import { shed } from './scenarios/shed.ts'
import { spike } from './scenarios/spike.ts'
import { sustained } from './scenarios/sustained.ts'
import { takeover } from './scenarios/takeover.ts'
import { tenants } from './scenarios/tenants.ts'
import { throughput } from './scenarios/throughput.ts'
import { trickle } from './scenarios/trickle.ts'
import { truth } from './scenarios/truth.ts'
import { wide } from './scenarios/wide.ts'

/** `npm run bench -- <scenario> [--store sqlite|postgres] [--json]`: measures, and prints one JSON object last. */

const scenarios: Readonly<Record<string, Scenario>> = {
  throughput,
  ingest,
  latency,
  backlog,
  isolation,
  rate,
  fairness,
  shed,
  spike,
  coalesce,
  broad,
  wide,
  fleet,
  tenants,
  takeover,
  rolling,
  trickle,
  truth,
  pooler,
  sustained,
}
/** Beyond the minutes that a long scenario is asked to run. */
const limitMs = 600_000

interface Options {
  readonly store: StoreKind
  readonly json: boolean
  readonly dir: string
  readonly minutes: number
  readonly profile?: string
}

const summaries = Object.entries(scenarios).map(([name, { summary }]) => `  ${name.padEnd(11)} ${summary}`)

await new Command('bench')
  .description('Measures Sluice, each time beside a reference in the same run.')
  .addArgument(new Argument('<scenario>').choices(Object.keys(scenarios)))
  .addOption(new Option('--store <kind>', 'where everything is kept').choices(['sqlite', 'postgres']).default('sqlite'))
  .option('--json', 'print the JSON object alone', false)
  .option('--dir <directory>', 'where the data goes meanwhile: a disk, not memory', tmpdir())
  .option('--minutes <number>', 'how long a long scenario runs', Number, 10)
  .option('--profile <directory>', 'leave a CPU profile of each server there')
  .addHelpText('after', `\nScenarios:\n${summaries.join('\n')}`)
  .action((name: string, options: Options) => main(name, scenarios[name] as Scenario, options))
  .parseAsync()

async function main(name: string, scenario: Scenario, options: Options): Promise<void> {
  const { store, json } = options
  const note = json ? () => {} : (sentence: string) => console.error(`  ${sentence} …`)
  const profileDir = options.profile && resolve(options.profile)
  if (!json) console.error(`${name} on ${store}: ${scenario.summary}`)
  try {
    const startedAt = performance.now()
    await using bench = await openBench({ store, parent: options.dir, minutes: options.minutes, profileDir, note })
    const figures = roundedFigures(await measure(bench, scenario))
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    const targets = scenario.targets[store]
    const missed = targets.filter((target) => !isMet(figures, target))
    if (!json) console.log(`\n${renderFigures(figures, targets)}\n`)
    console.log(JSON.stringify({ scenario: name, store, ...figures, met: missed.length === 0, ...machine(), seconds }))
    const broken = missed.filter(({ promised }) => promised).map(({ figure }) => `${figure} is ${figures[figure]}`)
    if (broken.length > 0) throw new Error(`a promise is broken: ${broken.join(', ')}`)
  } catch (error) {
    console.error(`bench ${name}: ${(error as Error).message}`)
    process.exitCode = 1
  }
  process.exit()
}

/** Runs the scenario, but not past a limit and not past Ctrl-C; either way what it started can be ended afterwards. */
async function measure(bench: Bench, scenario: Scenario): ReturnType<Scenario['run']> {
  const cut = Promise.withResolvers<never>()
  const withinMs = limitMs + (scenario.isLong ? bench.minutes * 60_000 : 0)
  const limit = setTimeout(() => cut.reject(new Error(`not done after ${withinMs / 1000} s`)), withinMs)
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => cut.reject(new Error(`stopped by ${signal}`)))
  }
  try {
    return await Promise.race([scenario.run(bench), cut.promise])
  } finally {
    clearTimeout(limit)
  }
}

function machine(): Record<string, string | number> {
  return {
    date: new Date().toISOString().slice(0, 10),
    node: process.version,
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: availableParallelism(),
  }
}
