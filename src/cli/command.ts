import { type Command as Commander, InvalidArgumentError, Option } from 'commander'
import type { Move, MoveReport } from '../compose/move.ts'
import type { Opening, Parts } from '../compose/parts.ts'
import { type Clock, parseInstant } from '../domain/clock.ts'
import type { RandomText } from '../domain/ids.ts'
import { keyVariable, profileVariable, urlVariable } from '../runtime/config.ts'
import type { Logger } from '../runtime/log.ts'
import type { Terminal } from '../runtime/process.ts'
import type { Processes } from '../runtime/processes.ts'
import { count, formatAddress, type SettingKind, WrongValue } from '../runtime/setting-kinds.ts'
import { type Config, settings } from '../runtime/settings.ts'
import type { SchemaPlan } from '../store/migrations.ts'
import { Client, type Item, type Query } from './client.ts'
import { chosenProfile } from './profiles.ts'
import { type Column, table } from './table.ts'
import { CommandError, exitCode, toJson } from './terminal.ts'

/** The parts that commands are built from. The composition root supplies them; commands know only these interfaces. */
export interface World {
  readonly version: string
  readonly clock: Clock
  readonly randomText: RandomText
  readonly terminal: Terminal
  openLog(config: Config): Logger
  /**
   * Opens the store and the parts over it, by default as the process that delivers. Throws CommandError when the store
   * cannot be opened.
   */
  openParts(config: Config, log: Logger, opening?: Opening): Promise<Parts>
  /** Several processes behind one address. */
  readonly processes: Processes
  /** The schema of the store, which is only read, and what this program would make of it. Throws like `openParts`. */
  schemaPlan(config: Config): Promise<SchemaPlan>
  /** Copies a SQLite file into a Postgres database. Throws like `openParts`. */
  moveStore(config: Config, move: Move, progress: (moved: number, all: number) => void): Promise<MoveReport>
  /** Has a file that was moved be used again; answers the target of the move. Throws like `openParts`. */
  undoMove(config: Config, path: string): Promise<string | undefined>
}

/** The context of a command that calls a server. */
export interface Session {
  readonly world: World
  readonly terminal: Terminal
  readonly client: Client
  readonly options: Options
  /** Whether to print JSON. */
  readonly json: boolean
  /** Prints a value: all of it as JSON with `--json`, else the text of `human`. */
  show<T>(value: T, human: (value: T) => string): void
}

/** The flags of a command, by name in camel case. */
export type Options = Readonly<Record<string, unknown>>

/** Runs a command with the operands of its usage and returns its exit code, if it is not success. */
type RemoteRun<Usage extends string> = (
  session: Session,
  operands: Operands<Usage>,
  // biome-ignore lint/suspicious/noConfusingVoidType: most commands return nothing
) => Promise<number | void>

/** The operands of a usage such as `show <app> [message]`: `<app>` is text, `[message]` may be undefined. */
type Operands<Usage extends string> = Usage extends `${infer First} ${infer Rest}`
  ? [...Operand<First>, ...Operands<Rest>]
  : Operand<Usage>
type Operand<Word extends string> = Word extends `<${string}>`
  ? [string]
  : Word extends `[${string}]`
    ? [string | undefined]
    : []

/** A list of the API as a table. */
export interface Listing {
  readonly path: string
  readonly query?: Query
  /** The sentence that is printed when the list is empty. */
  readonly empty: string
  readonly columns: readonly Column<Item>[]
}

/** Groups that are not called by a noun that can be counted. */
const uncounted: ReadonlySet<string> = new Set(['audit', 'dead', 'import', 'inbox'])

const serverGroup = 'Server:'
/** The address of a server with default settings. */
export const defaultUrl = `http://${formatAddress(settings.listen.fallback)}`

/** Adds commands that call a server's API, each with `--url`, `--key` and `--json`. */
export class RemoteCommands {
  readonly #parent: Commander
  readonly #world: World
  readonly #finish: (code: number) => void
  readonly #takesStore: boolean

  /** With `takesStore`, the commands work on a store without a server, too. */
  constructor(parent: Commander, world: World, finish: (code: number) => void, takesStore = false) {
    this.#parent = parent
    this.#world = world
    this.#finish = finish
    this.#takesStore = takesStore
  }

