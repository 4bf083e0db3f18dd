#!/usr/bin/env -S node --max-semi-space-size=16 --heap-growing-percent=150
import { CommandError, exitCode } from './cli/outcome.ts'
import { runProgram } from './cli/program.ts'
import type { World } from './cli/world.ts'
import { newestSchema, openApi, openStore, startDelivering } from './compose.ts'
import { systemClock } from './runtime/clock.ts'
import { openLog } from './runtime/log.ts'
import { commandLine, exitOnBugs, exitWith, systemTerminal } from './runtime/process.ts'
import { systemRandomText } from './runtime/random.ts'
import { version } from './runtime/version.ts'
import { FileOwnedError } from './store/sqlite/file-lock.ts'

/** The program: the commands over the real parts. */
const world: World = {
  version,
  clock: systemClock,
  randomText: systemRandomText,
  terminal: systemTerminal,

  openLog(config) {
    const log = openLog(config.logLevel)
    exitOnBugs(log)
    return log
  },

  async openStore(config, log) {
    try {
      return await openStore(config, log)
    } catch (error) {
      const code = error instanceof FileOwnedError ? exitCode.owned : exitCode.failed
      throw new CommandError(`Cannot open the store: ${(error as Error).message}.`, code, { cause: error })
    }
  },

  newestSchema,
  openApi: (config, store, log) => openApi(config, store, log),
  startDelivering,
}

await exitWith(runProgram(world, commandLine()))
