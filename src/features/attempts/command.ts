import { type Item, pathOf } from '../../cli/client.ts'
import type { RemoteCommands } from '../../cli/command.ts'
import { addFields, queryOf } from '../../cli/field-options.ts'
import { type Column, instant, text } from '../../cli/table.ts'
import { CommandError, exitCode } from '../../cli/terminal.ts'
import { messageFilterFields } from '../../domain/filter-fields.ts'
import { failedStatus, outcome, statusCode, statusColour, timingsOf } from './terminal.ts'

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

const when: Column<Item> = { title: 'AT', cell: ({ timestamp }) => instant(timestamp) }

const rest: readonly Column<Item>[] = [
  { title: 'TRY', cell: 'attempt', align: 'right' },
  { title: 'HTTP', cell: statusCode, align: 'right' },
  { title: 'MS', cell: 'responseDurationMs', align: 'right' },
  { title: 'OUTCOME', cell: outcome, colour: statusColour, flexible: true },
]

const timingsColumn: Column<Item> = { title: 'TIMINGS (MS)', cell: timingsOf }

const answerHeaders: Column<Item> = {
  title: 'RESPONSE HEADERS',
  cell: ({ responseHeaders }) =>
    Object.entries((responseHeaders ?? {}) as Item)
      .map(([name, value]) => `${name}: ${text(value)}`)
      .join(' | ') || '–',
}
