import { type Item, pathOf } from '../../cli/client.ts'
import { change, jsonValue, type RemoteCommands, type Session } from '../../cli/command.ts'
import { addFields, fieldsOf, picked } from '../../cli/field-options.ts'
import { counted, facts, instant, text } from '../../cli/table.ts'
import { readFileOrInput } from '../../cli/terminal.ts'
import { eventType } from './noun.ts'

const readers = { schemas: jsonValue }
/** The flags of a new event type, and those of a change, in the order of the help. */
const made = picked(eventType.fields, 'groupName', 'schemas')
const changed = picked(eventType.fields, 'description', 'groupName', 'archived', 'deprecated', 'schemas')

/** `sluice event-type`: the event types and their schemas. */
export function addEventType(commands: RemoteCommands): void {
  const group = commands.group('event-type', 'event types: list, get, create, update, delete, import')

  group
    .list('list', 'list event types', (_, { options }) => ({
      path: '/event-type',
      query: { include_archived: options.archived === true ? true : undefined },
      empty: 'No event types. Until one exists, endpoints may subscribe to any name.',
      columns: [
        { title: 'NAME', cell: 'name' },
        { title: 'GROUP', cell: 'groupName', flexible: true },
        { title: 'DESCRIPTION', cell: 'description', flexible: true },
        { title: 'STATE', cell: stateOf },
      ],
    }))
    .option('--archived', 'include archived event types')

  group.add('get <name>', 'show an event type', async (session, [name]) => {
    const query = { include_archived: true }
    session.show(await session.client.get(pathOf('event-type', name), query), (item) => describe(session, item))
  })

  addFields(
    group.add('create <name> <description>', 'create an event type', async (session, [name, description]) => {
      const body = { name, description, ...fieldsOf(session, made) }
      const item = await session.client.post('/event-type', { body })
      session.show(item, (shown) => describe(session, shown))
      const { items } = await session.client.list('/event-type', { include_archived: true }, 2)
      if (items.length === 1) session.terminal.printError(firstNote)
    }),
    made,
    readers,
  )

  addFields(
    group.add('update <name>', 'change the given fields of an event type', async (session, [name]) => {
      const item = await change(session, pathOf('event-type', name), fieldsOf(session, changed))
      session.show(item, (shown) => describe(session, shown))
    }),
    changed,
    readers,
  )

  group
    .addConfirmed(
      'delete <name>',
      'archive an event type, or delete it with --expunge',
      ({ options }, [name]) =>
        options.expunge === true ? `Delete event type ${name} with its schemas, for all applications?` : undefined,
      async (session, [name]) => {
        const query = { expunge: session.options.expunge === true ? true : undefined }
        await session.client.delete(pathOf('event-type', name), query)
        session.show({ deleted: name }, () => `${query.expunge ? 'Deleted' : 'Archived'} ${name}.`)
      },
    )
    .option('--expunge', 'delete it permanently')

  group
    .add('import <file>', 'import the webhooks of an OpenAPI document', async (session, [file]) => {
      const { dryRun = false, replaceAll = false } = session.options
      const specRaw = (await readFileOrInput(session.terminal, file)).toString()
      const answer = await session.client.post('/event-type/import/openapi', { body: { specRaw, dryRun, replaceAll } })
      session.show(answer, ({ data }) => {
        const { modified } = data as { modified: string[] }
        const verb = dryRun ? 'would be created or changed' : 'created or changed'
        return [`${counted(modified.length, 'event type')} ${verb}:`, ...modified.map((name) => `  ${name}`)].join('\n')
      })
    })
    .option('--dry-run', 'only show the changes')
    .option('--replace-all', 'archive event types that the document does not contain')
}

/** Printed after the first event type, because it changes what all applications may ask for. */
const firstNote =
  'Note: this is the first event type of the server. From now on, endpoints of all applications may name known event types only; ' +
  'set SLUICE_CHECK_EVENT_TYPES=never on the server to accept any.'

function stateOf({ archived, deprecated }: Item): string {
  if (archived === true) return 'archived'
  return deprecated === true ? 'deprecated' : 'active'
}

function describe({ terminal }: Session, item: Item): string {
  return facts(terminal, [
    ['name', text(item.name)],
    ['description', text(item.description)],
    ['group', text(item.groupName)],
    ['state', stateOf(item)],
    ['schemas', text(item.schemas)],
    ['created', instant(item.createdAt)],
    ['updated', instant(item.updatedAt)],
  ])
}
