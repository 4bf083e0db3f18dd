import { Command as Commander, CommanderError } from 'commander'
import { ConfigError } from '../runtime/config.ts'
import { StoreTrouble } from '../store/store.ts'
import { addAudit, addKey } from './access.ts'
import { addApp, addRegion } from './app.ts'
import { addChaos } from './chaos.ts'
import { RemoteCommands, type World } from './command.ts'
import { addCompletion } from './completion.ts'
import { addDead } from './dead.ts'
import { addEndpoint } from './endpoint.ts'
import { addEventType } from './event-type.ts'
import { CommandError, exitCode } from './exit.ts'
import { addCircuit, addLane } from './lane.ts'
import { addListen } from './listen.ts'
import { addAttempts, addMessages, addResend } from './messages.ts'
import { addRun } from './run.ts'
import { addSchedule } from './schedule.ts'
import { addSend } from './send.ts'
import { addTail } from './tail.ts'
import { addTask } from './task.ts'
import { cleanTerminal, toJson } from './terminal.ts'
import { addWhy } from './why.ts'

/** Runs a command line and returns its exit code. An error that the caller can act on is printed as one message. */
export async function runProgram(given: World, args: readonly string[]): Promise<number> {
  const world: World = { ...given, terminal: cleanTerminal(given.terminal, given.randomText) }
  world.terminal.whenReaderCloses('exit')
  let code: number = exitCode.ok
  const program = buildProgram(world, (ended) => {
    code = ended
  })
  try {
    await program.parseAsync(args, { from: 'user' })
    return code
  } catch (error) {
    return explain(world, error)
  }
}

/** Builds the program with every command. A command calls `finish` with its exit code. */
export function buildProgram(world: World, finish: (code: number) => void): Commander {
  const program = new Commander('sluice')
    .description('Webhook delivery that loses nothing and floods nobody.')
    .version(world.version)
    .configureHelp({ subcommandTerm: termOf })
    .exitOverride()
    .configureOutput({
      writeOut: (text) => world.terminal.print(text.trimEnd()),
      writeErr: (text) => world.terminal.printError(text.trimEnd()),
    })

  program.commandsGroup('Run:')
  addRun(program, world, finish)
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
  addResend(remote)
  addDead(remote)
  addTask(remote)
  addTail(remote)
  program.commandsGroup('Try out:')
  addListen(remote)
  addChaos(program, world, finish)
  program.commandsGroup('More:')
  program
    .command('openapi')
    .description('print the OpenAPI document of the API')
    .option('--json', 'print JSON (always on)')
    .action(async () => {
      // Only here: the schemas take longer to load than most commands to run.
      const { openApiDocument } = await import('../operations/openapi.ts')
      world.terminal.print(toJson(openApiDocument(), 2))
    })
  addCompletion(program, world, finish)
  return program.addHelpCommand(new Commander('help').argument('[command]').description('show help for a command'))
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
