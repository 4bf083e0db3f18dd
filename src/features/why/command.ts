import { ApiProblem, type Item, pathOf } from '../../cli/client.ts'
import { limitOption, option, printMore, type RemoteCommands, type Session } from '../../cli/command.ts'
import { ago, type Column, facts, instant, namesById, table, text, waitingText, wordOf } from '../../cli/table.ts'
import { CommandError, exitCode, toJson } from '../../cli/terminal.ts'
import { choice } from '../../runtime/setting-kinds.ts'
import { outcome, statusCode, timingsOf } from '../attempts/terminal.ts'
import { queueSorts } from './rules.ts'

const wideColumns = 110
/** The endpoints that the API explains at most. */
const mostEndpoints = 100

/** `sluice why`: explains why deliveries wait, and until when. */
export function addWhy(commands: RemoteCommands): void {
  commands
    .add(
      'why [app] [message] [endpoint]',
      'explain why deliveries wait, and until when',
      (session, [app, message, endpoint]) => explain(session, app, message, endpoint),
    )
    .option('--endpoint <ENDPOINT>', 'all deliveries that wait for one endpoint')
    .addOption(limitOption().default(25))
    .addOption(
      option(
        '--sort <ORDER>',
        'the worst first: waiting, by waiting deliveries, or age, by the oldest (default: waiting)',
        choice(queueSorts),
      ),
    )
    .addHelpText(
      'after',
      `
Examples:
  sluice why                           the worst endpoints of all applications
  sluice why acme --sort age           the worst endpoints of an application, those that wait longest first
  sluice why acme --endpoint ep_1a…    one endpoint
  sluice why acme msg_2b…              a message, at each of its endpoints
  sluice why acme msg_2b… ep_1a…       a message, at one endpoint`,
    )
}

async function explain(
  session: Session,
  app: string | undefined,
  message: string | undefined,
  operand: string | undefined,
): Promise<void> {
  const option = session.options.endpoint as string | undefined
  if (app === undefined) {
    if (option !== undefined) throw new CommandError('Name the application of the endpoint.', exitCode.misused)
    return explainMany(session, undefined)
  }
  if (operand !== undefined && option !== undefined && operand !== option) {
    throw new CommandError('Name only one endpoint.', exitCode.misused)
  }
  const endpoint = operand ?? option
  if (endpoint === undefined) {
    return message === undefined ? explainMany(session, app) : explainMessage(session, app, message)
  }
  const path = pathOf('app', app, ...(message === undefined ? [] : ['msg', message]), 'endpoint', endpoint, 'why')
  const describe = message === undefined ? describeEndpoint : describeDelivery
  session.show(await session.client.get(path), (why) => describe(session, why))
}

/** Explains a message at each of its endpoints, one request each. */
async function explainMessage(session: Session, app: string, message: string): Promise<void> {
  const { client, terminal, options } = session
  const path = pathOf('app', app, 'msg', message, 'endpoint')
  const { items, more } = await client
    .list(path, {}, options.limit as number)
    .catch((error: unknown) => hintAtEndpoint(session, app, message, error))
  const found: Item[] = []
  const names = namesById(items)
  for (const { id } of items) found.push(await client.get(`${path}${pathOf(text(id), 'why')}`))
  const columns: readonly Column<Item>[] = [
    { title: 'ENDPOINT', cell: ({ endpointId }) => names.get(endpointId) ?? text(endpointId) },
    ...whyColumns,
    { title: 'TRIED', cell: 'attempts', align: 'right' },
    ...detailColumn(session),
  ]
  session.show(found, (whys) => table(terminal, columns, whys, 'No endpoint matched it.'))
  if (more && !session.json) printMore(session)
}

/** Adds a hint when the caller named an endpoint in place of a message. */
async function hintAtEndpoint({ client }: Session, app: string, ref: string, error: unknown): Promise<never> {
  const isUnknown = error instanceof ApiProblem && error.status === 404
  const endpoint = isUnknown && (await client.get(pathOf('app', app, 'endpoint', ref)).catch(() => undefined))
  if (!endpoint) throw error
  throw new ApiProblem(`${error.message} For the endpoint: \`sluice why ${app} --endpoint ${ref}\`.`, error.status)
}

