import { Option } from 'commander'
import { type Item, pathOf } from '../../cli/client.ts'
import { option, type RemoteCommands, repeated, type Session } from '../../cli/command.ts'
import { addFields, queryOf } from '../../cli/field-options.ts'
import { addSettings, loadExisting } from '../../cli/run.ts'
import { ago, counted, countLimit, facts, instant, namesById, text } from '../../cli/table.ts'
import { CommandError, exitCode } from '../../cli/terminal.ts'
import { apiRoot } from '../../domain/api.ts'
import { auditFilterFields } from '../../domain/filter-fields.ts'
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

const verbs: Readonly<Record<string, string>> = {
  GET: 'read',
  POST: 'create',
  PUT: 'replace',
  PATCH: 'update',
  DELETE: 'delete',
}
const things = new Set(['app', 'endpoint', 'schedule', 'region', 'event-type', 'api-key', 'dead'])

/** A route of the audit log in words: `PATCH /app/:app/endpoint/:endpoint` is `update endpoint`. */
function operationOf(action: string): string {
  const [, method = '', path = ''] = /^([A-Z]+) (\/.*)$/.exec(action) ?? []
  const verb = verbs[method]
  if (verb === undefined) return action
  const words = path.split('/').slice(1)
  const named = words.findLastIndex((word) => word.startsWith(':'))
  const rest = words.slice(named + 1)
  const noun = words[named - 1] ?? ''
  if (rest.length === 0) return `${verb} ${noun}`
  // The words after the last name are a noun, or an action on the named object.
  if (rest.length === 1 && things.has(rest[0] as string)) return `${verb} ${rest[0]}`
  return [...(method === 'POST' ? [] : [verb]), ...rest, noun].join(' ').trim()
}

/** The path of a change without the version of the API, with the uid of its application. */
function thingOf(target: string, apps: ReadonlyMap<unknown, string>): string {
  const words = target.replace(/^\/api\/v1\//, '').split('/')
  return words.map((word) => apps.get(word) ?? word).join('/')
}

/** `sluice audit`: the log of changes. Needs an admin key. */
export function addAudit(commands: RemoteCommands): void {
  const audit = commands.group('audit', 'audit log of changes: list, verify, trim')

  const list = audit.list('list', 'list changes, newest first', async (_, session) => {
    const { client, json } = session
    const listed = async (path: string) => (json ? [] : (await client.list(path, {}, countLimit)).items)
    const keys = new Map((await listed('/api-key')).map(({ id, name }) => [id, text(name)]))
    const apps = namesById(await listed('/app'))
    return {
      path: '/audit',
      query: queryOf(session, auditFilterFields),
      empty: 'No changes.',
      columns: [
        { title: 'WHEN', cell: ({ timestamp }) => instant(timestamp) },
        { title: 'WHO', cell: ({ actor }) => keys.get(actor) ?? text(actor), flexible: true },
        { title: 'FROM', cell: 'ip', flexible: true },
        { title: 'WHAT', cell: ({ action }) => operationOf(text(action)) },
        { title: 'OF', cell: ({ target }) => thingOf(text(target), apps), flexible: true },
      ],
    }
  })
  addFields(list, auditFilterFields)

  audit.add('verify', 'check that no row of the log was changed or removed', async (session) => {
    const found = await session.client.get(pathOf('audit', 'verify'))
    session.show(found, ({ whole, rows, trimmed, head, brokenAt }) =>
      whole === true
        ? `The log is intact: ${counted(Number(rows), 'row')}${Number(trimmed) === 0 ? '' : `, ${text(trimmed)} of them trimmed behind a signed checkpoint`}.\nKeep this hash elsewhere, to detect a later cut: ${text(head)}`
        : session.terminal.style('red', `The log was changed at row ${text(brokenAt)}.`),
    )
    return found.whole === true ? exitCode.ok : exitCode.failed
  })

  audit
    .addConfirmed(
      'trim',
      'remove old rows, behind a checkpoint that the server signs',
      ({ options }) => `Remove the rows of the audit log before ${text(options.before)} for good?`,
      async (session) => {
        const body = { before: session.options.before }
        const { trimmed, checkpoint } = await session.client.post(pathOf('audit', 'trim'), { body })
        session.show({ trimmed, checkpoint }, () =>
          checkpoint == null
            ? 'No row is older than that.'
            : `Trimmed ${counted(Number(trimmed), 'row')}. Keep this hash elsewhere: ${text((checkpoint as Item).hash)}`,
        )
      },
    )
    .requiredOption('--before <INSTANT>', 'rows older than this, such as 2026-01-01T00:00:00Z')
}

/** `sluice dashboard`: a link that signs a browser in once, with the key of the command. */
export function addDashboard(commands: RemoteCommands): void {
  commands.add('dashboard', 'print a link that opens the dashboard, signed in', async (session) => {
    session.show(await session.client.post('/auth/sign-in-link'), ({ url, expiresAt }) =>
      [text(url), '', `It signs in once, until ${instant(expiresAt)}.`].join('\n'),
    )
  })
}

/** `sluice session`: browsers that are signed in. */
export function addSession(commands: RemoteCommands): void {
  const group = commands.group('session', 'browsers that are signed in: list, end')

  group.list('list', 'list sessions; an admin key sees all', (_, { world }) => {
    const now = world.clock.now()
    return {
      path: '/auth/session',
      empty: 'No sessions.',
      columns: [
        { title: 'ID', cell: 'id' },
        { title: 'KIND', cell: 'kind' },
        { title: 'KEY', cell: ({ name, keyId }) => text(name ?? keyId ?? 'admin key of the settings'), flexible: true },
        { title: 'ADDRESS', cell: 'address' },
        { title: 'BROWSER', cell: 'userAgent', flexible: true },
        { title: 'LAST USED', cell: ({ lastUsedAt }) => ago(lastUsedAt, now) },
        { title: 'ENDS', cell: ({ expiresAt }) => instant(expiresAt) },
      ],
    }
  })

  group
    .add('end [id]', 'end a session, or all with --all', async (session, [id]) => {
      const all = session.options.all === true
      if (all === (id !== undefined)) {
        throw new CommandError('Give the id of one session, or --all.', exitCode.misused)
      }
      if (id === undefined) await session.client.post('/auth/session/end-all')
      else await session.client.delete(pathOf('auth', 'session', id))
      session.show({ ended: id ?? 'all' }, () => (id === undefined ? 'Ended all sessions.' : `Ended ${id}.`))
    })
    .option('--all', 'end all sessions that the list shows')
}
