#!/usr/bin/env -S node --min-semi-space-size=12 --max-semi-space-size=12 --heap-growing-percent=100
import type { World } from './cli/command.ts'
import { runProgram } from './cli/program.ts'
import { CommandError, exitCode } from './cli/terminal.ts'
import { systemClock } from './runtime/clock.ts'
import { ConfigError } from './runtime/config.ts'
import { openLog } from './runtime/log.ts'
import { commandLine, exitOnBugs, exitWith, keepTicksFast, systemTerminal } from './runtime/process.ts'
import { processesOf } from './runtime/processes.ts'
import { systemRandomText } from './runtime/random.ts'
import { readTraceSettings } from './runtime/trace-settings.ts'
import { version } from './runtime/version.ts'

const systemProcesses = processesOf(systemTerminal.env)

/** Loaded by the commands that need them: the parts take 300 ms, and a command that only asks a server has none. */
const parts = () => import('./compose/parts.ts')

/** The program: the commands over the real parts. */
const world: World = {
  version,
  clock: systemClock,
  randomText: systemRandomText,
  terminal: systemTerminal,

  openLog(config) {
    const log = openLog({ ...config, pid: systemProcesses.member && process.pid })
    exitOnBugs(log)
    return log
  },

  async openParts(config, log, opening) {
    const { openParts } = await parts()
    try {
      const { settings, problems } = readTraceSettings(systemTerminal.env)
      for (const problem of problems) log.warn(problem)
      return await openParts(config, log, { ...opening, traces: settings, member: systemProcesses.member })
    } catch (error) {
      throw await notOpened(error)
    }
  },

  processes: systemProcesses,

  async schemaPlan(config) {
    const { schemaPlan } = await parts()
    return schemaPlan(config).catch(async (error) => {
      throw await notOpened(error)
    })
  },

  async moveStore(...given) {
    const { moveStore } = await import('./compose/move.ts')
    return moveStore(...given).catch(async (error) => {
      throw await notOpened(error, 'Cannot move the store')
    })
  },

  async undoMove(...given) {
    const { undoMove } = await import('./compose/move.ts')
    return undoMove(...given).catch(async (error) => {
      throw await notOpened(error)
    })
  },
}

/** The error of a command whose store cannot be opened. */
async function notOpened(error: unknown, failure = 'Cannot open the store'): Promise<Error> {
  if (error instanceof ConfigError) return error
  const { FileOwnedError } = await import('./store/sqlite/file-use.ts')
  const code = error instanceof FileOwnedError ? exitCode.owned : exitCode.failed
  return new CommandError(`${failure}: ${(error as Error).message}.`, code, { cause: error })
}

keepTicksFast()
// Not awaited: the bundle of the executable is CommonJS, which has no top-level await.
void exitWith(runProgram(world, commandLine()))
