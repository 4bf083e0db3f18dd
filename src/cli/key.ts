import { duration } from '../runtime/setting-kinds.ts'
import { type Item, pathOf } from './client.ts'
import { limitOption, option, type RemoteCommands, repeated, type Session, showList } from './remote.ts'
import { ago, instant, text } from './show.ts'
import { facts, table } from './table.ts'

const year = 365 * 86_400_000

/** `sluice key`: the keys of the API. Needs an admin key. */
export function addKey(commands: RemoteCommands): void {
  const key = commands.group('key', 'API keys: create, list, revoke')

  commands
    .add(key, 'create <name>', 'create a key; it is shown once', async (session, [name = '']) => {
      const { scope, app, expires } = session.options as { scope?: string[]; app?: string; expires?: number }
      const expiresInSeconds = expires === undefined ? undefined : Math.ceil(expires / 1000)
      const body = { name, scopes: scope, app, expiresInSeconds }
      session.show(await session.client.post('/api-key', { body }), (item) => describe(session, item))
    })
    .addOption(repeated('--scope <SCOPE>', 'admin, publish or read; may be repeated').makeOptionMandatory())
    .option('--app <APP>', 'limit it to this application')
    .addOption(option('--expires <DURATION>', 'lifetime, such as 90d (default: unlimited)', duration(1000, 10 * year)))

  commands
    .add(key, 'list', 'list keys, without their secrets', async (session) => {
      const found = await session.client.list('/api-key', {}, session.options.limit as number)
      showList(session, found, 'No keys.', (items) =>
        table(
          session.terminal,
          [
            { title: 'ID', cell: ({ id }) => text(id) },
            { title: 'NAME', cell: ({ name }) => text(name), flexible: true },
            { title: 'SCOPES', cell: ({ scopes }) => text(scopes), flexible: true },
            { title: 'APP', cell: ({ appId }) => text(appId), flexible: true },
            { title: 'STATE', cell: (item) => stateOf(session, item), colour: (item) => colourOf(session, item) },
            { title: 'LAST USED', cell: ({ lastUsedAt }) => ago(lastUsedAt, session.world.clock.now()) },
          ],
          items,
        ),
      )
    })
    .addOption(limitOption())

  commands.add(key, 'revoke <id>', 'revoke a key; it stops working within a second', async (session, [id = '']) => {
    await session.client.delete(pathOf('api-key', id))
    session.show({ revoked: id }, () => `Revoked ${id}.`)
  })
}

function stateOf({ world }: Session, { revokedAt, expiresAt }: Item): string {
  if (typeof revokedAt === 'string') return 'revoked'
  return typeof expiresAt === 'string' && Date.parse(expiresAt) <= world.clock.now() ? 'expired' : 'valid'
}

function colourOf(session: Session, item: Item): 'green' | 'dim' {
  return stateOf(session, item) === 'valid' ? 'green' : 'dim'
}

function describe({ terminal }: Session, item: Item): string {
  const about = facts(terminal, [
    ['id', text(item.id)],
    ['name', text(item.name)],
    ['scopes', text(item.scopes)],
    ['app', text(item.appId)],
    ['expires', item.expiresAt == null ? 'never' : instant(item.expiresAt)],
  ])
  const shown = terminal.style(['bold', 'green'], text(item.token))
  return `${about}\n\nThe key. Keep it: it is not shown again.\n\n  ${shown}\n`
}
