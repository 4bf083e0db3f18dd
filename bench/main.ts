import { availableParallelism, cpus, tmpdir } from 'node:os'
import { resolve } from 'node:path'
import { Argument, Command, Option } from 'commander'
import { type Bench, openBench, type Scenario, type StoreKind } from './bench.ts'
import { isMet, renderFigures, roundedFigures } from './report.ts'
import { backlog } from './scenarios/backlog.ts'
import { ingest } from './scenarios/ingest.ts'
import { isolation } from './scenarios/isolation.ts'
import { latency } from './scenarios/latency.ts'
import { rate } from './scenarios/rate.ts'
import { spike } from './scenarios/spike.ts'
import { throughput } from './scenarios/throughput.ts'

/** `npm run bench -- <scenario> [--store sqlite|postgres] [--json]`: measures, and prints one JSON object last. */

const scenarios: Readonly<Record<string, Scenario>> = { throughput, ingest, latency, backlog, isolation, rate, spike }
const limitMs = 180_000

interface Options {
  readonly store: StoreKind
  readonly json: boolean
  readonly dir: string
  readonly profile?: string
}

const summaries = Object.entries(scenarios).map(([name, { summary }]) => `  ${name.padEnd(11)} ${summary}`)

await new Command('bench')
  .description('Measures Sluice, each time beside a reference in the same run.')
  .addArgument(new Argument('<scenario>').choices(Object.keys(scenarios)))
  .addOption(new Option('--store <kind>', 'where everything is kept').choices(['sqlite', 'postgres']).default('sqlite'))
  .option('--json', 'print the JSON object alone', false)
  .option('--dir <directory>', 'where the data goes meanwhile: a disk, not memory', tmpdir())
  .option('--profile <directory>', 'leave a CPU profile of each server there')
  .addHelpText('after', `\nScenarios:\n${summaries.join('\n')}`)
  .action((name: string, options: Options) => main(name, scenarios[name] as Scenario, options))
  .parseAsync()

async function main(name: string, scenario: Scenario, options: Options): Promise<void> {
  const { store, json } = options
  const startedAt = performance.now()
  const note = json ? () => {} : (sentence: string) => console.error(`  ${sentence} …`)
  const profileDir = options.profile && resolve(options.profile)
  const bench = await openBench({ store, parent: options.dir, profileDir, note })
  if (!json) console.error(`${name} on ${store}: ${scenario.summary}`)
  const code = await measure(bench, scenario).then(
    (measured) => {
      const figures = roundedFigures(measured)
      const targets = scenario.targets[store]
      if (!json) console.log(`\n${renderFigures(figures, targets)}\n`)
      const met = targets.every((target) => isMet(figures, target))
      const seconds = Math.round((performance.now() - startedAt) / 1000)
      console.log(JSON.stringify({ scenario: name, store, ...figures, met, ...machine(), seconds }))
      return 0
    },
    (error: Error) => {
      console.error(`bench ${name}: ${error.message}`)
      return 1
    },
  )
  await bench.ends.disposeAsync()
  process.exit(code)
}

/** Runs the scenario, but not past a limit and not past Ctrl-C; either way what it started can be ended afterwards. */
async function measure(bench: Bench, scenario: Scenario): ReturnType<Scenario['run']> {
  const cut = Promise.withResolvers<never>()
  const limit = setTimeout(() => cut.reject(new Error(`not done after ${limitMs / 1000} s`)), limitMs)
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
