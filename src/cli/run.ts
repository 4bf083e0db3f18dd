import { existsSync } from 'node:fs'
import { type Command as Commander, Option } from 'commander'
import { type Loaded, loadConfig, showSetting, showSettings } from '../runtime/config.ts'
import type { Terminal } from '../runtime/process.ts'
import { duration } from '../runtime/setting-kinds.ts'
import { flagOf, sectionOf, variableOf } from '../runtime/setting-names.ts'
import { type Config, type Setting, type SettingName, settingNames, settings } from '../runtime/settings.ts'
import type { SchemaPlan } from '../store/migrations.ts'
import { type Options, option, type World } from './command.ts'
import { drain } from './drain.ts'
import { move } from './move.ts'
import { serve, worker } from './serve.ts'
import { CommandError, exitCode, toJson } from './terminal.ts'

type Run = (world: World, loaded: Loaded, options: Options) => Promise<number>

/** Adds the commands that work on the store. Each takes every setting as a flag. */
export function addRun(program: Commander, world: World, finish: (code: number) => void): void {
  const add = (name: string, description: string, run: Run, shown: readonly SettingName[] = settingNames) => {
    const command = program.command(name).description(description)
    addSettings(command, settingNames, shown)
    return command.action(async (options: Options) => {
      world.terminal.whenReaderCloses('continue')
      finish(await run(world, loadSettings(world, options), options))
    })
  }
  const day = 86_400_000
  add('serve', 'run the server: API and deliveries', serve).addOption(acceptLoss())
  add('worker', 'run a worker without an API, on a shared Postgres database', worker, deliverySettings)
  add('migrate', "bring the store's tables up to date", migrate, storeSettings)
    .option('--check', 'change nothing: show what would run, and whether the processes that run now survive it')
    .option('--json', 'print the result of the check as JSON')
    .addOption(acceptLoss())
  addMove(program, world, finish)
  add('config', 'print every setting with its value and source', printConfig).option('--json', 'print JSON')
  add('drain', 'send the deliveries that are due, then exit (for cron)', drain, deliverySettings)
    .addOption(
      option(
        '--for <DURATION>',
        'exit after this at the latest, with every attempt recorded',
        duration(1000, day),
      ).default(55_000, '55s'),
    )
    .addOption(
      option('--linger <DURATION>', 'exit when nothing can be sent for this long', duration(0, day)).default(
        2000,
        '2s',
      ),
    )
    .option('--json', 'report as JSON')
    .option('--quiet', 'print nothing unless there is a problem')
}

/** `sluice move`. The stores are operands of the command, and its settings those that open them. */
function addMove(program: Commander, world: World, finish: (code: number) => void): void {
  const command = program
    .command('move')
    .description('copy a SQLite file into an empty Postgres database, and check it')
  const shown = storeSettings.filter((name) => name !== 'store' && name !== 'storeDirect')
  addSettings(command, shown)
    .addOption(
      option('--from <STORE>', 'the file, such as sqlite:./data/sluice.db', settings.store.kind).makeOptionMandatory(),
    )
    .addOption(option('--to <STORE>', 'the database, such as postgres://user:password@host/db', settings.store.kind))
    .option('--undo', 'use the file again after a move: what was delivered since is delivered once more')
    .option('--json', 'report as JSON')
    .action(async (options: Options) => {
      finish(await move(world, loadSettings(world, options), options))
    })
}

/** No setting, because it must not stay: it is for the one start after a log was lost. */
function acceptLoss(): Option {
  return new Option(
    '--accept-loss',
    'open a SQLite file without its missing write-ahead log, and so without what was in it',
  )
}

/** Reads the settings: the flags that are not options of a command, the environment and the file. */
function loadSettings({ terminal, processes, version }: World, options: Options): Loaded {
  const flags = Object.fromEntries(settingNames.map((name) => [name, options[name]]))
  const loaded = loadConfig({
    flags,
    env: terminal.env,
    file: options.config as string | undefined,
    directory: terminal.directory,
    version,
  })
  // Of several processes, the one that supervises them says it for all.
  if (processes.member === undefined) for (const warning of loaded.warnings) terminal.printError(warning)
  return loaded
}

/** The same for a command on the store of a server. Throws CommandError when the file of the store does not exist. */
export function loadExisting(world: World, options: Options): Config {
  const { config } = loadSettings(world, options)
  if (config.store.kind === 'sqlite' && !existsSync(config.store.path)) {
    const hint = 'Run this where the server runs, or name its store with --store.'
    throw new CommandError(`There is no store at ${config.store.path}. ${hint}`, exitCode.notFound)
  }
  return config
}

/** The settings that a process without an API uses. */
const deliverySettings = settingNames.filter((name) => !settings[name].ofApi)
const storeSettings: readonly SettingName[] = [
  'store',
  'storeDirect',
  'storePasswordFile',
  'storePasswordCommand',
  'encryptionKey',
  'logLevel',
  'logFormat',
]

