import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { profileVariable } from '../runtime/config.ts'
import { CommandError, exitCode } from './terminal.ts'

/** A server and the key that belongs to it. */
export interface Profile {
  readonly url: string
  readonly key: string
}

interface ProfilesFile {
  /** The name of the profile that commands use without `--profile`. */
  readonly current: string | null
  readonly profiles: Readonly<Record<string, Profile>>
}

type Environment = Readonly<Record<string, string | undefined>>

const none: ProfilesFile = { current: null, profiles: {} }

/** The file of a user's profiles; undefined for a user without a home. */
export function profilesPath({ XDG_CONFIG_HOME, HOME, APPDATA }: Environment): string | undefined {
  const folder = XDG_CONFIG_HOME || APPDATA || (HOME && join(HOME, '.config'))
  return folder ? join(folder, 'sluice', 'profiles.json') : undefined
}

export function readProfiles(env: Environment): ProfilesFile {
  const path = profilesPath(env)
  if (path === undefined) return none
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return none
    throw new CommandError(`${path} cannot be read (${(error as NodeJS.ErrnoException).code}).`, exitCode.misused)
  }
  try {
    const { current = null, profiles } = JSON.parse(text) as Partial<ProfilesFile>
    if (typeof profiles === 'object' && profiles !== null) return { current, profiles }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error
  }
  throw new CommandError(`${path} is damaged. Delete it, and sign in again: sluice login`, exitCode.misused)
}

/** Replaces the file: a reader sees the one before or the new one. Its keys are for its owner alone. */
export function writeProfiles(env: Environment, profiles: ProfilesFile): string {
  const path = profilesPath(env)
  if (path === undefined) {
    throw new CommandError('There is no place for profiles: HOME and XDG_CONFIG_HOME are not set.', exitCode.misused)
  }
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  writeFileSync(`${path}.new`, `${JSON.stringify(profiles, null, 2)}\n`, { mode: 0o600 })
  renameSync(`${path}.new`, path)
  return path
}

/** The profile that a command uses: the one that is named, else the current one. */
export function chosenProfile(env: Environment, named: string | undefined): Profile | undefined {
  const name = named ?? env[profileVariable]
  const { current, profiles } = readProfiles(env)
  if (name === undefined) return current === null ? undefined : profiles[current]
  const found = Object.hasOwn(profiles, name) ? profiles[name] : undefined
  if (found !== undefined) return found
  const names = Object.keys(profiles)
  const known = names.length === 0 ? 'There are none yet' : `There are ${names.join(', ')}`
  throw new CommandError(
    `There is no profile ${name}. ${known}. Add it: sluice login --profile ${name}`,
    exitCode.misused,
  )
}
