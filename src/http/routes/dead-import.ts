import type { FastifyInstance } from 'fastify'
import { AppError, type FieldError } from '../../domain/app-error.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import type { BroughtLetter } from '../../store/transferring.ts'
import type { HttpContext } from '../context.ts'
import { type ReadLine, readLine } from '../dead-line.ts'
import { getApplication, isRef, requireEndpoint } from '../lookup.ts'
import { DeadImportQuery } from '../schemas/dead.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

const queryProblems = compile(DeadImportQuery, 'query')

/** What one transaction takes in. */
const lineLimit = 500
/** A line is longer than its body: base64 adds a third, and there is an answer beside it. */
const lengthFactor = 4
const newLine = 0x0a

/** Bringing exported dead letters back. The body is lines of JSON; the scope's parser hands it over as bytes. */
export function deadImportRoute(api: FastifyInstance, { store, scanner, clock, bodyLimitBytes }: HttpContext): void {
  const bodyLimit = lengthFactor * bodyLimitBytes
  api.post<{ Params: { app: string } }>('/app/:app/dead/import', { bodyLimit }, async (request) => {
    const query = readQuery(DeadImportQuery, request.query)
    refuseIf(queryProblems(query))
    const { endpoint_id: endpointId, skip_bad: skipsBad = false, dry_run: isTrial = false } = query as DeadImportQuery
    const app = await getApplication(store, request.params.app)
    const given = endpointId === undefined ? undefined : await requireEndpoint(store, app.key, endpointId)
    const { letters, bad, problems } = await read(linesOf(request.body), (query as DeadImportQuery).first_line ?? 1)
    if (!skipsBad) refuseIf(problems)
    const brought = isTrial ? [] : await store.importDead(app.key, letters)
    return {
      checked: letters.length,
      imported: brought.filter((answer) => answer === 'imported').length,
      unchanged: brought.filter((answer) => answer !== 'imported').length,
      skipped: bad,
    }

    async function read(lines: readonly Buffer[], firstLine: number) {
      const letters: BroughtLetter[] = []
      const bad: { line: number; problem: string }[] = []
      const problems: FieldError[] = []
      const endpoints = new Map<string, Endpoint | undefined>()
      for (const [i, line] of lines.entries()) {
        if (line.length === 0) continue
        const wrong: FieldError[] = []
        const read = readLine(scanner, line, clock.now(), wrong)
        const letter = read && (await complete(read, endpoints, wrong))
        if (letter !== undefined) letters.push(letter)
        for (const { at, message, type } of wrong) {
          problems.push({ at: ['body', firstLine + i, ...at.slice(1)], message, type })
        }
        if (wrong.length > 0) bad.push({ line: firstLine + i, problem: wrong.map(sentence).join('; ') })
      }
      return { letters, bad, problems }
    }

    /** The line with whom it is for; undefined when that or the message is nowhere to be found. */
    async function complete(
      { endpointId, endpointUid, letter }: ReadLine,
      endpoints: Map<string, Endpoint | undefined>,
      wrong: FieldError[],
    ): Promise<BroughtLetter | undefined> {
      const endpoint = given ?? (await find(endpointId)) ?? (endpointUid === null ? undefined : await find(endpointUid))
      if (endpoint === undefined) {
        wrong.push({ at: ['body', 'endpointId'], message: 'is no endpoint of the application', type: 'not_found' })
      }
      if (letter.body === null && (await store.findMessage(app.key, letter.message.id)) === undefined) {
        wrong.push({ at: ['body', 'payload'], message: 'is missing, and so is the message', type: 'missing_payload' })
      }
      return endpoint === undefined || wrong.length > 0 ? undefined : { ...letter, endpoint: endpoint.key }

      async function find(ref: string): Promise<Endpoint | undefined> {
        if (!endpoints.has(ref)) {
          endpoints.set(ref, isRef(ref) ? await store.findEndpoint(app.key, ref) : undefined)
        }
        return endpoints.get(ref)
      }
    }
  })
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
