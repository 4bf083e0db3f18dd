import { readFileSync } from 'node:fs'
import { BlockList, isIP } from 'node:net'
import { resolve } from 'node:path'
import { nearest } from '../domain/phrases.ts'
import { maskUrl, type SettingKind, WrongValue } from './setting-kinds.ts'
import { flagOf, variableOf } from './setting-names.ts'
import { type Config, type SettingName, settingNames, settings } from './settings.ts'

/** The sources of settings, the strongest first: flags, environment, file. */
export interface SettingOrigins {
  /** The flags of the command line, by setting name. */
  readonly flags: Readonly<Record<string, unknown>>
  readonly env: Readonly<Record<string, string | undefined>>
  /** `--config FILE`; without it, `SLUICE_CONFIG`, or `sluice.json` if that exists. */
  readonly file?: string | undefined
  readonly directory: string
  /** The version of this program, such as 0.1.0. */
  readonly version: string
}

/** A configuration with the source of each value. */
export interface Loaded {
  readonly config: Config
  /** Such as `flag --listen`, `environment SLUICE_LISTEN`, `file sluice.json` or `default`. */
  readonly origins: Readonly<Record<SettingName, string>>
  /** Settings of a newer version, which this one ignores. */
  readonly warnings: readonly string[]
}

/** Every mistake found in the settings. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    const lines = problems.map((problem) => `  - ${problem}`)
    super(
      `${problems.length === 1 ? 'A setting is wrong' : `${problems.length} settings are wrong`}:\n${lines.join('\n')}`,
    )
    this.problems = problems
  }
}

interface Given {
  readonly raw: unknown
  readonly origin: string
}

const defaultFile = 'sluice.json'
const fileVariable = 'SLUICE_CONFIG'
/** The version that a source of settings was written for: a key of the file, and a variable of the environment. */
const versionKey = 'settingsVersion'
const versionVariable = 'SLUICE_SETTINGS_VERSION'
/** The server URL for commands that call one. Not a setting of the server. */
export const urlVariable = 'SLUICE_URL'
/** The name of the server and key that commands use, of those that `sluice login` kept. */
export const profileVariable = 'SLUICE_PROFILE'
/** The key of commands that call a server. The server's own key is the setting `adminKey`. */
export const keyVariable = 'SLUICE_API_KEY'
/** The warning for a server that takes its admin key from the old name. */
export const oldKeyName =
  `The admin key of this server comes from its old name, ${keyVariable} or apiKey, which the next release ignores. ` +
  `Rename it to ${variableOf('adminKey')} or adminKey. ${keyVariable} is the key of commands that call a server.`

/** Reads every setting from every source. Throws one `ConfigError` that names all mistakes. */
export function loadConfig(sources: SettingOrigins): Loaded {
  const found: Findings = { problems: [], warnings: [] }
  const file = readSettingsFile(sources, found)
  lookForUnknownVariables(sources, found)
  return { ...readEach((name) => find(name, sources, file), found.problems), warnings: found.warnings }
}

/** Mistakes, which stop the program, and lines that are only printed. */
interface Findings {
  readonly problems: string[]
  readonly warnings: string[]
}

/**
 * Notes names that this version does not know. They stop the program, because a misspelt name leaves a right, a limit or a
 * time at its default. A source that says it was written for a newer version is the exception: the newer version knows
 * which of the names are settings and refuses the others, and this one must be able to start beside it (docs/upgrading.md).
 */
function noteUnknown(
  source: { readonly names: readonly string[]; readonly place: string; readonly writtenFor: unknown },
  known: readonly string[],
  version: string,
  { problems, warnings }: Findings,
): void {
  const { names, place, writtenFor } = source
  const ahead = writtenFor === undefined ? 0 : compareVersions(writtenFor, version)
  if (ahead === undefined)
    problems.push(
      `${place === 'environment' ? versionVariable : versionKey} (${place}): must be a version such as ${version}`,
    )
  for (const name of names) {
    const unknown = `${name} (${place}): unknown setting${suggest(name, known)}`
    if (ahead === undefined || ahead <= 0) problems.push(unknown)
    else
      warnings.push(
        `${unknown}${unknown.endsWith('?') ? '' : '.'} It is ignored: the settings are written for ${writtenFor}, and this is ${version}`,
      )
  }
}

/** Positive when the first of two versions is the newer one; undefined when it is not a version. */
function compareVersions(given: unknown, own: string): number | undefined {
  const [first, second] = [given, own].map((version) => /^(\d{1,6})\.(\d{1,6})\.(\d{1,6})(?:-|$)/.exec(String(version)))
  if (!first || !second) return undefined
  const difference = [1, 2, 3].map((at) => Number(first[at]) - Number(second[at]))
  return difference.find((each) => each !== 0) ?? 0
}

/** Reads settings that a program gives in its own code, without environment or file. Throws like `loadConfig`. */
export function configOf(given: Readonly<Record<string, unknown>>): Config {
  const unknown = Object.keys(given).filter((name) => !(settingNames as string[]).includes(name))
  const problems = unknown.map((name) => `${name}: unknown setting${suggest(name, settingNames)}`)
  const found = (name: SettingName) => (given[name] === undefined ? undefined : { raw: given[name], origin: 'option' })
  return readEach(found, problems).config
}

