import { Command as Commander, CommanderError, Option } from 'commander'
import { ConfigError, type Loaded, loadConfig } from '../runtime/config.ts'
import { duration } from '../runtime/setting-kinds.ts'
import { flagOf, settingNames, settings } from '../runtime/settings.ts'
import { StoreTrouble } from '../store/store.ts'
import { addAudit, addKey } from './access.ts'
import { addApp, addRegion } from './app.ts'
import { addChaos } from './chaos.ts'
import { option, RemoteCommands, type World } from './command.ts'
import { addCompletion } from './completion.ts'
import { printConfig } from './config.ts'
import { addDead } from './dead.ts'
import { drain } from './drain.ts'
import { addEndpoint } from './endpoint.ts'
import { addEventType } from './event-type.ts'
import { CommandError, exitCode } from './exit.ts'
import { addCircuit, addLane } from './lane.ts'
import { addListen } from './listen.ts'
import { addAgain, addAttempts, addMessages } from './messages.ts'
import { migrate } from './migrate.ts'
import { addOpenapi } from './openapi.ts'
import { addSchedule } from './schedule.ts'
import { addSend } from './send.ts'
import { serve, worker } from './serve.ts'
import { addTail } from './tail.ts'
import { addTask } from './task.ts'
import { cleanTerminal } from './terminal.ts'
import { addWhy } from './why.ts'

/** Runs a command line and returns its exit code. An error that the caller can act on is printed as one message. */
export async function runProgram(given: World, args: readonly string[]): Promise<number> {
  const world: World = { ...given, terminal: cleanTerminal(given.terminal, given.randomText) }
  let code: number = exitCode.ok
  const program = new Commander('sluice')
    .description('Webhook delivery that loses nothing and floods nobody.')
    .version(world.version)
    .configureHelp({ subcommandTerm: termOf })
    .exitOverride()
    .configureOutput({
      writeOut: (text) => world.terminal.print(text.trimEnd()),
      writeErr: (text) => world.terminal.printError(text.trimEnd()),
    })

  const finish = (ended: number) => {
    code = ended
  }
  const command = (name: string, description: string, run: (loaded: Loaded, options: Options) => Promise<number>) => {
    const added = program.command(name).description(description)
    added.addOption(new Option('--config <FILE>', 'JSON file of settings (default: sluice.json, if it exists)'))
    for (const setting of settingNames) added.addOption(optionFor(setting))
    added.action(async (options: Options) => {
      code = await run(load(world, options), options)
    })
    return added
  }
  program.commandsGroup('Run:')
  command('serve', 'run the server: API and deliveries', (loaded) => serve(world, loaded))
  command('worker', 'run a worker without an API, on a shared Postgres database', (loaded) => worker(world, loaded))
  command('migrate', "bring the store's tables up to date", (loaded) => migrate(world, loaded))
  command('config', 'print every setting with its value and source', (loaded, options) =>
    printConfig(world, loaded, options.json === true),
  ).option('--json', 'as JSON')
  command('drain', 'send the deliveries that are due, then exit (for cron)', (loaded, options) =>
    drain(world, loaded, {
      forMs: options.for as number,
      lingerMs: options.linger as number,
      json: options.json === true,
      quiet: options.quiet === true,
    }),
  )
    .addOption(
      option('--for <DURATION>', 'exit after this at the latest', duration(0, 86_400_000)).default(55_000, '55s'),
    )
    .addOption(
      option('--linger <DURATION>', 'exit when nothing can be sent for this long', duration(0, 86_400_000)).default(
        2000,
        '2s',
      ),
    )
    .option('--json', 'report as JSON')
    .option('--quiet', 'print nothing unless there is a problem')

  const remote = new RemoteCommands(program, world, finish)
  program.commandsGroup('Manage:')
  addApp(remote)
  addEndpoint(remote)
  addCircuit(remote)
  addRegion(remote)
  addEventType(remote)
  addKey(remote)
  addAudit(remote)
  program.commandsGroup('Send and follow:')
  addSend(remote)
  addSchedule(remote)
  addMessages(remote)
  addAttempts(remote)
  addWhy(remote)
  addLane(remote)
  addAgain(remote)
  addDead(remote)
  addTask(remote)
  addTail(remote)
  program.commandsGroup('Try out:')
  addListen(remote)
  addChaos(program, world, finish)
  program.commandsGroup('More:')
  addOpenapi(program, world, finish)
  addCompletion(program, world, finish)
  program.addHelpCommand(new Commander('help').argument('[command]').description('show help for a command'))

  try {
    await program.parseAsync(args, { from: 'user' })
    return code
  } catch (error) {
    return explain(world, error)
  }
}

type Options = Readonly<Record<string, unknown>>

function load(
  world: World,
  { config, json: _json, for: _for, linger: _linger, quiet: _quiet, ...flags }: Options,
): Loaded {
  const file = config as string | undefined
  return loadConfig({ flags, env: world.terminal.env, file, directory: world.terminal.directory })
}

function optionFor(name: (typeof settingNames)[number]): Option {
  const { kind, help } = settings[name]
  if (kind.placeholder === undefined) return new Option(flagOf(name), help)
  // Choices are listed in the text: as part of the term they would take up the column.
  const isChoice = kind.placeholder.includes('|')
  const text = isChoice ? `${help}: ${kind.placeholder.replaceAll('|', ', ')}` : help
  return new Option(`${flagOf(name)} <${isChoice ? 'WORD' : kind.placeholder}>`, text)
}

/** The name of a command in help. Operands are left out at the top level, so that the list fits 80 columns. */
function termOf(command: Commander): string {
  if (command.parent?.parent == null) return command.name()
  const operands = command.registeredArguments.map((each) => (each.required ? `<${each.name()}>` : `[${each.name()}]`))
  return [command.name(), ...operands].join(' ')
}

/** Prints an expected error, once. Any other error is a bug and crashes with its trace. */
function explain({ terminal }: World, error: unknown): number {
  // Commander has already printed the error.
  if (error instanceof CommanderError) return error.exitCode === 0 ? exitCode.ok : exitCode.misused
  if (error instanceof ConfigError) {
    terminal.printError(`${error.message}\n\nRun \`sluice config --help\` to see every setting.`)
    return exitCode.misused
  }
  if (error instanceof StoreTrouble) {
    terminal.printError(`The store is not available: ${error.message}.`)
    return exitCode.failed
  }
  if (error instanceof CommandError) {
    terminal.printError(error.message)
    return error.exitCode
  }
  throw error
}
