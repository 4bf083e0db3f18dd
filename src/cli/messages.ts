import { prettyJson } from '../json/exact.ts'
import { type Item, pathOf } from './client.ts'
import { instantText, limitOption, type RemoteCommands, repeated, type Session, showList } from './remote.ts'
import { instant, nameOf, text } from './show.ts'
import { facts, table } from './table.ts'

/** `sluice messages`: the messages of an application, or one message with its status at each endpoint. */
export function addMessages(commands: RemoteCommands): void {
  commands
    .add(
      commands.program,
      'messages <app> [message]',
      'list messages, newest first, or show one with its status',
      async (session, [app = '', ref]) => {
        if (ref === undefined) return await list(session, app)
        return await showOne(session, app, ref)
      },
    )
    .addOption(repeated('--event-type <TYPE>', 'only this event type; may be repeated'))
    .option('--channel <CHANNEL>', 'only this channel')
    .option('--tag <TAG>', 'only with this tag')
    .option('--after <INSTANT>', 'only accepted after, such as 2026-11-15T09:40:00Z, or 2h for two hours ago')
    .option('--before <INSTANT>', 'only accepted before')
    .addOption(limitOption())
}

async function list(session: Session, app: string): Promise<undefined> {
  const query = { ...filtersOf(session), with_content: session.json }
  const found = await session.client.list(pathOf('app', app, 'msg'), query, session.options.limit as number)
  showList(session, found, 'No messages.', (items) =>
    table(
      session.terminal,
      [
        { title: 'ACCEPTED (UTC)', cell: ({ timestamp }) => instant(timestamp) },
        { title: 'MESSAGE', cell: ({ id }) => text(id) },
        { title: 'EVENT TYPE', cell: ({ eventType }) => text(eventType), flexible: true },
        { title: 'EVENT ID', cell: ({ eventId }) => text(eventId), flexible: true },
      ],
      items,
    ),
  )
  return undefined
}

async function showOne(session: Session, app: string, ref: string): Promise<undefined> {
  const { client, terminal } = session
  const path = pathOf('app', app, 'msg', ref)
  const message = await client.get(path)
  const { items: destinations } = await client.list(`${path}/endpoint`, {}, session.options.limit as number)
  session.show({ ...message, endpoints: destinations }, () => {
    const about = facts(terminal, [
      ['id', text(message.id)],
      ['event type', text(message.eventType)],
      ['event id', text(message.eventId)],
      ['channels', text(message.channels)],
      ['tags', message.tags === undefined ? undefined : text(message.tags)],
      ['ordering key', message.orderingKey == null ? undefined : text(message.orderingKey)],
      ['accepted', instant(message.timestamp)],
      ['deliver at', message.deliverAt == null ? undefined : instant(message.deliverAt)],
      ['expires', message.expiresAt == null ? undefined : instant(message.expiresAt)],
    ])
    const payload = prettyJson(JSON.stringify(message.payload)) ?? text(message.payload)
    return [about, '', payload, '', destinationsTable(session, destinations)].join('\n')
  })
  return undefined
}

function destinationsTable({ terminal }: Session, destinations: readonly Item[]): string {
  if (destinations.length === 0) return 'No endpoint matched it.'
  return table(
    terminal,
    [
      { title: 'ENDPOINT', cell: nameOf },
      { title: 'URL', cell: ({ url }) => text(url), flexible: true },
      { title: 'STATUS', cell: statusText, colour: statusColour },
      { title: 'NEXT ATTEMPT (UTC)', cell: ({ nextAttempt }) => instant(nextAttempt) },
    ],
    destinations,
  )
}

function statusText({ statusText: status, coalescedInto }: Item): string {
  return coalescedInto == null ? text(status) : `coalesced into ${text(coalescedInto)}`
}

/** The colour of a delivery's status. */
export function statusColour({ statusText, coalescedInto }: Item): 'green' | 'red' | 'yellow' {
  if (statusText === 'success') return 'green'
  if (coalescedInto != null) return 'yellow'
  return statusText === 'fail' ? 'red' : 'yellow'
}

/** The filters that lists of messages and attempts share. */
export function filtersOf({ options, world }: Session) {
  const at = (raw: unknown) => (raw === undefined ? undefined : instantText(String(raw), world.clock.now()))
  return {
    event_types: options.eventType as string[] | undefined,
    channel: options.channel as string | undefined,
    tag: options.tag as string | undefined,
    after: at(options.after),
    before: at(options.before),
  }
}