/** A longer list of settings has headings in the help. */
const headingsFrom = 20

/** Adds the flags of these settings, and `--config`. Flags that are not `shown` are accepted, and left out of the help. */
export function addSettings(
  command: Commander,
  names: readonly SettingName[],
  shown: readonly SettingName[] = names,
): Commander {
  command.addOption(new Option('--config <FILE>', 'JSON file of settings (default: sluice.json, if it exists)'))
  for (const name of names) {
    const flag = optionFor(name)
    if (shown.length > headingsFrom) flag.helpGroup(`${sectionOf[name]}:`)
    command.addOption(shown.includes(name) ? flag : flag.hideHelp())
  }
  return command
}

function optionFor(name: SettingName): Option {
  const { kind, help, fallback } = settings[name] as Setting<unknown>
  if (name === 'apiKey') return new Option(`${flagOf(name)} <TOKEN>`, help).hideHelp()
  const { placeholder } = kind
  // Choices are listed in the text: as part of the term they would take up the column.
  const isChoice = placeholder?.includes('|') === true
  const choices = isChoice ? `: ${placeholder.replaceAll('|', ', ')}` : ''
  const shown =
    fallback === null || fallback === false || isEmpty(fallback)
      ? ''
      : `default: ${kind.show(fallback as NonNullable<unknown>)}; `
  const text = `${help}${choices} (${shown}${variableOf(name)})`
  return new Option(
    placeholder === undefined ? flagOf(name) : `${flagOf(name)} <${isChoice ? 'WORD' : placeholder}>`,
    text,
  )
}

function isEmpty(value: unknown): boolean {
  return Array.isArray(value) && value.length === 0
}

/**
 * `sluice migrate`: brings the store's tables up to date and prints their version. Every start migrates, too. With `--check`
 * it only says what would run; the exit code says whether the processes that run now can go on meanwhile.
 */
const migrate: Run = async (world, { config }, { check, json, acceptLoss }) => {
  const { terminal } = world
  const name = showSetting('store', config)
  if (check === true) return checkMigrations(terminal, name, await world.schemaPlan(config), json === true)
  const { store } = await world.openParts(config, world.openLog(config), { acceptLoss: acceptLoss === true })
  await store.close()
  terminal.print(`${name} has ${describeSchema(await world.schemaPlan(config))}.`)
  return exitCode.ok
}

function checkMigrations(terminal: Terminal, store: string, plan: SchemaPlan, json: boolean): number {
  const { schema, known, steps } = plan
  const isSafe = steps.every((step) => step.isSafe)
  const code = isSafe ? exitCode.ok : exitCode.stopFirst
  if (json) {
    terminal.print(toJson({ store, schema: schema.version, known: known.version, safe: isSafe, migrations: steps }, 2))
    return code
  }
  if (schema.version === 0) {
    terminal.print(`${store} is empty: the first start makes its tables.`)
    return code
  }
  if (steps.length === 0) {
    terminal.print(`${store} has ${describeSchema(plan)}. No migration would run.`)
    return code
  }
  terminal.print(`${store} has schema version ${schema.version}. This version would run:`)
  for (const step of steps) {
    const verdict = step.isSafe ? 'safe beside running processes' : `needs processes that know ${step.worksSince}`
    terminal.print(`  ${step.version} ${step.name}: ${verdict}`)
  }
  terminal.print(
    isSafe
      ? 'Processes that run on this database now can go on: update them one by one.'
      : 'Stop every process that runs on this database before you migrate: they would fail.',
  )
  return code
}

function describeSchema({ schema, known }: SchemaPlan): string {
  if (schema.version > known.version) {
    return `schema version ${schema.version}, of a newer Sluice; this version knows ${known.version} and works on it`
  }
  const { version } = schema
  return version === known.version
    ? `schema version ${version} (${known.name}), the newest known`
    : `schema version ${version}`
}

/** `sluice config`: every setting with its value, the source of the value, and its help. Secrets are masked. */
const printConfig: Run = async ({ terminal }, { config, origins }, { json }) => {
  const rows = showSettings(config, origins)
  if (json === true) {
    terminal.print(toJson(rows, 2))
    return exitCode.ok
  }
  const nameWidth = Math.max(...rows.map(({ name }) => name.length))
  const valueWidth = Math.max(...rows.map(({ value }) => value.length))
  for (const { name, value, origin, help } of rows) {
    const padded = `${terminal.style('bold', name.padEnd(nameWidth))}  ${value.padEnd(valueWidth)}`
    terminal.print(`${padded}  ${origin}`)
    terminal.print(terminal.style('dim', `${' '.repeat(nameWidth)}  ${help}`))
  }
  return exitCode.ok
}