  /** Commands that take `--store`: they work on a store without a server, too. */
  onStore(): RemoteCommands {
    return new RemoteCommands(this.#parent, this.#world, this.#finish, true)
  }

  /** Adds a command that only groups others, and returns the commands below it. */
  group(name: string, description: string): RemoteCommands {
    const command = this.#parent.command(name).description(description)
    // Every noun that can be counted works in the singular and in the plural.
    if (!uncounted.has(name)) command.alias(`${name}s`)
    return this.below(command)
  }

  /** The commands below a command. */
  below(command: Commander): RemoteCommands {
    return new RemoteCommands(command, this.#world, this.#finish, this.#takesStore)
  }

  add<Usage extends string>(usage: Usage, description: string, run: RemoteRun<Usage>): Commander {
    const command = this.#parent.command(usage).description(description)
    // The API's word is get and most tools say show: both work for every noun.
    if (/^(get|show) /.test(usage)) command.alias(usage.startsWith('get') ? 'show' : 'get')
    command.action(async () => {
      // A subcommand also sees the flags of its parent, wherever they stand.
      const options: Options = command.optsWithGlobals()
      const operands = command.args as Operands<Usage>
      if (this.#takesStore && options.store !== undefined) {
        const { openOnStore } = await import('./on-store.ts')
        await using served = await openOnStore(this.#world, options)
        return this.#finish((await run(this.#open(options, served.client), operands)) ?? exitCode.ok)
      }
      const code = await run(this.#open(options, openClient(this.#world, options)), operands)
      this.#finish(code ?? exitCode.ok)
    })
    if (this.#takesStore) {
      const help = 'work on this store, without a server: the path of a SQLite file, or postgres://…'
      command.addOption(new Option('--store <STORE>', help).helpGroup(serverGroup))
    }
    return command
      .addOption(
        new Option('--url <URL>', `server URL (default: ${urlVariable}, or ${defaultUrl})`).helpGroup(serverGroup),
      )
      .addOption(new Option('--key <KEY>', `API key (default: ${keyVariable})`).helpGroup(serverGroup))
      .addOption(
        new Option('--profile <NAME>', `server and key that sluice login kept (default: ${profileVariable})`).helpGroup(
          serverGroup,
        ),
      )
      .addOption(new Option('--json', 'print JSON'))
  }

  /** Adds a command that prints a list of the API, with `--limit`. */
  list<Usage extends string>(
    usage: Usage,
    description: string,
    listing: (operands: Operands<Usage>, session: Session) => Listing | Promise<Listing>,
  ): Commander {
    const run: RemoteRun<Usage> = async (session, operands) => printList(session, await listing(operands, session))
    return this.add(usage, description, run).addOption(limitOption())
  }

  /**
   * Adds a command that deletes for good, or sends many things. On a terminal it asks first, with a sentence that names
   * all of it; `--yes` answers for scripts. Without a terminal it does not ask. A command without a sentence needs none.
   */
  addConfirmed<Usage extends string>(
    usage: Usage,
    description: string,
    sentenceOf: (session: Session, operands: Operands<Usage>) => string | undefined | Promise<string | undefined>,
    run: RemoteRun<Usage>,
  ): Commander {
    const confirmed: RemoteRun<Usage> = async (session, operands) => {
      const { terminal, options } = session
      if (options.yes !== true && terminal.asks) {
        const sentence = await sentenceOf(session, operands)
        const answer = sentence === undefined ? 'y' : await terminal.ask(`${sentence} [y/N] `)
        if (!/^y(es)?$/i.test(answer.trim())) throw new CommandError('Nothing was changed.', exitCode.failed)
      }
      return run(session, operands)
    }
    return this.add(usage, description, confirmed).option('--yes', 'do not ask')
  }

  #open(options: Options, client: Client): Session {
    const { terminal } = this.#world
    const json = options.json === true
    return {
      world: this.#world,
      terminal,
      client,
      options,
      json,
      show: (value, human) => terminal.print(json ? toJson(value, 2) : human(value)),
    }
  }
}

/** A client for the server that the flags or the environment name. */
export function openClient({ terminal, clock, version }: World, options: Options): Client {
  const { env } = terminal
  const named = options.profile as string | undefined
  const url = (options.url as string | undefined) ?? env[urlVariable]
  const key = (options.key as string | undefined) ?? env[keyVariable]
  // The key of a profile goes to the server of the profile alone.
  const asksForProfile = options.url === undefined && (named !== undefined || url === undefined)
  const profile = asksForProfile ? chosenProfile(env, named) : undefined
  if (profile === undefined) return new Client({ url: url ?? defaultUrl, key, clock, version })
  return new Client({ url: profile.url, key: (options.key as string | undefined) ?? profile.key, clock, version })
}

/** Changes the given fields of a resource. Without any it asks for no change and says so. */
export async function change({ client, terminal }: Session, path: string, body: Item): Promise<Item> {
  if (Object.values(body).some((value) => value !== undefined)) return client.patch(path, { body })
  const unchanged = await client.get(path)
  terminal.printError('Nothing was changed: no option was given.')
  return unchanged
}

/** A flag with a typed value, such as a duration. */
export function option<T>(flags: string, description: string, kind: SettingKind<T>): Option {
  return new Option(flags, description).argParser((raw) => parse(kind, raw))
}

/** A flag that may be repeated; its value is a list. */
export function repeated(flags: string, description: string): Option {
  return new Option(flags, description).argParser((raw, before: string[] | undefined) => [...(before ?? []), raw])
}

/** The flag for the number of items in a list. */
export function limitOption(): Option {
  return option('--limit <NUMBER>', 'maximum number of items', count(1, 1_000_000)).default(50)
}

/** Prints a list, up to `--limit`: as a JSON array, or as a table with a note when there is more. */
export async function printList(session: Session, { path, query = {}, empty, columns }: Listing): Promise<void> {
  const { terminal, client, json, options } = session
  const { items, more } = await client.list(path, query, options.limit as number)
  if (json) return terminal.print(toJson(items, 2))
  terminal.print(table(terminal, columns, items, empty))
  if (more) printMore(session)
}

/** Prints the note behind a list that was cut off. */
export function printMore({ terminal, options }: Session): void {
  terminal.print(terminal.style('dim', `… and more. Show them with --limit ${(options.limit as number) * 10}.`))
}

/** The instant of an option, as the API takes it. */
export function instantOption(session: Session, name: string, relative: 'ago' | 'ahead' = 'ago'): string | undefined {
  const raw = session.options[name]
  return raw === undefined ? undefined : instantText(String(raw), session.world.clock.now(), relative)
}

/** The help of an option that takes an instant in the past. */
export const instantForm = 'such as 2026-11-15T09:40:00Z, or 2h for two hours ago'

/** JSON on the command line. */
export const jsonValue: SettingKind<unknown> = {
  placeholder: 'JSON',
  parse(raw) {
    try {
      return JSON.parse(String(raw))
    } catch (error) {
      if (error instanceof SyntaxError) throw new WrongValue(`JSON (${error.message})`)
      throw error
    }
  },
  show: (value) => JSON.stringify(value),
}

const isoPattern = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/

/** An instant as RFC 3339, from RFC 3339 or a time ago or ahead such as `2h`. */
export function instantText(raw: string, now: number, relative: 'ago' | 'ahead' = 'ago'): string {
  const span = /^(\d{1,9})(s|m|h|d)$/.exec(raw)
  if (span) {
    const unitMs = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }[span[2] as 's' | 'm' | 'h' | 'd']
    const ms = Number(span[1]) * unitMs
    return new Date(relative === 'ago' ? now - ms : now + ms).toISOString()
  }
  // Instants without a zone are UTC, like all printed instants, whatever the zone of this machine.
  const parsed = isoPattern.test(raw) ? parseInstant(/T[\d:.]+$/.test(raw) ? `${raw}Z` : raw) : Number.NaN
  if (Number.isNaN(parsed)) {
    const expected = `an instant such as 2026-11-15T09:40:00Z or a time ${relative} such as 2h`
    throw new CommandError(`${JSON.stringify(raw)} must be ${expected}.`, exitCode.misused)
  }
  return new Date(parsed).toISOString()
}

/** `NAME=VALUE` pairs as an object. */
export function pairsOf(given: unknown): Record<string, string> | undefined {
  if (given === undefined) return undefined
  const pairs = (given as string[]).map((pair) => {
    const at = pair.indexOf('=')
    if (at < 1) throw new CommandError(`${JSON.stringify(pair)} must be NAME=VALUE.`, exitCode.misused)
    return [pair.slice(0, at), pair.slice(at + 1)] as const
  })
  return Object.fromEntries(pairs)
}

function parse<T>(kind: SettingKind<T>, raw: string): T {
  try {
    return kind.parse(raw)
  } catch (error) {
    if (error instanceof WrongValue) throw new InvalidArgumentError(`It must be ${error.message}.`)
    throw error
  }
}
