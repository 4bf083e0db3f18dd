import type { FastifyInstance } from 'fastify'
import type { FieldError } from '../../domain/app-error.ts'
import { AppError } from '../../domain/app-error.ts'
import type { JsonObject } from '../../domain/event-type.ts'
import { eventTypesOf } from '../../domain/openapi-webhooks.ts'
import type { NewEventType } from '../../store/event-types.ts'
import { readJson } from '../body.ts'
import type { HttpContext } from '../context.ts'
import { EventTypeImportIn, EventTypeIn, toImportedOut } from '../schemas/event-type.ts'
import { compile, refuseIf } from '../validate.ts'
import { readYaml } from '../yaml.ts'

const bodyProblems = compile(EventTypeImportIn, 'body')
const eventTypeProblems = compile(EventTypeIn, 'body')

/** Event types from the webhooks of an OpenAPI document. */
export function eventTypeImportRoute(api: FastifyInstance, { store, scanner }: HttpContext): void {
  api.post('/event-type/import/openapi', async (request) => {
    refuseIf(bodyProblems(request.body))
    const { dryRun = false, replaceAll = false, ...input } = request.body as EventTypeImportIn
    const found = eventTypesOf(readDocument(input))
    refuseIf(found.flatMap(problemsOf))
    const modified = found.map(({ name }) => name)
    if (dryRun) return { data: { modified, to_modify: found.map(toImportedOut) } }
    await store.importEventTypes(found, replaceAll)
    return { data: { modified, to_modify: null } }
  })

  function readDocument({ spec, specRaw }: Pick<EventTypeImportIn, 'spec' | 'specRaw'>): JsonObject {
    if ((spec == null) === (specRaw == null)) {
      throw new AppError('invalid_request', 'Send either spec or specRaw.')
    }
    if (spec != null) return spec
    const text = specRaw ?? ''
    // JSON is YAML, too; read as what it is, it is read faster and says better what is wrong with it.
    const isJson = /^\s*[{[]/.test(text)
    const document = isJson ? readJson(scanner, Buffer.from(text)) : readYaml(text, ['body', 'specRaw'])
    if (typeof document === 'object' && document !== null && !Array.isArray(document)) return document as JsonObject
    throw new AppError('invalid_request', 'An OpenAPI document is an object.')
  }
}

/** What is wrong with a webhook as an event type, said of where it stands in the document. */
function problemsOf(eventType: NewEventType): FieldError[] {
  return eventTypeProblems(eventType).map((problem) => ({
    ...problem,
    at: ['body', 'spec', 'webhooks', eventType.name, ...problem.at.slice(1)],
  }))
}
