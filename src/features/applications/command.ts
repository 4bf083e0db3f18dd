import type { Command as Commander } from 'commander'
import { type Item, pathOf } from '../../cli/client.ts'
import { change, option, pairsOf, type RemoteCommands, repeated, type Session } from '../../cli/command.ts'
import { addFields, fieldFacts, fieldsOf, unsetFields, unsetOption } from '../../cli/field-options.ts'
import { counted, countLimit, facts, instant, nameOf, text } from '../../cli/table.ts'
import { choice, duration } from '../../runtime/setting-kinds.ts'
import { application, applicationFields, signatureFamilies } from './noun.ts'

/** Commands find an application by its id or uid, never by its name. */
function uidHint({ id, uid }: Item): string {
  if (uid) return ''
  return `\n\nIt has no uid, so commands find it by its id only. Give it one: sluice app update ${text(id)} --uid UID`
}

/** `sluice app`: applications. */
export function addApp(commands: RemoteCommands): void {
  const app = commands.group('app', 'applications: list, create, get, update, portal, delete')

  app.list('list', 'list applications', () => ({
    path: '/app',
    empty: 'No applications. Create one: sluice app create NAME --uid NAME',
    columns: [
      { title: 'ID', cell: 'id' },
      { title: 'UID', cell: 'uid', flexible: true },
      { title: 'NAME', cell: 'name', flexible: true },
      { title: 'CREATED', cell: ({ createdAt }) => instant(createdAt) },
    ],
  }))

  withFields(
    app.add('create <name>', 'create an application', async (session, [name]) => {
      const query = { get_if_exists: session.options.ifMissing === true ? true : undefined }
      const created = await session.client.post('/app', { query, body: { name, ...bodyOf(session) } })
      session.show(created, (item) => `Application ${nameOf(item)}\n${describe(session, item)}${uidHint(item)}`)
    }),
  ).option('--if-missing', 'return the application with this uid if it exists already')

  app.add('get <app>', 'show an application, by id or uid', async (session, [ref]) => {
    session.show(await session.client.get(pathOf('app', ref)), (item) => describe(session, item))
  })

  withFields(
    app.add('update <app>', 'change the given fields of an application', async (session, [ref]) => {
      const { name } = session.options as { name?: string }
      const body = { name, ...bodyOf(session) }
      session.show(await change(session, pathOf('app', ref), body), (item) => describe(session, item))
    }),
  )
    .option('--name <NAME>', 'display name')
    .addOption(unsetOption('default-rate'))

  app
    .add('portal <app>', 'make a link to its portal, to view and manage endpoints', async (session, [ref]) => {
      const { readOnly, expires } = session.options as { readOnly?: boolean; expires?: number }
      const body = { readOnly, expiry: expires === undefined ? undefined : Math.ceil(expires / 1000) }
      session.show(await session.client.post(pathOf('auth', 'app-portal-access', ref), { body }), ({ url }) =>
        text(url),
      )
    })
    .option('--read-only', 'read-only access')
    .addOption(option('--expires <DURATION>', 'how long the link works (default: 1h)', duration(1000, 7 * 86_400_000)))

  app.addConfirmed(
    'delete <app>',
    'delete an application with its endpoints',
    async ({ client }, [ref]) => {
      const { id, name } = await client.get(pathOf('app', ref))
      const { items, more } = await client.list(pathOf('app', text(id), 'endpoint'), {}, countLimit)
      const endpoints = counted(items.length, 'endpoint', more)
      return `Delete application ${ref} (${text(name)}) with ${endpoints} and their waiting deliveries?`
    },
    async (session, [ref]) => {
      await session.client.delete(pathOf('app', ref))
      session.show({ deleted: ref }, () => `Deleted application ${ref}, its endpoints and their waiting deliveries.`)
    },
  )
}

function withFields(command: Commander): Commander {
  return addFields(command, application.fields)
    .addOption(
      repeated(
        '--signature-header <FIELD=NAME>',
        'header name for id, timestamp or signature at its endpoints; may be repeated',
      ),
    )
    .addOption(
      option(
        '--signature-family <FAMILY>',
        'header names webhook-…, svix-… or both at its endpoints',
        choice(signatureFamilies),
      ),
    )
}

const unsettable = { ...application.fields, signatureHeaders: { flag: '--signature-header <FIELD=NAME>' } }

function bodyOf(session: Session): Item {
  const { signatureHeader, signatureFamily } = session.options
  return {
    signatureHeaders: signatureFamily ?? pairsOf(signatureHeader),
    ...fieldsOf(session, application.fields),
    ...unsetFields(session, unsettable),
  }
}

function describe({ terminal }: Session, item: Item): string {
  return facts(terminal, [
    ['id', text(item.id)],
    ['uid', text(item.uid)],
    ['name', text(item.name)],
    ['rate', text(item.throttleRate)],
    ['signature headers', item.signatureHeaders == null ? undefined : text(item.signatureHeaders)],
    ...fieldFacts(item, applicationFields),
    ['metadata', text(item.metadata)],
    ['created', instant(item.createdAt)],
    ['updated', instant(item.updatedAt)],
  ])
}
