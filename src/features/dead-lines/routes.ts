import type { Static } from 'typebox'
import { AppError, type FieldError } from '../../domain/app-error.ts'
import { type Sliced, Turns } from '../../domain/turns.ts'
import { admin } from '../../operations/access.ts'
import { isRef, lookUp } from '../../operations/lookup.ts'
import { type Noun, route } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import { refuseIf } from '../../operations/validate.ts'
import type { Application } from '../applications/noun.ts'
import { AnyDeadImportQuery, DeadImportOut, DeadImportQuery, DeadLineIn } from '../dead-letters/schemas.ts'
import type { BroughtLetter } from '../dead-letters/store.ts'
import type { Endpoint } from '../endpoints/rules.ts'
import { type ReadLine, readLine } from './service.ts'

/** One transaction takes in this many. */
const lineLimit = 500
/** A line is longer than its body: base64 adds a third, and there is an answer beside it. */
const lengthFactor = 4
const newLine = 0x0a

const bodyLimit = ({ bodyLimitBytes }: { readonly bodyLimitBytes: number }) => lengthFactor * bodyLimitBytes
const once = 'Importing twice changes nothing.'

const importRoute = route('POST /app/:app/dead/import', admin, {
  id: 'v1.dead.import',
  summary: 'Import exported dead letters',
  description: `All lines or none, unless \`skip_bad\` is set; up to 500 lines. A message that no longer exists is restored with its id. ${once}`,
  query: DeadImportQuery,
  body: { lines: DeadLineIn },
  bodyLimit,
  answers: { 200: DeadImportOut },
  handle: async ({ app, query, body }, services) => {
    const { endpoint_id: ref } = query
    const find = (name: string) => services.store.findEndpoint(app.key, name)
    const target = ref === undefined ? undefined : await lookUp('endpoint', ref, find)
    return importLines(services, new Targets(services.store, app, target), linesOf(body), query)
  },
})

const importAllRoute = route('POST /dead/import', admin, {
  id: 'v1.dead.import-all',
  summary: 'Import exported dead letters of several applications',
  description: `Each line goes to the application of its \`appId\`, or else of its \`appUid\`. Unless \`skip_bad\` is set, nothing is imported when a line is wrong; each application has a transaction of its own. Up to 500 lines. ${once}`,
  query: AnyDeadImportQuery,
  body: { lines: DeadLineIn },
  bodyLimit,
  answers: { 200: DeadImportOut },
  handle: ({ query, body }, services) => importLines(services, new Targets(services.store), linesOf(body), query),
})

async function importLines(
  services: Services,
  targets: Targets,
  lines: readonly Buffer[],
  query: Static<typeof AnyDeadImportQuery>,
): Promise<Static<typeof DeadImportOut>> {
  const { skip_bad: skipsBad = false, dry_run: isTrial = false, first_line: firstLine = 1 } = query
  const { letters, bad, problems } = await readLines(services, targets, lines, firstLine)
  if (!skipsBad) refuseIf(problems)
  const counts = { imported: 0, unchanged: 0 }
  for (const [app, group] of isTrial ? [] : Map.groupBy(letters, (letter) => letter.app)) {
    const brought = await services.store.importDead(
      app,
      group.map(({ letter }) => letter),
    )
    for (const answer of brought) counts[answer === 'imported' ? 'imported' : 'unchanged']++
  }
  return { checked: letters.length, ...counts, skipped: bad }
}

/** The applications and endpoints that lines name, each looked up once. */
class Targets {
  readonly #store: Services['store']
  readonly #app: Application | undefined
  readonly #endpoint: Endpoint | undefined
  readonly #apps = new Map<string, number | undefined>()
  readonly #endpoints = new Map<string, Endpoint | undefined>()

  /** Without an application, each line names its own. */
  constructor(store: Services['store'], app?: Application, endpoint?: Endpoint) {
    this.#store = store
    this.#app = app
    this.#endpoint = endpoint
  }

  async app({ apps }: ReadLine): Promise<number | undefined> {
    if (this.#app !== undefined) return this.#app.key
    for (const name of apps) {
      if (!this.#apps.has(name)) {
        this.#apps.set(name, isRef(name) ? (await this.#store.findApplication(name))?.key : undefined)
      }
      const key = this.#apps.get(name)
      if (key !== undefined) return key
    }
    return undefined
  }

  async endpoint(app: number, { endpointId, endpointUid }: ReadLine): Promise<Endpoint | undefined> {
    return (
      this.#endpoint ?? (await this.#find(app, endpointId)) ?? (endpointUid ? this.#find(app, endpointUid) : undefined)
    )
  }

  async #find(app: number, name: string): Promise<Endpoint | undefined> {
    const key = `${app} ${name}`
    if (!this.#endpoints.has(key)) {
      this.#endpoints.set(key, isRef(name) ? await this.#store.findEndpoint(app, name) : undefined)
    }
    return this.#endpoints.get(key)
  }
}

interface PlacedLetter {
  readonly app: number
  readonly letter: BroughtLetter
}

async function readLines(
  { scanner, clock, store }: Services,
  targets: Targets,
  lines: readonly Buffer[],
  firstLine: number,
) {
  const letters: PlacedLetter[] = []
  const bad: { line: number; problem: string }[] = []
  const problems: FieldError[] = []
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

  /** The line with its place; undefined when its application, its endpoint or its message does not exist. */
  async function complete(line: ReadLine, wrong: FieldError[]): Promise<PlacedLetter | undefined> {
    const app = await targets.app(line)
    if (app === undefined) {
      wrong.push({ at: ['body', 'appId'], message: 'names no application, and neither does appUid', type: 'not_found' })
      return undefined
    }
    const { letter } = line
    const endpoint = await targets.endpoint(app, line)
    if (endpoint === undefined) {
      wrong.push({ at: ['body', 'endpointId'], message: 'is no endpoint of the application', type: 'not_found' })
    }
    if (letter.body === null && (await store.findMessage(app, letter.message.id)) === undefined) {
      wrong.push({ at: ['body', 'payload'], message: 'is missing, and so is the message', type: 'missing_payload' })
    }
    if (endpoint === undefined || wrong.length > 0) return undefined
    return { app, letter: { ...letter, endpoint: endpoint.key } }
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

export const deadLetterImport = { tag: 'Dead Letter', routes: [importRoute, importAllRoute] } satisfies Noun