function readEach(found: (name: SettingName) => Given | undefined, problems: string[]): Omit<Loaded, 'warnings'> {
  const values: Record<string, unknown> = {}
  const origins: Record<string, string> = {}
  for (const name of settingNames) {
    const setting = settings[name]
    const given = found(name)
    origins[name] = given?.origin ?? 'default'
    values[name] = setting.fallback
    if (given === undefined) continue
    try {
      values[name] = setting.kind.parse(given.raw)
    } catch (error) {
      if (!(error instanceof WrongValue)) throw error
      const shown = setting.secret ? 'the given value' : maskUrl(JSON.stringify(given.raw))
      problems.push(`${name} (${given.origin}): must be ${error.message}; not ${shown}`)
    }
  }
  if (problems.length > 0) throw new ConfigError(problems)
  return { config: values as unknown as Config, origins: origins as Record<SettingName, string> }
}

/** A setting's value as text: secrets are masked, and null is `(unset)`. */
export function showSetting(name: SettingName, config: Config): string {
  const value = config[name]
  if (value === null) return '(unset)'
  if (settings[name].secret) return '****'
  return (settings[name].kind as SettingKind<unknown>).show(value)
}

/** Every setting with its value as text, the origin of the value, and its help. Secrets are masked. */
export function showSettings(config: Config, origins: Partial<Loaded['origins']>) {
  return settingNames.map((name) => ({
    name,
    value: showSetting(name, config),
    origin: origins[name] ?? 'option',
    flag: flagOf(name),
    variable: variableOf(name),
    help: settings[name].help,
  }))
}

function find(name: SettingName, sources: SettingOrigins, file: SettingsFile): Given | undefined {
  const flag = sources.flags[name]
  if (flag !== undefined) return { raw: flag, origin: `flag ${flagOf(name)}` }
  const variable = sources.env[variableOf(name)]
  if (variable !== undefined) return { raw: variable, origin: `environment ${variableOf(name)}` }
  if (Object.hasOwn(file.values, name)) return { raw: file.values[name], origin: `file ${file.name}` }
  return undefined
}

interface SettingsFile {
  readonly name: string
  readonly values: Readonly<Record<string, unknown>>
}

function readSettingsFile(sources: SettingOrigins, findings: Findings): SettingsFile {
  const { problems } = findings
  const asked = sources.file ?? sources.env[fileVariable]
  const name = asked ?? defaultFile
  const values: Record<string, unknown> = {}
  let text: string
  try {
    text = readFileSync(resolve(sources.directory, name), 'utf8')
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code
    if (code === undefined) throw error
    if (code !== 'ENOENT' || asked !== undefined)
      problems.push(`file ${name}: ${code === 'ENOENT' ? 'does not exist' : `cannot be read (${code})`}`)
    return { name, values }
  }
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch (error) {
    problems.push(`file ${name}: is not valid JSON (${(error as SyntaxError).message})`)
    return { name, values }
  }
  if (typeof parsed !== 'object' || parsed === null || Array.isArray(parsed)) {
    problems.push(`file ${name}: must be a JSON object of settings`)
    return { name, values }
  }
  const unknown: string[] = []
  for (const [key, value] of Object.entries(parsed)) {
    if ((settingNames as string[]).includes(key)) values[key] = value
    else if (key !== '$schema' && key !== versionKey) unknown.push(key)
  }
  const writtenFor: unknown = (parsed as Record<string, unknown>)[versionKey]
  noteUnknown({ names: unknown, place: `file ${name}`, writtenFor }, settingNames, sources.version, findings)
  return { name, values }
}

/** Reports misspelt variables, which would otherwise be ignored without a word. */
function lookForUnknownVariables({ env, version }: SettingOrigins, findings: Findings): void {
  const known = [
    ...settingNames.map(variableOf),
    fileVariable,
    urlVariable,
    keyVariable,
    profileVariable,
    versionVariable,
  ]
  const names = Object.keys(env).filter((name) => name.startsWith('SLUICE_') && !known.includes(name))
  noteUnknown({ names, place: 'environment', writtenFor: env[versionVariable] }, known, version, findings)
}

function suggest(word: string, known: readonly string[]): string {
  const best = nearest(word, known)
  return best === undefined ? '' : `; did you mean ${best}?`
}

const loopback = ['127.0.0.0/8', '::1/128'] as const

/**
 * The warning for an API that other machines reach as plain text; undefined for one on loopback, or behind a proxy with TLS,
 * which a public URL with https tells. Sluice itself speaks no TLS.
 */
export function exposureOf({ listen: { host }, publicUrl }: Config): string | undefined {
  if (isLoopback(host) || publicUrl?.startsWith('https:') === true) return undefined
  return (
    `The API listens on ${host} without TLS: a person on the network can read keys and payloads. ` +
    'Put a proxy with TLS in front and set --public-url https://HOST, or listen on 127.0.0.1.'
  )
}

/** Whether a listening host can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  const family = isIP(host)
  if (family === 0) return host === 'localhost'
  const list = new BlockList()
  list.addSubnet('127.0.0.0', 8, 'ipv4')
  list.addAddress('::1', 'ipv6')
  return list.check(host, family === 4 ? 'ipv4' : 'ipv6')
}

/**
 * The private networks that deliveries may go to: exactly `allowNetworks` when it is set. Otherwise none, except loopback
 * for a server with `local` that listens on loopback only.
 */
export function permittedNetworks(config: Pick<Config, 'allowNetworks' | 'local' | 'listen'>): readonly string[] {
  if (config.allowNetworks !== null) return config.allowNetworks
  return config.local && isLoopback(config.listen.host) ? loopback : []
}
