import { type Item, pathOf, type Query } from '../../cli/client.ts'
import {
  instantForm,
  instantOption,
  type Listing,
  limitOption,
  pairsOf,
  printList,
  type RemoteCommands,
  repeated,
  type Session,
} from '../../cli/command.ts'
import { addFields, asQuery, queryOf } from '../../cli/field-options.ts'
import { type Column, counted, facts, instant, nameOf, table, text } from '../../cli/table.ts'
import { messageFilterFields } from '../../domain/filter-fields.ts'
import { prettyJson } from '../../json/exact.ts'
import { statusColour, statusText } from '../attempts/terminal.ts'
import { finishTask, paceOf, perSecondOption, withNoWait } from '../tasks/terminal.ts'
import { readPayload, withPayload } from './terminal.ts'

/** `sluice messages`: the messages of an application, or one message with its status at each endpoint. */
export function addMessages(commands: RemoteCommands): void {
  const summary = 'list messages, newest first, or show one with its status'
  const command = commands.add('messages <app> [message]', summary, (session, [app, ref]) =>
    ref === undefined ? printList(session, messagesOf(session, app)) : showOne(session, app, ref),
  )
  addFields(command, messageFilterFields).addOption(limitOption()).alias('message')
}

function messagesOf(session: Session, app: string): Listing {
  return {
    path: pathOf('app', app, 'msg'),
    query: { ...queryOf(session, messageFilterFields), with_content: session.json },
    empty: 'No messages.',
    columns: [
      { title: 'ACCEPTED', cell: ({ timestamp }) => instant(timestamp) },
      { title: 'MESSAGE', cell: 'id' },
      { title: 'EVENT TYPE', cell: 'eventType', flexible: true },
      { title: 'EVENT ID', cell: 'eventId', flexible: true },
    ],
  }
}

async function showOne(session: Session, app: string, ref: string): Promise<void> {
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
    const status = table(terminal, destinationColumns, destinations, 'No endpoint matched it.')
    return [about, '', payload, '', status].join('\n')
  })
}

const destinationColumns: readonly Column<Item>[] = [
  { title: 'ENDPOINT', cell: nameOf },
  { title: 'URL', cell: 'url', flexible: true },
  { title: 'STATUS', cell: statusText, colour: statusColour },
  { title: 'NEXT ATTEMPT', cell: ({ nextAttempt }) => instant(nextAttempt) },
]

/** `sluice resend` and `sluice recover`: deliver messages again, after a failure or an outage. */
export function addResend(commands: RemoteCommands): void {
  commands.add(
    'resend <app> <message> <endpoint>',
    'send one message to one endpoint again',
    async (session, operands) => {
      const [app, message, endpoint] = operands
      await session.client.post(pathOf('app', app, 'msg', message, 'endpoint', endpoint, 'resend'), { body: {} })
      session.show({ resent: message, endpoint }, () => `Queued ${message} for ${endpoint} again, behind new messages.`)
    },
  )

  const summary = 'redeliver failed messages to an endpoint, or with --missing those that it never received'
  const recover = commands
    .addConfirmed(
      'recover <app> <endpoint>',
      summary,
      async (session, [app, endpoint]) => {
        const found = await session.client.get(pathOf('app', app, 'endpoint', endpoint, 'replayable'), spanOf(session))
        const { failed, failedMore, messages, messagesMore } = found
        return session.options.missing === true
          ? `Send those of ${counted(Number(messages), 'message', messagesMore === true)} that ${endpoint} of ${app} never received, ${paceOf(session)}?`
          : `Send ${counted(Number(failed), 'failed message', failedMore === true)} to ${endpoint} of ${app} again, ${paceOf(session)}?`
      },
      async (session, [app, endpoint]) => {
        const { missing, perSecond } = session.options
        const body = { ...spanOf(session), perSecond }
        const verb = missing === true ? 'replay-missing' : 'recover'
        const task = await session.client.post(pathOf('app', app, 'endpoint', endpoint, verb), { body })
        const done = ({ replayed = 0 }: Item) => `Queued again: ${counted(Number(replayed), 'message')}.`
        await finishTask(session, task, 'Recovering', done)
      },
    )
    .requiredOption('--since <INSTANT>', `accepted at or after, ${instantForm}`)
    .option('--until <INSTANT>', 'accepted before (default: now)')
    .option('--missing', 'messages that match its filters and that it never received')
    .addOption(perSecondOption())
  withNoWait(recover)
}

