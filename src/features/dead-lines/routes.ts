import { AppError, type FieldError } from '../../domain/app-error.ts'
import { type Sliced, Turns } from '../../domain/turns.ts'
import { admin } from '../../operations/access.ts'
import { isRef, lookUp } from '../../operations/lookup.ts'
import { type Noun, route } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import { refuseIf } from '../../operations/validate.ts'
import type { Application } from '../applications/noun.ts'
import { DeadImportOut, DeadImportQuery, DeadLineIn } from '../dead-letters/schemas.ts'
import type { BroughtLetter } from '../dead-letters/store.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import { type ReadLine, readLine } from './service.ts'

/** One transaction takes in this many. */
const lineLimit = 500
/** A line is longer than its body: base64 adds a third, and there is an answer beside it. */
const lengthFactor = 4
const newLine = 0x0a

const importRoute = route('POST /app/:app/dead/import', admin, {
  id: 'v1.dead.import',
  summary: 'Import exported dead letters',
  description:
    'All lines or none, unless `skip_bad` is set; up to 500 lines. A message that no longer exists is restored with its id. Importing twice changes nothing.',
  query: DeadImportQuery,
  body: { lines: DeadLineIn },
  bodyLimit: ({ bodyLimitBytes }) => lengthFactor * bodyLimitBytes,
  answers: { 200: DeadImportOut },
  handle: async ({ app, query, body }, services) => {
    const { endpoint_id: ref, skip_bad: skipsBad = false, dry_run: isTrial = false, first_line: firstLine = 1 } = query
    const find = (name: string) => services.store.findEndpoint(app.key, name)
    const target = ref === undefined ? undefined : await lookUp('endpoint', ref, find)
    const { letters, bad, problems } = await readLines(services, app, target, linesOf(body), firstLine)
    if (!skipsBad) refuseIf(problems)
    const brought = isTrial ? [] : await services.store.importDead(app.key, letters)
    return {
      checked: letters.length,
      imported: brought.filter((answer) => answer === 'imported').length,
      unchanged: brought.filter((answer) => answer !== 'imported').length,
      skipped: bad,
    }
  },
})

async function readLines(
  { scanner, clock, store }: Services,
  app: Application,
  target: Endpoint | undefined,
  lines: readonly Buffer[],
  firstLine: number,
) {
  const letters: BroughtLetter[] = []
  const bad: { line: number; problem: string }[] = []
  const problems: FieldError[] = []
  const endpoints = new Map<string, Endpoint | undefined>()
  for (const { i, read, wrong } of await Turns.by(clock).run(parsed())) {
    const letter = read && (await complete(read, wrong))
    if (letter !== undefined) letters.push(letter)
    for (const { at, message, type } of wrong) {
      problems.push({ at: ['body', firstLine + i, ...at.slice(1)], message, type })
    }
    if (wrong.length > 0) bad.push({ line: firstLine + i, problem: wrong.map(sentence).join('; ') })
  }
  return { letters, bad, problems }

  /** The lines that are not empty, taken apart. */
  function* parsed(): Sliced<{ i: number; read: ReadLine | undefined; wrong: FieldError[] }[]> {
    const found: { i: number; read: ReadLine | undefined; wrong: FieldError[] }[] = []
    for (const [i, line] of lines.entries()) {
      yield
      const wrong: FieldError[] = []
      if (line.length > 0) found.push({ i, read: readLine(scanner, line, clock.now(), wrong), wrong })
    }
    return found
  }

  /** The line with its endpoint; undefined when the endpoint or the message does not exist. */
  async function complete(
    { endpointId, endpointUid, letter }: ReadLine,
    wrong: FieldError[],
  ): Promise<BroughtLetter | undefined> {
    const endpoint = target ?? (await find(endpointId)) ?? (endpointUid === null ? undefined : await find(endpointUid))
    if (endpoint === undefined) {
      wrong.push({ at: ['body', 'endpointId'], message: 'is no endpoint of the application', type: 'not_found' })
    }
    if (letter.body === null && (await store.findMessage(app.key, letter.message.id)) === undefined) {
      wrong.push({ at: ['body', 'payload'], message: 'is missing, and so is the message', type: 'missing_payload' })
    }
    return endpoint === undefined || wrong.length > 0 ? undefined : { ...letter, endpoint: endpoint.key }
  }

  async function find(ref: string): Promise<Endpoint | undefined> {
    if (!endpoints.has(ref)) {
      endpoints.set(ref, isRef(ref) ? await store.findEndpoint(app.key, ref) : undefined)
    }
    return endpoints.get(ref)
  }
}

function linesOf(body: unknown): Buffer[] {
  if (!Buffer.isBuffer(body)) {
    throw new AppError('unsupported_media_type', 'Send lines of JSON, as application/jsonl.')
  }
  const lines: Buffer[] = []
  for (let start = 0; start < body.length && lines.length <= lineLimit; ) {
    const end = body.indexOf(newLine, start)
    const line = body.subarray(start, end < 0 ? body.length : end)
    lines.push(line.at(-1) === 0x0d ? line.subarray(0, -1) : line)
    start = end < 0 ? body.length : end + 1
  }
  if (lines.length > lineLimit) {
    refuseIf([{ at: ['body'], message: `must not have more than ${lineLimit} lines`, type: 'maxItems' }])
  }
  return lines
}

function sentence({ at, message }: FieldError): string {
  const where = at.slice(1).join('.')
  return where === '' ? message : `${where} ${message}`
}

export const deadLetterImport = { tag: 'Dead Letter', routes: [importRoute] } satisfies Noun
