import type { Command as Commander } from 'commander'
import { deadFilterFields } from '../domain/filter-fields.ts'
import { ApiProblem, type Client, type Item, pathOf } from './client.ts'
import type { RemoteCommands, Session } from './command.ts'
import { exportDead, importDead } from './dead-file.ts'
import { CommandError, exitCode } from './exit.ts'
import { addFields, fieldsOf, queryOf } from './field-options.ts'
import { outcome, statusCode } from './messages.ts'
import { ago, counted, countLimit, facts, instant, namesById, table, text } from './table.ts'
import { finishTask, perSecondOption, withNoWait } from './task.ts'

/** `sluice dead`: deliveries that used up their attempts or their time. */
export function addDead(commands: RemoteCommands): void {
  const dead = commands.group('dead', 'dead letters: list, show, replay, purge, export, import')

  const listed = 'list dead letters, newest first; without an application, of all'
  const list = dead.list('list [app]', listed, async ([app], session) => {
    const path = deadOf(requireApp(session, app))
    const { client, json } = session
    // One list of names: of the endpoints, or for all applications of these.
    const named = app === undefined ? '/app' : pathOf('app', app, 'endpoint')
    const names = json ? undefined : namesById((await client.list(named, {}, countLimit)).items)
    const nameIn = ({ endpointId, url }: Item) => names?.get(endpointId) ?? text(url || endpointId)
    return {
      path,
      query: queryOf(session, deadFilterFields),
      empty: 'No dead letters.',
      columns: [
        { title: 'DIED', cell: ({ diedAt }) => ago(diedAt, session.world.clock.now()) },
        ...(app === undefined
          ? [{ title: 'APPLICATION', cell: ({ appId }: Item) => names?.get(appId) ?? text(appId) }]
          : []),
        { title: 'MESSAGE', cell: 'msgId' },
        { title: 'ENDPOINT', cell: nameIn, flexible: true },
        { title: 'REASON', cell: 'reason' },
        { title: 'LAST', cell: lastOf, flexible: true },
      ],
    }
  })
  withFilters(list)

  dead.add(
    'show <app> <message> [endpoint]',
    'show a dead letter with every attempt',
    async (session, [app, message, endpoint]) => {
      const letters = await lettersOf(session.client, app, message, endpoint)
      session.show(letters, () => letters.map((letter) => describe(session, letter)).join('\n\n'))
    },
  )

  const replayed = 'send dead letters again: those of one message, by filter, or --all'
  const replay = dead.add('replay <app> [message]', replayed, async (session, [app, message]) => {
    requireChoice(session, message)
    const body = { msgId: message, ...fieldsOf(session, deadFilterFields), perSecond: session.options.perSecond }
    const started = await session.client.post(`${deadOf(app)}/replay`, { body })
    await finishTask(session, started, 'Replaying', (data) => countText(data, 'replayed'))
  })
  withNoWait(withFilters(replay).option('--all', 'all of the application').addOption(perSecondOption()))

  const purged = 'delete dead letters for good: those of one message, by filter, or --all'
  const purge = dead.addDeleting(
    'purge <app> [message]',
    purged,
    async (session, [app, message]) => {
      requireChoice(session, message)
      const hint = `\`sluice dead export ${app}\` saves them first.`
      if (message !== undefined) return `Delete the dead letters of message ${message} of ${app} for good? ${hint}`
      const { items, more } = await session.client.list(deadOf(app), queryOf(session, deadFilterFields), countLimit)
      return `Delete ${counted(items.length, 'dead letter', more)} of ${app} for good? ${hint}`
    },
    async (session, [app, message]) => {
      requireChoice(session, message)
      const query = { ...queryOf(session, deadFilterFields), msg_id: message }
      const started = await session.client.delete(deadOf(app), query)
      await finishTask(session, started, 'Purging', (data) => countText(data, 'purged'))
    },
  )
  withNoWait(withFilters(purge).option('--all', 'all of the application'))

  const exported = 'write dead letters with their payloads as JSON lines; without an application, of all'
  const write = dead.add('export [app]', exported, (session, [app]) =>
    exportDead(session, deadOf(requireApp(session, app)), queryOf(session, deadFilterFields)),
  )
  withFilters(write).option('--output <FILE>', 'file to write (default: standard output)')

  dead
    .add('import <app> <file>', 'import exported dead letters, of this server or another', (session, [app, file]) =>
      importDead(session, deadOf(app), file),
    )
    .option('--endpoint <ENDPOINT>', 'import all to this endpoint, by id or uid')
    .option('--skip-bad', 'skip lines that cannot be imported')
}

function countText(data: Item, verb: 'replayed' | 'purged'): string {
  return `${counted(Number(data[verb] ?? 0), 'dead letter')} ${verb}.`
}

function deadOf(app: string | undefined): string {
  return app === undefined ? '/dead' : pathOf('app', app, 'dead')
}

/** Refuses `--endpoint` without an application, because names of endpoints belong to one. */
function requireApp({ options }: Session, app: string | undefined): string | undefined {
  if (app !== undefined || options.endpoint === undefined) return app
  throw new CommandError('--endpoint needs an application: sluice dead list APP --endpoint ENDPOINT.', exitCode.misused)
}

function withFilters(command: Commander): Commander {
  return addFields(command, deadFilterFields)
}

/** Refuses a command without a choice: only `--all` means all dead letters. */
function requireChoice(session: Session, message: string | undefined): void {
  const chosen = message !== undefined || Object.keys(fieldsOf(session, deadFilterFields)).length > 0
  if (chosen || session.options.all === true) return
  throw new CommandError('Which ones? Name a message, give a filter such as --endpoint, or --all.', exitCode.misused)
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
      // The delivery still waits, or the dead letter was purged.
      if (!(error instanceof ApiProblem) || error.status !== 404) throw error
    }
  }
  if (letters.length > 0) return letters
  throw new CommandError('The message is a dead letter at no endpoint.', exitCode.notFound)
}

/** The outcome of the last attempt, with the HTTP status if there was a response. */
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
  if (attempts.length === 0) return `${about}\n\nNo attempts are recorded.`
  const trail = table(
    terminal,
    [
      { title: 'TRY', cell: 'attempt', align: 'right' },
      { title: 'AT', cell: ({ timestamp }) => instant(timestamp) },
      { title: 'HTTP', cell: statusCode, align: 'right' },
      { title: 'MS', cell: 'responseDurationMs', align: 'right' },
      { title: 'OUTCOME', cell: outcome, flexible: true },
    ],
    attempts,
  )
  return `${about}\n\n${trail}`
}
