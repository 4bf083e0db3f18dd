import { existsSync } from 'node:fs'
import { type Command as Commander, Option } from 'commander'
import type { Delivering } from '../compose/delivering.ts'
import type { Parts } from '../compose/parts.ts'
import type { SteadyMs } from '../domain/clock.ts'
import type { Meter } from '../metrics/meter.ts'
import { type Loaded, loadConfig, showSetting, showSettings } from '../runtime/config.ts'
import type { Logger } from '../runtime/log.ts'
import { duration } from '../runtime/setting-kinds.ts'
import {
  type Config,
  flagOf,
  type Setting,
  type SettingName,
  sectionOf,
  settingNames,
  settings,
  variableOf,
} from '../runtime/settings.ts'
import { type Options, option, type World } from './command.ts'
import { serve, stopDelivering, worker } from './serve.ts'
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
  add('serve', 'run the server: API and deliveries', serve)
  add('worker', 'run a worker without an API, on a shared Postgres database', worker, deliverySettings)
  add('migrate', "bring the store's tables up to date", migrate, storeSettings)
  add('config', 'print every setting with its value and source', printConfig).option('--json', 'print JSON')
  add('drain', 'send the deliveries that are due, then exit (for cron)', drain, deliverySettings)
    .addOption(
      option(
        '--for <DURATION>',
        'exit after this at the latest, attempts under way included',
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

/** Reads the settings: the flags that are not options of a command, the environment and the file. */
function loadSettings({ terminal }: World, options: Options): Loaded {
  const flags = Object.fromEntries(settingNames.map((name) => [name, options[name]]))
  return loadConfig({
    flags,
    env: terminal.env,
    file: options.config as string | undefined,
    directory: terminal.directory,
  })
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
const storeSettings: readonly SettingName[] = ['store', 'encryptionKey', 'logLevel', 'logFormat']

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

/** `sluice migrate`: brings the store's tables up to date and prints their version. Every start migrates, too. */
const migrate: Run = async (world, { config }) => {
  const { store } = await world.openParts(config, world.openLog(config))
  await store.close()
  const { version, name } = await world.newestSchema(config)
  world.terminal.print(`${showSetting('store', config)} has schema version ${version} (${name}), the newest known.`)
  return exitCode.ok
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

const lookMs = 25
/** Nothing is started in the last part of the time, so that attempts under way can end. */
const closingMs = 5000
/** After that, results are recorded and lanes handed back. */
const handBackMs = 2000

/**
 * `sluice drain`: sends the deliveries that are due and ends, for hosts with cron and no long-running processes. When
 * another process already delivers from the SQLite file, it ends at once, successfully. `--for` is a hard limit: whatever
 * is not handed back by then belongs to the next process once the lease expires.
 */
async function drain(world: World, { config }: Loaded, options: Options): Promise<number> {
  const { for: forMs, quiet } = options as { for: number; quiet?: boolean }
  // With --quiet, cron has no output to mail unless there is a problem.
  const log = world.openLog(quiet ? { ...config, logLevel: 'warn' } : config)
  let cancel = () => {}
  const late = new Promise<number>((resolve) => {
    cancel = world.clock.after(forMs, () => {
      log.error('time limit reached before the store answered: its lanes are free when the lease expires')
      resolve(exitCode.failed)
    })
  })
  return Promise.race([drainStore(world, config, log, options), late]).finally(() => cancel())
}

async function drainStore(world: World, config: Config, log: Logger, options: Options): Promise<number> {
  const { terminal, clock } = world
  const { for: forMs, linger: lingerMs, quiet, json } = options as { for: number; linger: number } & Options
  const partMs = Math.floor(forMs / 4)
  const abortAt = clock.steady() + forMs - Math.min(handBackMs, partMs)
  const startUntil = abortAt - Math.min(closingMs, partMs, config.shutdownLimit)
  const stopRequested = terminal.stopRequested()
  const say = quiet ? () => {} : terminal.print
  const parts = await openUnlessOwned(world, config, log, (reason) =>
    say(json ? toJson({ ended: 'owned', reason }) : `Nothing to do: ${reason}.`),
  )
  if (parts === undefined) return exitCode.ok
  try {
    const delivering = await parts.startDelivering(`sluice drain (${terminal.description})`)
    const ended = await waitForEnd(world, delivering, startUntil, lingerMs, stopRequested)
    const limitMs = Math.min(config.shutdownLimit, Math.max(0, abortAt - clock.steady()))
    const code = await stopDelivering(delivering, limitMs, log)
    say(report(parts.meter, ended, json === true))
    return code
  } finally {
    await parts.store.close()
  }
}

async function openUnlessOwned(
  world: World,
  config: Config,
  log: Logger,
  onOwned: (reason: string) => void,
): Promise<Parts | undefined> {
  try {
    return await world.openParts(config, log)
  } catch (error) {
    if (!(error instanceof CommandError) || error.exitCode !== exitCode.owned) throw error
    onOwned((error.cause as Error).message)
    return undefined
  }
}

type End = 'idle' | 'time' | 'signal'

/** Resolves when nothing can be sent within the linger, the time to start attempts is up, or a signal arrives. */
function waitForEnd(
  { clock }: World,
  delivering: Delivering,
  startUntil: SteadyMs,
  lingerMs: number,
  stopRequested: Promise<unknown>,
): Promise<End> {
  let cancel = () => {}
  const ended = new Promise<End>((resolve) => {
    const look = () => {
      const leftMs = startUntil - clock.steady()
      if (delivering.isIdle(lingerMs)) resolve('idle')
      else if (leftMs <= 0) resolve('time')
      else cancel = clock.after(Math.min(lookMs, leftMs), look)
    }
    look()
  })
  return Promise.race([ended, stopRequested.then(() => 'signal' as const)]).finally(() => cancel())
}

function report({ ends, deliveriesRetried: waiting }: Meter, ended: End, json: boolean): string {
  const delivered = ends.delivered
  const dead = ends.dead + ends.expired + ends.dropped
  if (json) return toJson({ ended, delivered, waiting, dead })
  const reason = { idle: 'nothing more is due', time: 'time limit reached', signal: 'stopped by a signal' }[ended]
  return `Drained: ${delivered} delivered, ${waiting} to retry, ${dead} dead; ${reason}.`
}
