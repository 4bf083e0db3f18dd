import { prettyJson } from '../json/exact.ts'
import { type Item, pathOf } from './client.ts'
import { instantText, limitOption, type RemoteCommands, repeated, type Session, showList } from './command.ts'
import { CommandError, exitCode } from './exit.ts'
import { type Column, counted, facts, instant, nameOf, table, text } from './table.ts'
import { followTask, perSecondOption } from './task.ts'

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

/** `sluice attempts`: the attempts of one message, or at one endpoint. */
export function addAttempts(commands: RemoteCommands): void {
  commands
    .add(
      commands.program,
      'attempts <app>',
      'list attempts of one message or at one endpoint, newest first',
      async (session, [app = '']) => {
        const { message, endpoint, failed, limit } = session.options as Record<string, string | undefined>
        if (message === undefined && endpoint === undefined) {
          throw new CommandError('Name a message or an endpoint: --message or --endpoint.', exitCode.misused)
        }
        const query = { ...filtersOf(session), status: failed ? failedStatus : undefined }
        const found =
          message === undefined
            ? await session.client.list(pathOf('app', app, 'attempt', 'endpoint', endpoint ?? ''), query, Number(limit))
            : await session.client.list(
                pathOf('app', app, 'attempt', 'msg', message),
                { ...query, endpoint_id: endpoint },
                Number(limit),
              )
        showList(session, found, 'No attempts.', (items) =>
          table(
            session.terminal,
            message === undefined ? [when, messageColumn, ...rest] : [when, endpointColumn, ...rest],
            items,
          ),
        )
      },
    )
    .option('--message <MESSAGE>', 'attempts of this message, by id or eventId')
    .option('--endpoint <ENDPOINT>', 'attempts at this endpoint, by id or uid')
    .option('--failed', 'only failed attempts')
    .addOption(repeated('--event-type <TYPE>', 'only this event type; may be repeated'))
    .option('--after <INSTANT>', 'only after, such as 2026-11-15T09:40:00Z, or 2h for two hours ago')
    .option('--before <INSTANT>', 'only before')
    .addOption(limitOption())
}

/** Svix's number for an attempt that failed. */
export const failedStatus = 2

const when: Column<Item> = { title: 'AT (UTC)', cell: ({ timestamp }) => instant(timestamp) }
const messageColumn: Column<Item> = { title: 'MESSAGE', cell: ({ msgId }) => text(msgId) }
const endpointColumn: Column<Item> = { title: 'ENDPOINT', cell: ({ endpointId }) => text(endpointId) }
const rest: readonly Column<Item>[] = [
  { title: 'TRY', cell: ({ attempt }) => text(attempt), align: 'right' },
  { title: 'HTTP', cell: statusCode, align: 'right' },
  { title: 'MS', cell: ({ responseDurationMs }) => text(responseDurationMs), align: 'right' },
  { title: 'OUTCOME', cell: outcome, colour: statusColour, flexible: true },
]

/** The HTTP status of the response; '–' when there was none. */
export function statusCode({ responseStatusCode }: Item): string {
  return responseStatusCode === 0 ? '–' : text(responseStatusCode)
}

/** The outcome of an attempt, with its error. */
export function outcome({ code, error, statusText }: Item): string {
  return error == null || error === '' ? text(code ?? statusText) : `${text(code ?? statusText)}: ${text(error)}`
}

/** `sluice resend` and `sluice recover`: deliver messages again, after a failure or an outage. */
export function addAgain(commands: RemoteCommands): void {
  commands.add(
    commands.program,
    'resend <app> <message> <endpoint>',
    'send one message to one endpoint again',
    async (session, [app = '', message = '', endpoint = '']) => {
      await session.client.post(pathOf('app', app, 'msg', message, 'endpoint', endpoint, 'resend'), { body: {} })
      session.show({ resent: message, endpoint }, () => `Queued ${message} for ${endpoint} again, behind new messages.`)
    },
  )

  commands
    .add(
      commands.program,
      'recover <app> <endpoint>',
      'redeliver failed messages to an endpoint, or with --missing those that it never received',
      async (session, [app = '', endpoint = '']) => {
        const { since, until, missing } = session.options as { since: string; until?: string; missing?: boolean }
        const now = session.world.clock.now()
        const { perSecond } = session.options
        const body = { since: instantText(since, now), until: until && instantText(until, now), perSecond }
        const verb = missing === true ? 'replay-missing' : 'recover'
        const task = await session.client.post(pathOf('app', app, 'endpoint', endpoint, verb), { body })
        if (session.options.wait === false) session.show(task, ({ id }) => `Started task ${text(id)}.`)
        else {
          const done = await followTask(session, text(task.id), 'Recovering')
          session.show(done, ({ data }) => `Queued again: ${counted(Number((data as Item).replayed ?? 0), 'message')}.`)
        }
      },
    )
    .requiredOption('--since <INSTANT>', 'accepted at or after, such as 2026-11-15T09:40:00Z, or 2h for two hours ago')
    .option('--until <INSTANT>', 'accepted before (default: now)')
    .option('--missing', 'messages that match its filters and that it never received')
    .addOption(perSecondOption())
    .option('--no-wait', 'do not wait until it is done')
}
