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
import { CommandError, exitCode, readNamedFile } from '../../cli/terminal.ts'
import { AppError } from '../../domain/app-error.ts'
import { messageFilterFields } from '../../domain/filter-fields.ts'
import { describeTimings, type Timings } from '../../domain/outcome.ts'
import { prettyJson } from '../../json/exact.ts'
import { Scanner } from '../../json/scan.ts'
import { finishTask, paceOf, perSecondOption, withNoWait } from '../tasks/command.ts'

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

const inputSign = '-'
const fileSign = '@'

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
        if (raw && headers !== undefined) {
          throw new CommandError('A raw payload goes without --header: its fields are in the URL.', exitCode.misused)
        }
        const path = pathOf('app', app, 'msg')
        const message = raw
          ? await session.client.post(`${path}/raw`, { query: asQuery(envelope), body: payload, contentType })
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

/** The fields as JSON with the bytes of the payload, which are never parsed. */
export function withPayload(fields: object, payload: Buffer): Buffer {
  const head = JSON.stringify(fields).slice(0, -1)
  return Buffer.concat([Buffer.from(`${head},"payload":`), payload, Buffer.from('}')])
}

/** Reads a payload from the operand, `@FILE`, or standard input. */
export async function readPayload({ terminal, options }: Session, given: string | undefined): Promise<Buffer> {
  const payload = await bytesOf()
  if (payload.length === 0 && options.raw !== true) {
    throw new CommandError('The payload is empty. The smallest JSON object is {}.', exitCode.misused)
  }
  if (options.raw !== true) assertJson(payload)
  return payload

  async function bytesOf(): Promise<Buffer> {
    if (given === undefined || given === inputSign) {
      if (given === undefined && terminal.inputIsTyped) {
        throw new CommandError(`No payload. Give JSON, @FILE, or ${inputSign} for standard input.`, exitCode.misused)
      }
      return terminal.readInput()
    }
    if (!given.startsWith(fileSign)) return Buffer.from(given)
    return readNamedFile(terminal, given.slice(fileSign.length))
  }
}

/**
 * Refuses a payload that is not JSON, before it is put between the other fields: the server would count bytes from their
 * beginning, which the user never wrote, and a payload such as `1,"tags":["x"]` would add fields.
 */
function assertJson(payload: Buffer): void {
  try {
    new Scanner(0).scan(payload)
  } catch (error) {
    if (!(error instanceof AppError)) throw error
    throw new CommandError(error.message.replace(/^The (body|JSON text)/, 'The payload'), exitCode.misused)
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
