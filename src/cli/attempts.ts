import { type Item, pathOf } from './client.ts'
import { filtersOf, statusColour } from './messages.ts'
import { CommandError, exitCode } from './outcome.ts'
import { limitOption, type RemoteCommands, repeated, showList } from './remote.ts'
import { instant, text } from './show.ts'
import type { Column } from './table.ts'
import { table } from './table.ts'

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
