import { existsSync } from 'node:fs'
import type { Loaded } from '../runtime/config.ts'
import { keyFileOf } from '../runtime/encryption-keys.ts'
import { type Config, settings } from '../runtime/settings.ts'
import type { Options, World } from './command.ts'
import { counted, grouped } from './table.ts'
import { CommandError, exitCode, progressLine, toJson, withProgress } from './terminal.ts'

/** `sluice move`: copies a SQLite file into an empty Postgres database, and checks the copy. */
export async function move(world: World, { config }: Loaded, options: Options): Promise<number> {
  const { terminal } = world
  const { from, to, undo, json } = options as {
    from: Config['store']
    to?: Config['store']
    undo?: boolean
    json?: boolean
  }
  if (from.kind !== 'sqlite') {
    const hint = 'From Postgres to Postgres, use pg_dump (docs/backup.md).'
    throw new CommandError(`--from must be a SQLite file, such as sqlite:./data/sluice.db. ${hint}`, exitCode.misused)
  }
  if (!existsSync(from.path)) throw new CommandError(`There is no store at ${from.path}.`, exitCode.notFound)
  if (undo === true) {
    const target = await world.undoMove(config, from.path)
    terminal.print(
      target === undefined
        ? `${from.path} was not moved.`
        : `${from.path} can be used again. What was delivered from ${target} since the move will be delivered once more: stop that server first.`,
    )
    return exitCode.ok
  }
  if (to?.kind !== 'postgres')
    throw new CommandError('--to must be postgres://user:password@host/db.', exitCode.misused)
  const target = settings.store.kind.show(to)
  const report = await withProgress(terminal, (progress) => {
    const show = (moved: number, all: number) => progress(progressLine('Moving', moved, all === 0 ? 1 : moved / all))
    return world.moveStore(config, { path: from.path, url: to.url, target }, show).catch((error: unknown) => {
      throw stopped(error)
    })
  })
  if (json === true) {
    terminal.print(toJson({ from: from.path, to: target, ...report }, 2))
    return exitCode.ok
  }
  const { tables, rows, seconds, resumed } = report
  const largest = ['message', 'pending', 'attempt', 'dead', 'endpoint'].map(
    (name) => `${grouped(tables[name] ?? 0)} of ${name}`,
  )
  terminal.print(`${counted(rows, 'row')} of ${Object.keys(tables).length} tables moved: ${largest.join(', ')}.`)
  terminal.print('Counts and hashes of every table are equal in the file and in Postgres.')
  terminal.print(
    `Nothing was delivered for ${seconds.toFixed(1)} s${resumed ? ' in this run, which went on with an earlier one' : ''}, and until you start:`,
  )
  const hasKeyFile = config.encryptionKey === null
  if (hasKeyFile) terminal.print(`\n  export SLUICE_ENCRYPTION_KEY=$(cat ${keyFileOf(from.path)})`)
  terminal.print(`${hasKeyFile ? '' : '\n'}  export SLUICE_STORE='${target}'    # with the password\n  sluice serve`)
  return exitCode.ok
}

/** The end of a move that failed. Nothing is lost: the file has everything. */
function stopped(error: unknown): CommandError {
  const code = error instanceof CommandError ? error.exitCode : exitCode.failed
  return new CommandError(
    `${(error as Error).message.replace(/\.$/, '')}. The file keeps every row; the same command goes on.`,
    code,
    {
      cause: error,
    },
  )
}
