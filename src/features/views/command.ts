import { type Item, pathOf, type Query } from '../../cli/client.ts'
import { change, type Listing, type RemoteCommands, type Session } from '../../cli/command.ts'
import { addFields, asQuery, fieldFacts, fieldsOf, unsetFields, unsetOption } from '../../cli/field-options.ts'
import { ago, facts, grouped, nameOf, text } from '../../cli/table.ts'
import { view } from './noun.ts'

/** The flags of a new view, whose name is an operand; of a change; and those of the filter alone. */
const { name: _name, ...created } = view.fields
const { of: _of, ...changed } = view.fields
const { uid, name: _own, ...filterFields } = changed

/** `sluice view`: filters that operators saved. */
export function addView(commands: RemoteCommands): void {
  const group = commands.group(
    'view',
    'saved filters over endpoints or dead letters: list, open, create, show, update, delete',
  )

  group.list('list', 'list views', () => ({
    path: '/view',
    empty: "No views. Create one: sluice view create 'Failing' --of endpoints --sort failing",
    columns: [
      { title: 'VIEW', cell: nameOf },
      { title: 'NAME', cell: 'name', flexible: true },
      { title: 'OF', cell: 'of' },
      { title: 'FILTER', cell: filterText, flexible: true },
    ],
  }))

  group.list('open <view>', 'list the endpoints or dead letters that a view shows', async ([ref], session) =>
    listingOf(await session.client.get(pathOf('view', ref)), session),
  )

  addFields(
    group.add('create <name>', 'save a filter; the dashboard lists it, too', async (session, [name]) => {
      const made = await session.client.post('/view', { body: { name, ...fieldsOf(session, created) } })
      session.show(made, (item) => describe(session, item))
    }),
    created,
  )

  group.add('show <view>', 'show a view with its filter', async (session, [ref]) => {
    session.show(await session.client.get(pathOf('view', ref)), (item) => describe(session, item))
  })

  addFields(
    group.add('update <view>', 'change the given fields of a view', async (session, [ref]) => {
      const body = { ...fieldsOf(session, changed), ...unsetFields(session, { uid, ...filterFields }) }
      session.show(await change(session, pathOf('view', ref), body), (item) => describe(session, item))
    }),
    changed,
  ).addOption(unsetOption('search or reason'))

  group.addConfirmed(
    'delete <view>',
    'delete a view; what it shows stays',
    async ({ client }, [ref]) =>
      `Delete the view ${text((await client.get(pathOf('view', ref))).name)} for all operators?`,
    async (session, [ref]) => {
      await session.client.delete(pathOf('view', ref))
      session.show({ deleted: ref }, () => `Deleted view ${ref}.`)
    },
  )
}

/** The list of a view, as the dashboard shows it. */
function listingOf({ of, name, app, ...item }: Item, { world }: Session): Listing {
  const empty = `Nothing is in the view ${text(name)}.`
  const now = world.clock.now()
  if (of === 'endpoints') {
    const { search, sort } = item
    return {
      path: '/endpoint',
      query: given({ app, search, sort }),
      empty,
      columns: [
        { title: 'ENDPOINT', cell: nameOf },
        { title: 'APPLICATION', cell: ({ appUid, appId }) => text(appUid ?? appId) },
        { title: 'URL', cell: 'url', flexible: true },
        { title: 'WAITING', cell: ({ waiting }) => grouped((waiting as Item).total), align: 'right' },
        { title: 'STATE', cell: 'detail', flexible: true },
      ],
    }
  }
  const { reason, eventTypes, withinSeconds } = item
  const after = withinSeconds == null ? undefined : new Date(now - Number(withinSeconds) * 1000).toISOString()
  return {
    path: app == null ? '/dead' : pathOf('app', text(app), 'dead'),
    query: given({ reason, eventTypes, after }),
    empty,
    columns: [
      { title: 'DIED', cell: ({ diedAt }) => ago(diedAt, now) },
      { title: 'APPLICATION', cell: 'appId' },
      { title: 'MESSAGE', cell: 'msgId' },
      { title: 'EVENT TYPE', cell: 'eventType', flexible: true },
      { title: 'ENDPOINT', cell: ({ url, endpointId }) => text(url || endpointId), flexible: true },
      { title: 'REASON', cell: 'reason' },
    ],
  }
}

function given(fields: Item): Query {
  return asQuery(Object.fromEntries(Object.entries(fields).filter(([, value]) => value != null)) as Query)
}

function filterText(item: Item): string {
  const parts = fieldFacts(item, filterFields).map(([label, value]) => `${label} ${value}`)
  return parts.length === 0 ? 'all' : parts.join(', ')
}

function describe({ terminal }: Session, item: Item): string {
  return facts(terminal, [
    ['id', text(item.id)],
    ['uid', item.uid === null ? undefined : text(item.uid)],
    ['name', text(item.name)],
    ['of', text(item.of)],
    ...fieldFacts(item, filterFields),
  ])
}
