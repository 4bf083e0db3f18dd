import { messageFilterFields } from '../domain/filter-fields.ts'
import { describeTimings, type Timings } from '../domain/outcome.ts'
import { prettyJson } from '../json/exact.ts'
import { type Item, pathOf } from './client.ts'
import {
  instantForm,
  instantOption,
  type Listing,
  limitOption,
  printList,
  type RemoteCommands,
  type Session,
} from './command.ts'
import { CommandError, exitCode } from './exit.ts'
import { addFields, queryOf } from './field-options.ts'
import { type Column, counted, facts, instant, nameOf, table, text } from './table.ts'
import { finishTask, perSecondOption, withNoWait } from './task.ts'

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
    return [about, '', payload, '', destinationsTable(session, destinations)].join('\n')
  })
}

function destinationsTable({ terminal }: Session, destinations: readonly Item[]): string {
  if (destinations.length === 0) return 'No endpoint matched it.'
  return table(
    terminal,
    [
      { title: 'ENDPOINT', cell: nameOf },
      { title: 'URL', cell: 'url', flexible: true },
      { title: 'STATUS', cell: statusText, colour: statusColour },
      { title: 'NEXT ATTEMPT', cell: ({ nextAttempt }) => instant(nextAttempt) },
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

/** `sluice attempts`: the attempts of one message, or at one endpoint. */
export function addAttempts(commands: RemoteCommands): void {
  const summary = 'list attempts of one message or at one endpoint, newest first'
  const command = commands
    .list('attempts <app> [message]', summary, ([app, message], session) => {
      const { endpoint, failed, headers, timings } = session.options as Record<string, string | undefined>
      if (message === undefined && endpoint === undefined) {
        const remedy = `sluice attempts ${app} MESSAGE, or sluice attempts ${app} --endpoint ENDPOINT`
        throw new CommandError(`Name a message or an endpoint: ${remedy}.`, exitCode.misused)
      }
      const query = { ...queryOf(session, messageFilterFields), status: failed ? failedStatus : undefined }
      const [path, other] =
        message === undefined ? [pathOf('endpoint', endpoint ?? ''), 'msg'] : [pathOf('msg', message), 'endpoint']
      return {
        path: pathOf('app', app, 'attempt') + path,
        query: message === undefined ? query : { ...query, endpoint_id: endpoint },
        empty: 'No attempts.',
        columns: [
          when,
          other === 'msg' ? { title: 'MESSAGE', cell: 'msgId' } : endpointColumn,
          ...rest,
          ...(timings ? [timingsColumn] : []),
          ...(headers ? [answerHeaders] : []),
        ],
      }
    })
    .option('--endpoint <ENDPOINT>', 'attempts at this endpoint, by id or uid')
    .option('--failed', 'only failed attempts')
    .option('--timings', 'show the split of the time of each attempt, too: DNS, connect, TLS, first byte')
    .option('--headers', 'show the headers of each response, too')
    .alias('attempt')
  addFields(command, messageFilterFields)
}

/** The endpoint of an attempt by its uid, its URL, or the id of a deleted one. */
const endpointColumn: Column<Item> = {
  title: 'ENDPOINT',
  cell: ({ endpointUid, url, endpointId }) => text(endpointUid ?? (url === '' ? endpointId : url)),
  flexible: true,
}

/** Svix's number for an attempt that failed. */
export const failedStatus = 2

const when: Column<Item> = { title: 'AT', cell: ({ timestamp }) => instant(timestamp) }
const rest: readonly Column<Item>[] = [
  { title: 'TRY', cell: 'attempt', align: 'right' },
  { title: 'HTTP', cell: statusCode, align: 'right' },
  { title: 'MS', cell: 'responseDurationMs', align: 'right' },
  { title: 'OUTCOME', cell: outcome, colour: statusColour, flexible: true },
]

const timingsColumn: Column<Item> = { title: 'TIMINGS (MS)', cell: timingsOf }

/** The split of an attempt's time in words; '–' when it is unknown. */
export function timingsOf({ timings }: Item): string {
  return timings == null ? '–' : describeTimings(timings as unknown as Timings) || '–'
}

const answerHeaders: Column<Item> = {
  title: 'RESPONSE HEADERS',
  cell: ({ responseHeaders }) =>
    Object.entries((responseHeaders ?? {}) as Item)
      .map(([name, value]) => `${name}: ${text(value)}`)
      .join(' | ') || '–',
}

/** The HTTP status of the response; '–' when there was none. */
export function statusCode({ responseStatusCode }: Item): string {
  return responseStatusCode === 0 ? '–' : text(responseStatusCode)
}

/** The outcome of an attempt, with its error. */
export function outcome({ code, error, statusText }: Item): string {
  return error == null || error === '' ? text(code ?? statusText) : `${text(code ?? statusText)}: ${text(error)}`
}

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
    .add('recover <app> <endpoint>', summary, async (session, [app, endpoint]) => {
      const { missing, perSecond } = session.options
      const body = { since: instantOption(session, 'since'), until: instantOption(session, 'until'), perSecond }
      const verb = missing === true ? 'replay-missing' : 'recover'
      const task = await session.client.post(pathOf('app', app, 'endpoint', endpoint, verb), { body })
      const done = ({ replayed = 0 }: Item) => `Queued again: ${counted(Number(replayed), 'message')}.`
      await finishTask(session, task, 'Recovering', done)
    })
    .requiredOption('--since <INSTANT>', `accepted at or after, ${instantForm}`)
    .option('--until <INSTANT>', 'accepted before (default: now)')
    .option('--missing', 'messages that match its filters and that it never received')
    .addOption(perSecondOption())
  withNoWait(recover)
}
