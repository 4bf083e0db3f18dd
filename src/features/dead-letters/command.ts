import { createReadStream, statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Command as Commander } from 'commander'
import { ApiProblem, type Client, type Item, pathOf, type Query } from '../../cli/client.ts'
import type { RemoteCommands, Session } from '../../cli/command.ts'
import { addFields, fieldsOf, queryOf } from '../../cli/field-options.ts'
import { ago, counted, countLimit, facts, grouped, instant, namesById, table, text } from '../../cli/table.ts'
import { CommandError, exitCode, progressLine, withProgress, writeOutput } from '../../cli/terminal.ts'
import { deadFilterFields } from '../../domain/filter-fields.ts'
import { outcome, statusCode } from '../attempts/terminal.ts'
import { finishTask, paceOf, perSecondOption, withNoWait } from '../tasks/terminal.ts'

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
  const replay = dead.addConfirmed(
    'replay <app> [message]',
    replayed,
    async (session, [app, message]) => {
      requireChoice(session, message)
      if (message !== undefined) return undefined
      return `Send ${await countOf(session, app)} of ${app} again, ${paceOf(session)}?`
    },
    async (session, [app, message]) => {
      requireChoice(session, message)
      const body = { msgId: message, ...fieldsOf(session, deadFilterFields), perSecond: session.options.perSecond }
      const started = await session.client.post(`${deadOf(app)}/replay`, { body })
      await finishTask(session, started, 'Replaying', (data) => countText(data, 'replayed'))
    },
  )
  withNoWait(withFilters(replay).option('--all', 'all of the application').addOption(perSecondOption()))

  const purged = 'delete dead letters for good: those of one message, by filter, or --all'
  const purge = dead.addConfirmed(
    'purge <app> [message]',
    purged,
    async (session, [app, message]) => {
      requireChoice(session, message)
      const hint = `\`sluice dead export ${app}\` saves them first.`
      if (message !== undefined) return `Delete the dead letters of message ${message} of ${app} for good? ${hint}`
      return `Delete ${await countOf(session, app)} of ${app} for good? ${hint}`
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
    .add(
      'import <app-or-file> [file]',
      'import exported dead letters, of this server or another; without an application, each line into its own',
      (session, [first, second]) => {
        const [app, file] = second === undefined ? [undefined, first] : [first, second]
        return importDead(session, deadOf(requireApp(session, app)), file)
      },
    )
    .option('--endpoint <ENDPOINT>', 'import all to this endpoint, by id or uid')
    .option('--skip-bad', 'skip lines that cannot be imported')
}

/** The number of dead letters that the filter of a command means. */
async function countOf(session: Session, app: string): Promise<string> {
  const { count, more } = await session.client.get(`${deadOf(app)}/count`, queryOf(session, deadFilterFields))
  return counted(Number(count), 'dead letter', more === true)
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

const newLine = 0x0a

/** Writes dead letters, oldest first, and shows the progress by their instants. */
async function exportDead(session: Session, path: string, query: Query): Promise<void> {
  const { client, terminal, options } = session
  const name = options.output as string | undefined
  const end = await newestOf(session, path, query)
  let lines = 0
  let begin: number | undefined
  await withProgress(terminal, async (show) => {
    async function* counting(): AsyncGenerator<Uint8Array> {
      for await (const chunk of client.stream(`${path}/export`, query)) {
        yield chunk
        for (const byte of chunk) if (byte === newLine) lines++
        const at = lastInstant(chunk)
        begin ??= at
        show(progressLine('Exporting', lines, shareOf(begin, at, end)))
      }
    }
    await writeOutput(terminal, name, counting())
  })
  if (name !== undefined)
    session.show({ exported: lines, file: name }, () => `${counted(lines, 'dead letter')} written to ${name}.`)
}

/** The instant of the newest dead letter of the query; undefined when there is none. */
async function newestOf({ client }: Session, path: string, query: Query): Promise<number | undefined> {
  const { data } = await client.page(path, { ...query, limit: 1, order: 'descending' })
  return data[0] === undefined ? undefined : Date.parse(String(data[0].diedAt))
}

/** The instant of the last dead letter in a part of the stream, if it has one. */
function lastInstant(chunk: Uint8Array): number | undefined {
  const found = Buffer.from(chunk)
    .toString('latin1')
    .match(/"diedAt":"([^"]+)"/g)
    ?.at(-1)
  return found === undefined ? undefined : Date.parse(found.slice(10, -1))
}

function shareOf(begin: number | undefined, at: number | undefined, end: number | undefined): number | undefined {
  if (begin === undefined || at === undefined || end === undefined || end <= begin) return undefined
  return (at - begin) / (end - begin)
}

/** The size of one request: well below the server's limit, except for a single longer line. */
const linesPerRequest = 200
const bytesPerRequest = 256 * 1024
/** Bad lines that are named; a file that is not an export has only bad lines. */
const namedLimit = 20

interface Bad {
  readonly line: number
  readonly problem: string
}

/** Lines of the file for one request. */
interface FilePart {
  readonly bytes: Buffer
  readonly firstLine: number
  /** Bytes of the file up to the end of this part. */
  readonly readBytes: number
}

/**
 * Imports exported dead letters. The whole file is checked before anything is imported. An interrupted import can be
 * repeated, because a second import changes nothing.
 */
async function importDead(session: Session, path: string, name: string): Promise<void> {
  const { client, terminal, options } = session
  const file = resolve(terminal.directory, name)
  const size = sizeOf(file, name)
  const skipsBad = options.skipBad === true
  const send = (part: FilePart, more: Readonly<Record<string, boolean>>): Promise<Item> =>
    client.post(`${path}/import`, {
      query: {
        endpoint_id: options.endpoint as string | undefined,
        first_line: part.firstLine,
        skip_bad: true,
        ...more,
      },
      body: part.bytes,
      contentType: 'application/jsonl',
    })

  const total = { imported: 0, unchanged: 0, skipped: [] as Bad[] }
  await withProgress(terminal, async (show) => {
    let lines = 0
    for await (const part of skipsBad ? [] : filePartsOf(file, name)) {
      const { checked, skipped } = await send(part, { dry_run: true })
      total.skipped.push(...(skipped as Bad[]))
      lines += Number(checked)
      show(progressLine('Checking', lines, part.readBytes / size))
    }
    if (total.skipped.length > 0) return
    lines = 0
    for await (const part of filePartsOf(file, name)) {
      const { checked, imported, unchanged, skipped } = await send(part, {})
      total.imported += Number(imported)
      total.unchanged += Number(unchanged)
      total.skipped.push(...(skipped as Bad[]))
      lines += Number(checked)
      show(progressLine('Importing', lines, part.readBytes / size))
    }
  })

  const { imported, unchanged, skipped } = total
  if (skipped.length > 0 && !skipsBad) {
    throw new CommandError(
      `${namesOf(skipped, name)}\nNothing was imported. --skip-bad imports the others.`,
      exitCode.failed,
    )
  }
  session.show({ imported, unchanged, skipped }, () => {
    const known = unchanged === 0 ? '' : ` ${grouped(unchanged)} unchanged: imported before, or sent again since.`
    const left = skipped.length === 0 ? '' : `\n${namesOf(skipped, name)}`
    return `${counted(imported, 'dead letter')} imported.${known}${left}`
  })
}

/** Reads the file in parts of whole lines. */
async function* filePartsOf(file: string, name: string): AsyncGenerator<FilePart> {
  let rest: Buffer[] = []
  let restBytes = 0
  let lines = 0
  let firstLine = 1
  let readBytes = 0
  const take = (): FilePart => {
    const part = { bytes: Buffer.concat(rest), firstLine, readBytes }
    firstLine += lines
    rest = []
    restBytes = 0
    lines = 0
    return part
  }
  for await (const line of linesOf(file, name)) {
    if (lines > 0 && restBytes + line.length > bytesPerRequest) yield take()
    rest.push(line)
    restBytes += line.length
    readBytes += line.length
    if (++lines === linesPerRequest) yield take()
  }
  if (lines > 0) yield take()
}

/** The lines of a file with their line breaks. */
async function* linesOf(file: string, name: string): AsyncGenerator<Buffer> {
  let begun: Buffer[] = []
  try {
    for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
      let start = 0
      for (let end = chunk.indexOf(newLine); end >= 0; end = chunk.indexOf(newLine, start)) {
        yield Buffer.concat([...begun, chunk.subarray(start, end + 1)])
        begun = []
        start = end + 1
      }
      if (start < chunk.length) begun.push(chunk.subarray(start))
    }
  } catch (error) {
    const { code, syscall } = error as NodeJS.ErrnoException
    if (syscall === undefined) throw error
    throw new CommandError(`Cannot read ${name}: ${code}.`, exitCode.failed, { cause: error })
  }
  if (begun.length > 0) yield Buffer.concat(begun)
}

function sizeOf(file: string, name: string): number {
  const found = statSync(file, { throwIfNoEntry: false })
  if (found === undefined) throw new CommandError(`There is no file ${name}.`, exitCode.failed)
  return Math.max(1, found.size)
}

function namesOf(bad: readonly Bad[], name: string): string {
  const named = bad.slice(0, namedLimit).map(({ line, problem }) => `${name}:${line}: ${text(problem)}`)
  const more = bad.length - named.length
  return [...named, ...(more > 0 ? [`… and ${counted(more, 'line')} more.`] : [])].join('\n')
}
