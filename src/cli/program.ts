import { Command as Commander, CommanderError, Option } from 'commander'
import { ConfigError, type Loaded, loadConfig } from '../runtime/config.ts'
import { flagOf, settingNames, settings } from '../runtime/settings.ts'
import { StoreTrouble } from '../store/store.ts'
import { printConfig } from './config.ts'
import { migrate } from './migrate.ts'
import { CommandError, exitCode } from './outcome.ts'
import { serve } from './serve.ts'
import { worker } from './worker.ts'
import type { World } from './world.ts'

/** Runs a command line; the answer is the exit code. What the caller can act on is said in one message. */
export async function runProgram(world: World, args: readonly string[]): Promise<number> {
  let code: number = exitCode.ok
  const program = new Commander('sluice')
    .description('Webhook delivery that loses nothing and floods nobody.')
    .version(world.version)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => world.terminal.print(text.trimEnd()),
      writeErr: (text) => world.terminal.printError(text.trimEnd()),
    })

  const command = (name: string, description: string, run: (loaded: Loaded, options: Options) => Promise<number>) => {
    const added = program.command(name).description(description)
    added.addOption(new Option('--config <FILE>', 'a JSON file of settings (default: sluice.json, if there is one)'))
    for (const setting of settingNames) added.addOption(optionFor(setting))
    added.action(async (options: Options) => {
      code = await run(load(world, options), options)
    })
    return added
  }
  command('serve', 'serve the API and deliver', (loaded) => serve(world, loaded))
  command('worker', 'deliver without an API, beside others on one Postgres database', (loaded) => worker(world, loaded))
  command('migrate', "bring the store's tables up to date", (loaded) => migrate(world, loaded))
  command('config', 'print every setting, its value and where it comes from', (loaded, options) =>
    printConfig(world, loaded, options.json === true),
  ).option('--json', 'as JSON')

  try {
    await program.parseAsync(args, { from: 'user' })
    return code
  } catch (error) {
    return explain(world, error)
  }
}

type Options = Readonly<Record<string, unknown>>

function load(world: World, { config, json: _json, ...flags }: Options): Loaded {
  const file = config as string | undefined
  return loadConfig({ flags, env: world.terminal.env, file, directory: world.terminal.directory })
}

function optionFor(name: (typeof settingNames)[number]): Option {
  const { kind, help } = settings[name]
  return new Option(kind.placeholder === undefined ? flagOf(name) : `${flagOf(name)} <${kind.placeholder}>`, help)
}

/** Says what went wrong, once. Whatever is not listed here is a bug and left to crash with its trace. */
function explain({ terminal }: World, error: unknown): number {
  // Commander has already said what it thinks of the command line.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCode.ok : exitCode.misused
  if (error instanceof ConfigError) {
    terminal.printError(`${error.message}\n\nRun \`sluice config --help\` to see every setting.`)
    return exitCode.misused
  }
  if (error instanceof StoreTrouble) {
    terminal.printError(`The store cannot answer: ${error.message}.`)
    return exitCode.failed
  }
  if (error instanceof CommandError) {
    terminal.printError(error.message)
    return error.exitCode
  }
  throw error
}
