import { type Client, type Item, pathOf } from '../../cli/client.ts'
import { option, type RemoteCommands, type Session } from '../../cli/command.ts'
import { nameOf, shorten, text } from '../../cli/table.ts'
import { CommandError, exitCode, pause, toJson } from '../../cli/terminal.ts'
import { pageItems } from '../../domain/api.ts'
import { duration } from '../../runtime/setting-kinds.ts'
import { failedStatus, outcome, statusCode, statusColour } from '../attempts/terminal.ts'

/** Each endpoint costs one request a round, so their number is limited. */
const mostLanes = 100
/** Rounds between two searches for new endpoints. */
const lookAgainRounds = 10

interface Followed {
  readonly app: string
  readonly name: string
  readonly path: string
  /** Iterator of the list for attempts newer than the last one printed; undefined before the first attempt. */
  newer: string | undefined
}

/** `sluice tail`: prints attempts as they are made. It polls the attempts of each endpoint. */
export function addTail(commands: RemoteCommands): void {
  commands
    .add('tail', 'follow attempts live', async (session) => {
      const stopRequested = session.terminal.stopRequested().then(() => true)
      const { every, failed } = session.options as { every: number; failed?: boolean }
      const query = { status: failed ? failedStatus : undefined }
      if (session.options.endpoint !== undefined && session.options.app === undefined) {
        throw new CommandError('--endpoint needs --app.', exitCode.misused)
      }
      const followed = new Map<string, Followed>()
      if (!session.json) session.terminal.print(session.terminal.style('dim', 'Following attempts. Stop with Ctrl-C.'))
      for (let round = 0; ; round++) {
        if (round % lookAgainRounds === 0) await follow(session, followed, query, round === 0)
        const found: { lane: Followed; attempt: Item }[] = []
        for (const lane of followed.values()) {
          for (const attempt of await newerThan(session.client, lane, query)) found.push({ lane, attempt })
        }
        found.sort((a, b) => text(a.attempt.timestamp).localeCompare(text(b.attempt.timestamp)))
        for (const { lane, attempt } of found) print(session, lane, attempt)
        if (await Promise.race([stopRequested, pause(session.world.clock, every)])) return undefined
      }
    })
    .option('--app <APP>', 'only this application (default: all)')
    .option('--endpoint <ENDPOINT>', 'only at this endpoint; needs --app')
    .option('--failed', 'only failed attempts')
    .addOption(option('--every <DURATION>', 'polling interval', duration(100, 60_000)).default(1000, '1s'))
}

/** Finds the endpoints to follow. Attempts from before the start of `sluice tail` are not shown. */
async function follow(
  session: Session,
  followed: Map<string, Followed>,
  query: { status: number | undefined },
  first: boolean,
): Promise<void> {
  for (const { app, endpoint } of await endpointsOf(session)) {
    const path = pathOf('app', app, 'attempt', 'endpoint', text(endpoint.id))
    if (followed.has(path)) continue
    const newer = first ? (await session.client.page(path, { ...query, limit: 1 })).prevIterator : undefined
    followed.set(path, { app, name: nameOf(endpoint), path, newer: newer ?? undefined })
    if (followed.size > mostLanes) {
      const message = `More than ${mostLanes} endpoints to follow. Choose with --app and --endpoint.`
      throw new CommandError(message, exitCode.misused)
    }
  }
}

async function endpointsOf({ client, options }: Session): Promise<{ app: string; endpoint: Item }[]> {
  const { app, endpoint } = options as { app?: string; endpoint?: string }
  if (endpoint !== undefined && app !== undefined) {
    return [{ app, endpoint: await client.get(pathOf('app', app, 'endpoint', endpoint)) }]
  }
  const apps = app === undefined ? (await client.list('/app', {}, mostLanes + 1)).items.map(nameOf) : [app]
  const found: { app: string; endpoint: Item }[] = []
  for (const each of apps) {
    const { items } = await client.list(pathOf('app', each, 'endpoint'), {}, mostLanes + 1)
    found.push(...items.map((item) => ({ app: each, endpoint: item })))
    if (found.length > mostLanes) break
  }
  return found
}

/** Each attempt comes with its message, for the event type, and without the payload. */
const withType = { with_msg: true, with_content: false }

/** All attempts newer than the last one printed, oldest first. */
async function newerThan(client: Client, lane: Followed, query: { status: number | undefined }): Promise<Item[]> {
  const found: Item[] = []
  for (;;) {
    const before = lane.newer
    const { data, done, prevIterator } = await client.page(lane.path, {
      ...query,
      ...withType,
      iterator: before,
      limit: pageItems.most,
    })
    found.push(...data.toReversed())
    if (data.length > 0) lane.newer = prevIterator ?? before
    if (done || data.length === 0 || before === undefined) return found
  }
}

function print({ terminal, json }: Session, { app, name }: Followed, attempt: Item): void {
  if (json) return terminal.print(toJson(attempt))
  const room = terminal.columns ?? Number.POSITIVE_INFINITY
  const idWidth = room < 110 ? 16 : 31
  const type = shorten(text((attempt.msg as Item | undefined)?.eventType), 20).padEnd(20)
  const time = terminal.style('dim', text(attempt.timestamp).slice(11, 24))
  const where = shorten(`${app}/${name}`, 20).padEnd(20)
  const id = shorten(text(attempt.msgId), idWidth)
  const tookMs = `${text(attempt.responseDurationMs)} ms`.padStart(8)
  // The column before it has the status already.
  const answered = text(attempt.error) === `The receiver answered ${statusCode(attempt)}.`
  const result = shorten(outcome(answered ? { ...attempt, error: null } : attempt), Math.max(9, room - idWidth - 75))
  const coloured = terminal.style(statusColour(attempt), result)
  terminal.print(`${time}  ${where}  ${type}  ${id}  ${statusCode(attempt).padStart(3)} ${tookMs}  ${coloured}`)
}
