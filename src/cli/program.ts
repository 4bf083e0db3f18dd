import { Command as Commander, CommanderError } from 'commander'
import { addAlert } from '../features/alerts/command.ts'
import { addKey } from '../features/api-keys/command.ts'
import { addApp } from '../features/applications/command.ts'
import { addApply } from '../features/apply/command.ts'
import { addAttempts } from '../features/attempts/command.ts'
import { addAudit } from '../features/audit/command.ts'
import { addDead } from '../features/dead-letters/command.ts'
import { addDoctor } from '../features/doctor/command.ts'
import { addEndpoint } from '../features/endpoints/command.ts'
import { addErase, addSubject } from '../features/erasure/command.ts'
import { addEventType } from '../features/event-types/command.ts'
import { addHealth } from '../features/health/command.ts'
import { addInbox } from '../features/inbox/command.ts'
import { addCircuit, addLane } from '../features/lanes/command.ts'
import { addTail } from '../features/live/tail-command.ts'
import { addTop, addWorkers } from '../features/live/top-command.ts'
import { addMessages, addResend, addSend } from '../features/messages/command.ts'
import { addRegion } from '../features/regions/command.ts'
import { addSchedule } from '../features/schedules/command.ts'
import { addDashboard, addSession } from '../features/sessions/command.ts'
import { addSource } from '../features/sources/command.ts'
import { addImport } from '../features/svix-import/command.ts'
import { addTask } from '../features/tasks/command.ts'
import { addView } from '../features/views/command.ts'
import { addWhy } from '../features/why/command.ts'
import { ConfigError } from '../runtime/config.ts'
import { StoreTrouble } from '../store/store.ts'
import { addChaos } from './chaos.ts'
import type { ApiProblem } from './client.ts'
import { RemoteCommands, type World } from './command.ts'
import { addCompletion } from './completion.ts'
import { addListen } from './listen.ts'
import { addLogin } from './login.ts'
import { addRun } from './run.ts'
import { CommandError, cleanTerminal, exitCode, toJson } from './terminal.ts'

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
    const asJson = args.includes('--json')
    const { code: exit, message } = explain(error)
    if (message === undefined) return exit
    const { status, code: problem } = error as Partial<ApiProblem>
    const usage = error instanceof CommanderError ? `\n${usageOf(program, args)}` : ''
    const text = asJson ? toJson({ error: message, exitCode: exit, status, code: problem }) : `${message}${usage}`
    world.terminal.printError(text)
    return exit
  }
}

/** Builds the program with every command. A command calls `finish` with its exit code. */
export function buildProgram(world: World, finish: (code: number) => void): Commander {
  const program = new Commander('sluice')
    .description('Webhook delivery that loses nothing and floods nobody.')
    .version(world.version)
    .configureHelp({ subcommandTerm: termOf, minWidthToWrap: 24 })
    .exitOverride()
    .configureOutput({
      writeOut: (text) => world.terminal.print(text.trimEnd()),
      // Errors are printed once, by `runProgram`; help of a group without a command also comes here.
      writeErr: (text) => world.terminal.printError(text.trimEnd()),
      outputError: () => {},
    })

  program.commandsGroup('Run:')
  addRun(program, world, finish)
  const remote = new RemoteCommands(program, world, finish)
  program.commandsGroup('Manage:')
  addApp(remote.onStore())
  addEndpoint(remote.onStore())
  addCircuit(remote)
  addRegion(remote)
  addEventType(remote)
  addKey(remote)
  addSession(remote)
  addLogin(remote)
  addAudit(remote)
  addView(remote)
  addImport(remote)
  addApply(remote)
  program.commandsGroup('Send and follow:')
  addSend(remote.onStore())
  addSchedule(remote)
  addSource(remote)
  addInbox(remote)
  addMessages(remote)
  addAttempts(remote)
  addDoctor(remote)
  addHealth(remote)
  addAlert(remote)
  addWhy(remote)
  addLane(remote)
  addTop(remote)
  addWorkers(remote)
  addResend(remote)
  addDead(remote)
  addTask(remote)
  addErase(remote)
  addSubject(remote)
  addTail(remote)
  addDashboard(remote)
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

/** Usage of the command that the arguments name, and how to see its options. */
function usageOf(program: Commander, args: readonly string[]): string {
  let command = program
  for (const arg of args) {
    const named = command.commands.find((each) => each.name() === arg || each.aliases().includes(arg))
    if (named === undefined) break
    command = named
  }
  if (command === program) return 'Run `sluice --help` to see every command.'
  const names = [command.name()]
  for (let parent = command.parent; parent !== null; parent = parent.parent) names.unshift(parent.name())
  const path = names.join(' ')
  return `Usage: ${path} ${command.usage()}\nRun \`${path} --help\` to see every option.`
}

/** The name of a command in help. Operands are left out at the top level, so that the list fits 80 columns. */
function termOf(command: Commander): string {
  if (command.parent?.parent == null) return command.name()
  const operands = command.registeredArguments.map((each) => (each.required ? `<${each.name()}>` : `[${each.name()}]`))
  return [command.name(), ...operands].join(' ')
}

/** The exit code and the message of an expected error. Any other error is a bug and crashes with its trace. */
function explain(error: unknown): { readonly code: number; readonly message?: string } {
  if (error instanceof CommanderError) {
    // Help and the version end as errors, too, and have been printed.
    if (error.exitCode === 0) return { code: exitCode.ok }
    return error.code === 'commander.help'
      ? { code: exitCode.misused }
      : { code: exitCode.misused, message: error.message }
  }
  if (error instanceof ConfigError) {
    const message = `${error.message}\n\nRun \`sluice config --help\` to see every setting.`
    return { code: exitCode.misused, message }
  }
  if (error instanceof StoreTrouble) {
    return { code: exitCode.failed, message: `The store is not available: ${error.message}.` }
  }
  if (error instanceof CommandError) return { code: error.exitCode, message: error.message }
  throw error
}
