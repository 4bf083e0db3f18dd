import type { Command as Commander } from 'commander'
import { count, duration } from '../runtime/setting-kinds.ts'
import { type Item, pathOf } from './client.ts'
import { limitOption, option, pairsOf, type RemoteCommands, repeated, type Session, showList } from './remote.ts'
import { instant, nameOf, text } from './show.ts'
import { facts, table } from './table.ts'

/** `sluice app`: applications. */
export function addApp(commands: RemoteCommands): void {
  const app = commands.group('app', 'applications: list, create, get, update, portal, delete')

  commands
    .add(app, 'list', 'list applications', async (session) => {
      const found = await session.client.list('/app', {}, session.options.limit as number)
      showList(session, found, 'No applications yet. `sluice app create NAME --uid NAME` makes one.', (items) =>
        table(
          session.terminal,
          [
            { title: 'ID', cell: ({ id }) => text(id) },
            { title: 'UID', cell: ({ uid }) => text(uid), flexible: true },
            { title: 'NAME', cell: ({ name }) => text(name), flexible: true },
            { title: 'CREATED (UTC)', cell: ({ createdAt }) => instant(createdAt) },
          ],
          items,
        ),
      )
    })
    .addOption(limitOption())

  withFields(
    commands.add(app, 'create <name>', 'create an application', async (session, [name = '']) => {
      const query = { get_if_exists: session.options.ifMissing === true ? true : undefined }
      const created = await session.client.post('/app', { query, body: { name, ...fieldsOf(session) } })
      session.show(created, (item) => `Application ${nameOf(item)}\n${describe(session, item)}`)
    }),
  ).option('--if-missing', 'when there is one with this uid, that one')

  commands.add(app, 'get <app>', 'show an application, by id or uid', async (session, [ref = '']) => {
    session.show(await session.client.get(pathOf('app', ref)), (item) => describe(session, item))
  })

  withFields(
    commands.add(app, 'update <app>', 'change an application; what is not given stays', async (session, [ref = '']) => {
      const { name } = session.options as { name?: string }
      const body = { name, ...fieldsOf(session) }
      session.show(await session.client.patch(pathOf('app', ref), { body }), (item) => describe(session, item))
    }),
  ).option('--name <NAME>', 'its name')

  commands
    .add(app, 'portal <app>', 'a link that lets somebody see and manage its endpoints', async (session, [ref = '']) => {
      const { readOnly, expires } = session.options as { readOnly?: boolean; expires?: number }
      const body = { readOnly, expiry: expires === undefined ? undefined : Math.ceil(expires / 1000) }
      session.show(await session.client.post(pathOf('auth', 'app-portal-access', ref), { body }), ({ url }) =>
        text(url),
      )
    })
    .option('--read-only', 'for looking alone')
    .addOption(option('--expires <DURATION>', 'ends after this (default: 1h)', duration(1000, 7 * 86_400_000)))

  commands.add(app, 'delete <app>', 'delete an application with its endpoints', async (session, [ref = '']) => {
    await session.client.delete(pathOf('app', ref))
    session.show({ deleted: ref }, () => `Deleted application ${ref}, its endpoints and what waited for them.`)
  })
}

function withFields(command: Commander): Commander {
  return command
    .option('--uid <UID>', 'your own name for it, usable wherever its id is')
    .addOption(option('--rate <NUMBER>', 'attempts a second that all its endpoints get together', count(1, 1_000_000)))
    .addOption(
      repeated(
        '--signature-header <WHAT=NAME>',
        'what its endpoints call a header they are signed with: id, timestamp or signature; may be repeated',
      ),
    )
    .addOption(repeated('--metadata <NAME=VALUE>', 'a note of yours; may be repeated'))
}

function fieldsOf({ options }: Session): Item {
  const { uid, rate, metadata, signatureHeader } = options
  return { uid, throttleRate: rate, signatureHeaders: pairsOf(signatureHeader), metadata: pairsOf(metadata) }
}

function describe({ terminal }: Session, item: Item): string {
  return facts(terminal, [
    ['id', text(item.id)],
    ['uid', text(item.uid)],
    ['name', text(item.name)],
    ['rate', text(item.throttleRate)],
    ['signed under', item.signatureHeaders == null ? undefined : text(item.signatureHeaders)],
    ['metadata', text(item.metadata)],
    ['created', instant(item.createdAt)],
    ['updated', instant(item.updatedAt)],
  ])
}
