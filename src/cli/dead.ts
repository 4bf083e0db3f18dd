import type { Command as Commander } from 'commander'
import { deadReasons } from '../domain/judge.ts'
import { choice } from '../runtime/setting-kinds.ts'
import { ApiProblem, type Client, type Item, pathOf } from './client.ts'
import { instantText, limitOption, option, type RemoteCommands, repeated, type Session, showList } from './command.ts'
import { exportDead, importDead } from './dead-file.ts'
import { CommandError, exitCode } from './exit.ts'
import { outcome, statusCode } from './messages.ts'
import { ago, counted, facts, instant, nameOf, table, text } from './table.ts'
import { followTask, perSecondOption } from './task.ts'

/** `sluice dead`: deliveries that used up their attempts or their time. */
export function addDead(commands: RemoteCommands): void {
  const dead = commands.group('dead', 'dead letters: list, show, replay, purge, export, import')

  withFilters(
    commands.add(
      dead,
      'list [app]',
      'list dead letters, newest first; without an application, of all',
      async (session, [app]) => {
        const path = deadOf(requireApp(session, app))
        const found = await session.client.list(path, queryOf(session), session.options.limit as number)
        const names =
          session.json || app === undefined ? new Map<unknown, string>() : await endpointNames(session.client, app)
        showList(session, found, 'No dead letters.', (items) =>
          table(
            session.terminal,
            [
              { title: 'DIED', cell: ({ diedAt }) => ago(diedAt, session.world.clock.now()) },
              ...(app === undefined ? [{ title: 'APPLICATION', cell: ({ appId }: Item) => text(appId) }] : []),
              { title: 'MESSAGE', cell: ({ msgId }) => text(msgId) },
              {
                title: 'ENDPOINT',
                cell: ({ endpointId }) => names.get(endpointId) ?? text(endpointId),
                flexible: true,
              },
              { title: 'REASON', cell: ({ reason }) => text(reason) },
              { title: 'LAST', cell: lastOf, flexible: true },
            ],
            items,
          ),
        )
      },
    ),
  ).addOption(limitOption())

  commands.add(
    dead,
    'show <app> <message> [endpoint]',
    'show a dead letter with every attempt',
    async (session, [app = '', message = '', endpoint]) => {
      const letters = await lettersOf(session.client, app, message, endpoint)
      session.show(letters, () => letters.map((letter) => describe(session, letter)).join('\n\n'))
    },
  )

  withFilters(
    commands.add(
      dead,
      'replay <app> [message]',
      'send dead letters again: those of one message, by filter, or --all',
      async (session, [app = '', message]) => {
        requireChoice(session, message)
        const { endpoint_id: endpointId, event_types: eventTypes, reason, before, after } = queryOf(session)
        const { perSecond } = session.options
        const body = { msgId: message, endpointId, eventTypes, reason, before, after, perSecond }
        const started = await session.client.post(`${deadOf(app)}/replay`, { body })
        await finish(session, started, 'Replaying', 'replayed')
      },
    ),
  )
    .option('--all', 'all of the application')
    .addOption(perSecondOption())
    .option('--no-wait', 'do not wait until it is done')

  withFilters(
    commands.add(
      dead,
      'purge <app> [message]',
      'throw dead letters away: those of one message, by filter, or --all',
      async (session, [app = '', message]) => {
        requireChoice(session, message)
        const started = await session.client.delete(deadOf(app), { ...queryOf(session), msg_id: message })
        await finish(session, started, 'Purging', 'purged')
      },
    ),
  )
    .option('--all', 'all of the application')
    .option('--no-wait', 'do not wait until it is done')

  withFilters(
    commands.add(
      dead,
      'export [app]',
      'write dead letters with their payloads as JSON lines; without an application, of all',
      (session, [app]) => exportDead(session, deadOf(requireApp(session, app)), queryOf(session)),
    ),
  ).option('--output <FILE>', 'write into this file instead of standard output')

  commands
    .add(dead, 'import <app> <file>', 'bring exported dead letters back, here or elsewhere', (session, [app, file]) =>
      importDead(session, deadOf(app), file as string),
    )
    .option('--endpoint <ENDPOINT>', 'all to this endpoint, by id or uid')
    .option('--skip-bad', 'leave out lines that cannot be imported')
}

function deadOf(app: string | undefined): string {
  return app === undefined ? '/dead' : pathOf('app', app, 'dead')
}

/** An endpoint is one of an application's. */
function requireApp({ options }: Session, app: string | undefined): string | undefined {
  if (app !== undefined || options.endpoint === undefined) return app
  throw new CommandError('Which application? --endpoint needs one before it.', exitCode.misused)
}