function spanOf(session: Session) {
  return { since: instantOption(session, 'since'), until: instantOption(session, 'until') }
}

/** `sluice send`: publishes one message. The payload's bytes are sent unchanged: they are never parsed. */
export function addSend(commands: RemoteCommands): void {
  commands
    .add(
      'send <app> <event-type> [payload]',
      'publish a message; the payload is JSON, @FILE, or - for standard input (default)',
      async (session, [app, eventType, given]) => {
        const payload = await readPayload(session, given)
        const { raw, contentType = 'application/octet-stream' } = session.options as Record<string, string | undefined>
        const envelope = envelopeOf(session, eventType)
        const headers = pairsOf((session.options as Query).header)
        const path = pathOf('app', app, 'msg')
        const message = raw
          ? await session.client.post(`${path}/raw`, {
              query: asQuery(envelope),
              body: payload,
              contentType,
              headers: besideBytes(headers),
            })
          : await session.client.post(path, {
              query: { with_content: false },
              body: withPayload({ ...envelope, headers }, payload),
            })
        session.show(message, (item) => describe(session, app, item))
      },
    )
    .option('--event-id <ID>', 'your own id for it; a second message with the same id is refused')
    .addOption(repeated('--channel <CHANNEL>', 'channel; may be repeated'))
    .addOption(repeated('--tag <TAG>', 'tag to find it by; may be repeated'))
    .option('--deliver-at <INSTANT>', 'deliver not before, such as 2026-11-15T10:00:00Z, or 2h for in two hours')
    .option('--expires-at <INSTANT>', 'discard if undelivered by then, such as 2026-11-15T10:00:00Z, or 2h')
    .option('--ordering-key <KEY>', 'endpoints with ordering by key deliver messages with the same key in order')
    .option('--dedupe-key <KEY>', 'publish nothing if the application got this key within its dedupe window')
    .addOption(repeated('--header <NAME=VALUE>', 'header of its deliveries; may be repeated'))
    .option('--endpoint <ENDPOINT>', 'deliver to this endpoint alone, by id or uid, even if its filters do not match')
    .option('--raw', 'send the payload unchanged; it need not be JSON')
    .option('--content-type <TYPE>', 'content type of a raw payload (default: application/octet-stream)')
}

/** The headers of a message whose body is its bytes. */
function besideBytes(headers: Readonly<Record<string, string>> = {}): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [`sluice-header-${name}`, value]))
}

function envelopeOf(session: Session, eventType: string) {
  const { eventId, channel, tag, orderingKey, dedupeKey, endpoint } = session.options as Query
  return {
    eventType,
    eventId,
    channels: channel,
    tags: tag,
    deliverAt: instantOption(session, 'deliverAt', 'ahead'),
    expiresAt: instantOption(session, 'expiresAt', 'ahead'),
    orderingKey,
    dedupeKey,
    endpoint,
  }
}

function describe({ terminal }: Session, app: string, { id, unfiltered }: Item): string {
  const left = Number(unfiltered ?? 0)
  const warning = `${counted(left, 'dead letter')}: no work was left for the filters. See sluice dead list ${app} --reason unfiltered`
  const hint = terminal.style('dim', `Check its status: sluice messages ${app} ${text(id)}`)
  const lines = [
    `Accepted as ${terminal.style('bold', text(id))}`,
    ...(left > 0 ? [terminal.style('yellow', warning)] : []),
  ]
  return [...lines, hint].join('\n')
}
