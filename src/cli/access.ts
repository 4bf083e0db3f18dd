import { duration } from '../runtime/setting-kinds.ts'
import { type Item, pathOf } from './client.ts'
import { instantText, limitOption, option, type RemoteCommands, repeated, type Session, showList } from './command.ts'
import { exitCode } from './exit.ts'
import { ago, counted, facts, instant, table, text } from './table.ts'

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

/** `sluice audit`: the log of changes. Needs an admin key. */
export function addAudit(commands: RemoteCommands): void {
  const audit = commands.group('audit', 'audit log of changes: list, verify')

  commands
    .add(audit, 'list', 'list changes, newest first', async (session) => {
      const found = await session.client.list('/audit', queryOf(session), session.options.limit as number)
      showList(session, found, 'No changes.', (items) =>
        table(
          session.terminal,
          [
            { title: 'WHEN (UTC)', cell: ({ timestamp }) => instant(timestamp) },
            { title: 'WHO', cell: ({ actor }) => text(actor), flexible: true },
            { title: 'FROM', cell: ({ ip }) => text(ip), flexible: true },
            { title: 'WHAT', cell: ({ action }) => text(action) },
            { title: 'OF', cell: ({ target }) => text(target), flexible: true },
          ],
          items,
        ),
      )
    })
    .option('--actor <KEY>', 'only by this key')
    .option('--action <ACTION>', 'only this kind of change')
    .option('--app <APP>', 'only of this application, by id')
    .option('--after <INSTANT>', 'only after, such as 2026-11-15T09:40:00Z, or 2h for two hours ago')
    .option('--before <INSTANT>', 'only before')
    .addOption(limitOption())

  commands.add(audit, 'verify', 'check that no row of the log was changed or removed', async (session) => {
    const found = await session.client.get(pathOf('audit', 'verify'))
    session.show(found, ({ whole, rows, head, brokenAt }) =>
      whole === true
        ? `The log is intact: ${counted(Number(rows), 'row')}.\nKeep this hash elsewhere, to detect a later cut: ${text(head)}`
        : session.terminal.style('red', `The log was changed at row ${text(brokenAt)}.`),
    )
    return found.whole === true ? exitCode.ok : exitCode.failed
  })
}

function queryOf({ options, world }: Session) {
  const at = (raw: unknown) => (raw === undefined ? undefined : instantText(String(raw), world.clock.now()))
  return {
    actor: options.actor as string | undefined,
    action: options.action as string | undefined,
    app_id: options.app as string | undefined,
    after: at(options.after),
    before: at(options.before),
  }
}