function withFilters(command: Commander): Commander {
  return command
    .option('--endpoint <ENDPOINT>', 'only at this endpoint, by id or uid')
    .addOption(repeated('--event-type <TYPE>', 'only of this type; may be repeated'))
    .addOption(option('--reason <REASON>', `only for this reason: ${deadReasons.join(', ')}`, choice(deadReasons)))
    .option('--after <INSTANT>', 'only dead since, such as 2026-11-15T09:40:00Z, or 2h for two hours ago')
    .option('--before <INSTANT>', 'only dead before')
}

/** The filters that were given, by the names of the API's query. */
function queryOf({ options, world }: Session) {
  const at = (raw: unknown) => (raw === undefined ? undefined : instantText(String(raw), world.clock.now()))
  return {
    endpoint_id: options.endpoint as string | undefined,
    event_types: options.eventType as string[] | undefined,
    reason: options.reason as string | undefined,
    after: at(options.after),
    before: at(options.before),
  }
}

/** Everything is meant only when that was said. */
function requireChoice(session: Session, message: string | undefined): void {
  const chosen = message !== undefined || Object.values(queryOf(session)).some((value) => value !== undefined)
  if (chosen || session.options.all === true) return
  throw new CommandError('Which ones? Name a message, give a filter such as --endpoint, or --all.', exitCode.misused)
}

async function finish(session: Session, started: Item, doing: string, done: 'replayed' | 'purged'): Promise<void> {
  const id = text(started.id)
  if (session.options.wait === false) {
    session.show(started, () => `${doing} as task ${id}.`)
    return
  }
  const ended = await followTask(session, id, doing)
  const count = Number((ended.data as Item | undefined)?.[done] ?? 0)
  session.show(ended, () => `${counted(count, 'dead letter')} ${done}.`)
}

/** One dead letter, or all of a message when the endpoint is not named. */
async function lettersOf(client: Client, app: string, message: string, endpoint: string | undefined): Promise<Item[]> {
  const one = (ref: string) => client.get(`${deadOf(app)}${pathOf(message, ref)}`)
  if (endpoint !== undefined) return [await one(endpoint)]
  const { items } = await client.list(pathOf('app', app, 'msg', message, 'endpoint'), {}, 1000)
  const letters: Item[] = []
  for (const { id } of items.filter(({ statusText }) => statusText !== 'success')) {
    try {
      letters.push(await one(text(id)))
    } catch (error) {
      // It waits, or was purged.
      if (!(error instanceof ApiProblem) || error.status !== 404) throw error
    }
  }
  if (letters.length > 0) return letters
  throw new CommandError('The message is dead at no endpoint.', exitCode.notFound)
}

async function endpointNames(client: Client, app: string): Promise<Map<unknown, string>> {
  const { items } = await client.list(pathOf('app', app, 'endpoint'), {}, 1000)
  return new Map(items.map((item) => [item.id, nameOf(item)]))
}

/** What the last attempt met, in a word and the status. */
function lastOf({ code, responseStatusCode }: Item): string {
  return responseStatusCode === 0 ? text(code) : `${text(code)} ${text(responseStatusCode)}`
}

function describe({ terminal }: Session, letter: Item): string {
  const about = facts(terminal, [
    ['message', text(letter.msgId)],
    ['endpoint', text(letter.endpointId)],
    ['url', text(letter.url)],
    ['event type', text(letter.eventType)],
    ['event id', text(letter.eventId)],
    ['published', instant(letter.publishedAt)],
    ['died', instant(letter.diedAt)],
    ['reason', terminal.style('red', text(letter.reason))],
    ['last error', letter.error == null ? '–' : text(letter.error)],
    ['last answer', letter.response == null ? '–' : text(letter.response)],
  ])
  const attempts = (letter.trail ?? []) as Item[]
  if (attempts.length === 0) return `${about}\n\nIts attempts are not known here, or none was made.`
  const trail = table(
    terminal,
    [
      { title: 'TRY', cell: ({ attempt }) => text(attempt), align: 'right' },
      { title: 'AT (UTC)', cell: ({ timestamp }) => instant(timestamp) },
      { title: 'HTTP', cell: statusCode, align: 'right' },
      { title: 'MS', cell: ({ responseDurationMs }) => text(responseDurationMs), align: 'right' },
      { title: 'OUTCOME', cell: outcome, flexible: true },
    ],
    attempts,
  )
  return `${about}\n\n${trail}`
}
