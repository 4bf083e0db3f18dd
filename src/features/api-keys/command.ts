import { Option } from 'commander'
import { type Item, pathOf } from '../../cli/client.ts'
import { option, type RemoteCommands, repeated, type Session } from '../../cli/command.ts'
import { addSettings, loadExisting } from '../../cli/run.ts'
import { ago, countLimit, facts, instant, namesById, text } from '../../cli/table.ts'
import { CommandError, exitCode } from '../../cli/terminal.ts'
import { apiRoot } from '../../domain/api.ts'
import { hashApiKey, makeToken } from '../../operations/auth.ts'
import { duration } from '../../runtime/setting-kinds.ts'

const year = 365 * 86_400_000

/** `sluice key`: the keys of the API. Needs an admin key. */
export function addKey(commands: RemoteCommands): void {
  const key = commands.group('key', 'API keys: create, list, revoke')

  const create = key
    .add('create <name>', 'create a key; it is shown once', async (session, [name]) => {
      const { scope, app, expires } = session.options as { scope?: string[]; app?: string; expires?: number }
      if (session.options.admin === true) {
        return session.show(await createOnStore(session, name), (item) => describe(session, item))
      }
      if (scope === undefined) {
        throw new CommandError('Which scope? Give --scope admin, publish or read, or --admin.', exitCode.misused)
      }
      const expiresInSeconds = expires === undefined ? undefined : Math.ceil(expires / 1000)
      const body = { name, scopes: scope, app, expiresInSeconds }
      session.show(await session.client.post('/api-key', { body }), (item) => describe(session, item))
    })
    .addOption(repeated('--scope <SCOPE>', 'admin, publish or read; may be repeated'))
    .option('--app <APP>', 'limit it to this application')
    .addOption(option('--expires <DURATION>', 'lifetime, such as 90d (default: unlimited)', duration(1000, 10 * year)))
    .addOption(
      new Option(
        '--admin',
        'create an admin key straight in the store, without a server or a key: for a lost admin key',
      ).conflicts(['scope', 'app', 'expires', 'url', 'key']),
    )
  create.optionsGroup('With --admin, the settings of the server:')
  addSettings(create, ['store', 'encryptionKey'])

  key.list('list', 'list keys, without their secrets', async (_, { world, client, json }) => {
    const now = world.clock.now()
    const apps = json ? undefined : namesById((await client.list('/app', {}, countLimit)).items)
    return {
      path: '/api-key',
      empty: 'No keys.',
      columns: [
        { title: 'ID', cell: 'id' },
        { title: 'NAME', cell: 'name', flexible: true },
        { title: 'SCOPES', cell: 'scopes', flexible: true },
        { title: 'APP', cell: ({ appId }) => apps?.get(appId) ?? text(appId), flexible: true },
        {
          title: 'STATE',
          cell: (item) => stateOf(item, now),
          colour: (item) => (stateOf(item, now) === 'valid' ? 'green' : 'dim'),
        },
        { title: 'LAST USED', cell: ({ lastUsedAt }) => ago(lastUsedAt, now) },
      ],
    }
  })

  key.addConfirmed(
    'revoke <id>',
    'revoke a key; it stops working within a second',
    async ({ client }, [id]) => {
      const { items } = await client.list('/api-key', {}, countLimit)
      const { name, scopes } = items.find((item) => item.id === id) ?? {}
      return `Revoke key ${id} (${text(name)}, ${text(scopes)}) and end the portal links that it made?`
    },
    async (session, [id]) => {
      await session.client.delete(pathOf('api-key', id))
      session.show({ revoked: id }, () => `Revoked ${id}.`)
    },
  )
}

/**
 * Creates an admin key in the store of the settings, also while a server runs on it. Access to the store is the
 * permission: its reader has all that an admin key gives. The audit log names the command line as the actor.
 */
async function createOnStore({ world, options }: Session, name: string): Promise<Item> {
  const config = loadExisting(world, options)
  const { store } = await world.openParts(config, world.openLog(config), { role: 'guest' })
  try {
    const token = makeToken('sk', world.randomText)
    const scopes = ['admin']
    const entry = {
      actor: 'command line',
      ip: '',
      action: 'POST /api-key',
      app: null,
      target: `${apiRoot}/api-key`,
      before: null,
      after: JSON.stringify({ name, scopes }),
    }
    const { id } = await store.trailing({ entry, written: false }, () =>
      store.createApiKey({ name, hash: hashApiKey(token), scopes }),
    )
    return { id, name, scopes, appId: null, expiresAt: null, token }
  } finally {
    await store.close()
  }
}

function stateOf({ revokedAt, expiresAt }: Item, now: number): string {
  if (typeof revokedAt === 'string') return 'revoked'
  return typeof expiresAt === 'string' && Date.parse(expiresAt) <= now ? 'expired' : 'valid'
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
