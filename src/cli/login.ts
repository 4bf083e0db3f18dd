import { keyVariable, profileVariable } from '../runtime/config.ts'
import { Client } from './client.ts'
import { openClient, type RemoteCommands, type Session } from './command.ts'
import { readProfiles, writeProfiles } from './profiles.ts'
import { instant, text } from './table.ts'
import { CommandError, exitCode } from './terminal.ts'

/** `sluice login`, `logout` and `whoami`: servers and their keys, kept for later commands. */
export function addLogin(commands: RemoteCommands): void {
  commands.add(
    'login',
    'keep a server and its key for later commands; the key comes from --key or standard input',
    login,
  )
  commands.add('logout', 'forget a server and its key', logout)
  commands.add('whoami', 'show the server of commands, and what their key may do', whoami)
}

/** The name of the profile that a command is about. */
const nameOf = ({ options, terminal }: Session): string | undefined =>
  (options.profile as string | undefined) ?? terminal.env[profileVariable]

async function login(session: Session): Promise<void> {
  const { terminal, options, world } = session
  const { url } = openClient(world, { ...options, profile: undefined })
  const key = ((options.key as string | undefined) ?? terminal.env[keyVariable] ?? (await keyOf(session))).trim()
  if (key === '') throw new CommandError('Give the key with --key or on standard input.', exitCode.misused)
  const { clock, version } = world
  const access = await new Client({ url, key, clock, version }).get('/auth/access')
  const name = nameOf(session) ?? new URL(url).host
  const { profiles } = readProfiles(terminal.env)
  const path = writeProfiles(terminal.env, { current: name, profiles: { ...profiles, [name]: { url, key } } })
  session.show({ profile: name, url, access, file: path }, () =>
    [`Signed in to ${url} as ${text(access.id)}.`, `Later commands use the profile ${name} of ${path}.`].join('\n'),
  )
}

async function keyOf({ terminal }: Session): Promise<string> {
  return terminal.asks ? terminal.ask('API key: ') : (await terminal.readInput()).toString()
}

async function logout(session: Session): Promise<void> {
  const { env } = session.terminal
  const { current, profiles } = readProfiles(env)
  const name = nameOf(session) ?? current
  if (name === null || !Object.hasOwn(profiles, name)) {
    throw new CommandError(name === null ? 'No profile is kept.' : `There is no profile ${name}.`, exitCode.notFound)
  }
  const { [name]: _gone, ...others } = profiles
  writeProfiles(env, { current: current === name ? null : current, profiles: others })
  session.show(
    { profile: name },
    () => `Forgot the profile ${name}. Its key still works; revoke it with sluice key revoke.`,
  )
}

async function whoami(session: Session): Promise<void> {
  const { client, terminal } = session
  const { current } = readProfiles(terminal.env)
  const access = await client.get('/auth/access')
  const { id, scopes, capabilities, appId, expiresAt } = access
  const may = (scopes ?? capabilities ?? []) as readonly string[]
  session.show({ url: client.url, profile: nameOf(session) ?? current, access }, () =>
    [
      `server   ${client.url}`,
      `key      ${text(id)}`,
      `may      ${may.join(', ')}${appId == null ? '' : ` in ${appId}`}`,
      `expires  ${expiresAt == null ? 'never' : instant(expiresAt)}`,
    ].join('\n'),
  )
}
