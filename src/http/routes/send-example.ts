import type { FastifyInstance } from 'fastify'
import { AppError } from '../../domain/app-error.ts'
import { type JsonObject, newestSchema } from '../../domain/event-type.ts'
import { ExampleTooLarge, exampleOf, exampleValuesLimit } from '../../domain/example.ts'
import { publishToOne } from '../../intake/publish-to-one.ts'
import type { HttpContext } from '../context.ts'
import { getEndpoint } from '../lookup.ts'
import { EventExampleIn } from '../schemas/event-type.ts'
import { messageBytes } from '../schemas/message.ts'
import { compile, refuseIf } from '../validate.ts'

const bodyProblems = compile(EventExampleIn, 'body')

/** What Svix's clients try an endpoint with. */
const ping = 'svix.ping'
const pingExample = { success: true }

/** Sends an example of an event type to one endpoint, whatever it subscribes to. */
export function sendExampleRoute(api: FastifyInstance, { store, bodyLimitBytes }: HttpContext): void {
  api.post<{ Params: { app: string; endpoint: string } }>(
    '/app/:app/endpoint/:endpoint/send-example',
    async (request, reply) => {
      const endpoint = await getEndpoint(store, request.params.app, request.params.endpoint)
      refuseIf(bodyProblems(request.body))
      const { eventType, exampleIndex = 0 } = request.body as EventExampleIn
      const example = eventType === ping ? pingExample : await exampleFor(eventType, exampleIndex)
      const payload = Buffer.from(JSON.stringify(example))
      const { key, id } = await publishToOne(store, endpoint, eventType, payload)
      const head = { key, id, eventType, eventId: null, channels: null, tags: null, headers: null, deliverAt: null }
      return reply.type('application/json; charset=utf-8').send(messageBytes(head, payload))
    },
  )

  async function exampleFor(name: string, index: number): Promise<unknown> {
    const known = await store.findEventType(name)
    if (known === undefined) throw new AppError('not_found', 'There is no such event type.')
    const schema = newestSchema(known.schemas)
    if (schema === undefined) {
      refuseIf([{ at: ['body', 'eventType'], message: 'has no schema to make an example from', type: 'schema' }])
      return undefined
    }
    const example = exampleWithin(schema, index, bodyLimitBytes)
    // A payload is an object, as everywhere.
    return typeof example === 'object' && example !== null && !Array.isArray(example) ? example : { value: example }
  }
}

/** An example as large as a published message may be, and no larger. */
function exampleWithin(schema: JsonObject, index: number, bytesLimit: number): unknown {
  try {
    return exampleOf(schema, index, bytesLimit)
  } catch (error) {
    if (!(error instanceof ExampleTooLarge)) throw error
    const message = `has a schema whose example would have more than ${exampleValuesLimit} values or ${bytesLimit} bytes: add a smaller one to the schema's examples`
    refuseIf([{ at: ['body', 'eventType'], message, type: 'schema' }])
    return undefined
  }
}
