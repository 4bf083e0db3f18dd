import type { FastifyInstance } from 'fastify'
import { AppError } from '../../domain/app-error.ts'
import type { EventType } from '../../domain/event-type.ts'
import type { HttpContext } from '../context.ts'
import { isRef } from '../lookup.ts'
import { paginateBy } from '../pagination.ts'
import {
  EventTypeDeleteQuery,
  EventTypeIn,
  EventTypePatch,
  EventTypePut,
  EventTypeQuery,
  toEventTypeChange,
  toEventTypeOut,
  toNewEventType,
} from '../schemas/event-type.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

interface OfEventType {
  Params: { name: string }
}

const inProblems = compile(EventTypeIn, 'body')
const putProblems = compile(EventTypePut, 'body')
const patchProblems = compile(EventTypePatch, 'body')
const listProblems = compile(EventTypeQuery, 'query')
const deleteProblems = compile(EventTypeDeleteQuery, 'query')

/** A name may begin with a minus, which in an iterator means backwards; so an iterator says what it is. */
const iterators = {
  keyOf: (text: string) => (text.startsWith('evtype_') ? text.slice('evtype_'.length) : undefined),
  iteratorOf: ({ name }: EventType) => `evtype_${name}`,
}

/** Event types: create, list, get, replace, change, archive and delete. */
export function eventTypeRoutes(api: FastifyInstance, { store }: HttpContext): void {
  api.post('/event-type', async (request, reply) => {
    refuseIf(inProblems(request.body))
    const input = request.body as EventTypeIn
    const eventType = await store.createEventType(toNewEventType(input.name, input))
    return reply.code(201).send(toEventTypeOut(eventType))
  })

  api.get('/event-type', async (request) => {
    const query = readQuery(EventTypeQuery, request.query)
    refuseIf(listProblems(query))
    const { include_archived: archivedToo = false, with_content: withContent = false } = query as EventTypeQuery
    return paginateBy(
      iterators,
      query as EventTypeQuery,
      'ascending',
      (page) => store.listEventTypes(page, archivedToo),
      (eventType) => toEventTypeOut(eventType, withContent),
    )
  })

  api.get<OfEventType>('/event-type/:name', async ({ params }) => toEventTypeOut(await find(params.name)))

  api.put<OfEventType>('/event-type/:name', async ({ params, body }, reply) => {
    refuseIf([...putProblems(body), ...inProblems({ name: params.name, description: '' })])
    const { eventType, created } = await store.putEventType(toNewEventType(params.name, body as EventTypePut))
    return reply.code(created ? 201 : 200).send(toEventTypeOut(eventType))
  })

  api.patch<OfEventType>('/event-type/:name', async ({ params, body }) => {
    await find(params.name)
    refuseIf(patchProblems(body))
    const after = await store.updateEventType(params.name, toEventTypeChange(body as EventTypePatch))
    // Gone between the two: the same answer as a moment later.
    return toEventTypeOut(after ?? (await find(params.name)))
  })

  api.delete<OfEventType>('/event-type/:name', async (request, reply) => {
    const { name } = request.params
    const query = readQuery(EventTypeDeleteQuery, request.query)
    refuseIf(deleteProblems(query))
    await find(name)
    if ((query as EventTypeDeleteQuery).expunge === true) await store.deleteEventType(name)
    else await store.updateEventType(name, { archived: true })
    return reply.code(204).send()
  })

  async function find(name: string): Promise<EventType> {
    const found = isRef(name) ? await store.findEventType(name) : undefined
    if (found === undefined) throw new AppError('not_found', 'There is no such event type.')
    return found
  }
}