/** Explains the endpoints that are worst off, of one application or of all. */
async function explainMany(session: Session, app: string | undefined): Promise<void> {
  const { client, terminal, options, world } = session
  const limit = Math.min(mostEndpoints, options.limit as number)
  const path = app === undefined ? '/why' : pathOf('app', app, 'why')
  const answer = await client.get(path, { limit, sort: options.sort as string | undefined })
  if (session.json) return terminal.print(toJson(answer, 2))
  const endpoints = answer.data as Item[]
  const wide = (answer.blockers as Item[]).map(
    ({ reason, detail }) => `${terminal.style(['bold', 'red'], text(reason))}: ${text(detail)}`,
  )
  const now = world.clock.now()
  const rows = table(
    terminal,
    [
      ...(app === undefined ? [appColumn] : []),
      { title: 'ENDPOINT', cell: ({ uid, endpointId }) => text(uid ?? endpointId) },
      { title: 'WAITING', cell: ({ waiting }) => waitingText(waiting as Item), align: 'right' },
      { title: 'OLDEST', cell: ({ oldestSince }) => ago(oldestSince, now) },
      ...whyColumns,
      ...detailColumn(session),
    ],
    endpoints,
  )
  const lines = [text(answer.detail), ...wide]
  terminal.print(endpoints.length === 0 ? lines.join('\n') : [...lines, '', rows].join('\n'))
  if (endpoints.length > 0 && detailColumn(session).length === 0) {
    terminal.print(terminal.style('dim', `Details: sluice why ${app ?? 'APP'} --endpoint ENDPOINT`))
  }
  if (answer.done !== true && limit < mostEndpoints) printMore(session)
}

const whyColumns: readonly Column<Item>[] = [
  { title: 'WHY', cell: 'reason', colour: ({ reason }) => colourOf(reason) },
  { title: 'NEXT', cell: ({ nextAt, expectedAt }) => instant(nextAt ?? expectedAt) },
]

const appColumn: Column<Item> = { title: 'APPLICATION', cell: ({ appUid, appId }) => text(appUid ?? appId) }

/** A column with the whole sentence, on wide terminals. */
function detailColumn({ terminal }: Session): Column<Item>[] {
  if ((terminal.columns ?? Number.POSITIVE_INFINITY) < wideColumns) return []
  const cell = ({ detail, warning }: Item) => (warning == null ? text(detail) : `${text(detail)} ${text(warning)}`)
  return [{ title: 'DETAILS', cell, flexible: true }]
}

function describeDelivery(session: Session, why: Item): string {
  const { ahead, isAheadExact, attempts, lastAttempt } = why
  const last = lastAttempt as Item | null
  const about = facts(session.terminal, [
    ['warning', warningText(session, why)],
    ['forecast', forecastText(why)],
    ['also', alsoText(why)],
    ['ahead of it', ahead === 0 ? undefined : waitingText({ total: ahead, isExact: isAheadExact })],
    ['attempts', text(attempts)],
    ['last attempt', last == null ? undefined : `${instant(last.timestamp)}  ${statusCode(last)}  ${outcome(last)}`],
    ['its timings', last?.timings == null ? undefined : `${text(last.responseDurationMs)} ms (${timingsOf(last)})`],
    ['as of', asOfText(why)],
  ])
  return `${headline(session, why)}\n${about}`
}

function describeEndpoint(session: Session, why: Item): string {
  const { nextAt, condition, waiting, oldestSince } = why
  const { fresh, timed, replay } = waiting as Item
  const about = facts(session.terminal, [
    ['warning', warningText(session, why)],
    ['condition', wordOf(condition)],
    ['next', nextAt == null ? undefined : instant(nextAt)],
    ['also', alsoText(why)],
    ['waiting', `${waitingText(waiting as Item)} (fresh ${fresh}, timed ${timed}, replay ${replay})`],
    ['oldest', oldestSince == null ? undefined : ago(oldestSince, session.world.clock.now())],
    ['forecast', forecastText(why)],
    ['as of', asOfText(why)],
  ])
  return `${headline(session, why)}\n${about}`
}

/** The forecast as a sentence; undefined where nothing waits any more. */
function forecastText({ forecast }: Item): string | undefined {
  return forecast == null ? undefined : text((forecast as Item).sentence)
}

function warningText({ terminal }: Session, { warning }: Item): string | undefined {
  return warning == null ? undefined : terminal.style('yellow', text(warning))
}

function headline({ terminal }: Session, { reason, detail }: Item): string {
  return `${terminal.style(['bold', colourOf(reason)], text(reason))}: ${text(detail)}`
}

/** The other blockers, behind the most decisive one. */
function alsoText({ blockers }: Item): string | undefined {
  const others = (blockers as Item[]).slice(1)
  if (others.length === 0) return undefined
  return others.map(({ reason, until }) => text(reason) + (until == null ? '' : ` until ${instant(until)}`)).join(', ')
}

function asOfText({ asOf, isLive }: Item): string {
  return `${instant(asOf)} (${isLive === true ? 'live' : 'last stored'})`
}

const good: ReadonlySet<unknown> = new Set(['delivered', 'delivering', 'idle', 'sending', 'recording', 'coalesced'])
const bad: ReadonlySet<unknown> = new Set([
  'dead',
  'cancelled',
  'disabled',
  'opened_by_hand',
  'head_blocked',
  'no_worker',
  'no_worker_in_region',
  'owner_silent',
])

function colourOf(reason: unknown): 'green' | 'red' | 'yellow' {
  return good.has(reason) ? 'green' : bad.has(reason) ? 'red' : 'yellow'
}
