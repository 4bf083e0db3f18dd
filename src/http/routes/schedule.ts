import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { AppError, type FieldError } from '../../domain/app-error.ts'
import { decodeKey } from '../../domain/ids.ts'
import type { Schedule } from '../../domain/schedule.ts'
import type { Scanner } from '../../intake/scan.ts'
import { runNow } from '../../intake/scheduled.ts'
import { checkContents } from '../body.ts'
import type { HttpContext } from '../context.ts'
import { jsonType } from '../json-bytes.ts'
import { getApplication, getSchedule, isRef } from '../lookup.ts'
import { writePage } from '../page.ts'
import { textWithout } from '../read-publish.ts'
import { metadataProblems } from '../schemas/field.ts'
import {
  listedOf,
  ScheduleHeadIn,
  ScheduleListQuery,
  SchedulePatchHead,
  ScheduleQuery,
  scheduleBytes,
  shownOf,
  timingProblems,
  toNewSchedule,
  toScheduleChange,
  toScheduleReplacement,
} from '../schemas/schedule.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

interface OfApplication {
  Params: { app: string }
}
interface OfSchedule {
  Params: { app: string; schedule: string }
}

const headProblems = compile(ScheduleHeadIn, 'body')
const patchProblems = compile(SchedulePatchHead, 'body')
const queryProblems = compile(ScheduleQuery, 'query')
const listProblems = compile(ScheduleListQuery, 'query')
const openBrace = 0x7b
const one = '/app/:app/schedule/:schedule'

/** A body whose payload stays the bytes it is. */
export interface SplitBody {
  readonly head: unknown
  readonly payload: Uint8Array | undefined
}

/** Takes a body apart into its payload and the rest. Throws AppError when it is no acceptable JSON. */
export function splitBody(scanner: Scanner, bytes: Buffer): SplitBody {
  const span = scanner.scan(bytes, 'payload')
  const head = checkContents(JSON.parse(textWithout(bytes, span)))
  return { head, payload: span && bytes.subarray(span.start, span.end) }
}

/** Making and changing schedules. Bodies come apart, see `splitBody`. */
export function scheduleWriteRoutes(api: FastifyInstance, context: HttpContext): void {
  const { store, clock, limits } = context

  api.post<OfApplication>('/app/:app/schedule', async (request, reply) => {
    const count = countOf(request)
    const { key } = await getApplication(store, request.params.app)
    const { head, body } = readWhole(request)
    return send(
      reply.code(201),
      await store.createSchedule(key, toNewSchedule(head, body), limits.maxSchedulesPerApp),
      count,
    )
  })

  api.put<OfSchedule>(one, async (request, reply) => {
    const count = countOf(request)
    const { key } = await getApplication(store, request.params.app)
    const { head, body } = readWhole(request)
    const ref = request.params.schedule
    const known = isRef(ref) ? await store.findSchedule(key, ref) : undefined
    const replaced = known && (await store.updateSchedule(key, known.key, toScheduleReplacement(head, body)))
    if (replaced) return send(reply, replaced, count)
    if (!isRef(ref) || ref.startsWith('sch_')) throw new AppError('not_found', 'There is no such schedule.')
    const made = await store.createSchedule(
      key,
      toNewSchedule({ ...head, uid: head.uid ?? ref }, body),
      limits.maxSchedulesPerApp,
    )
    return send(reply.code(201), made, count)
  })

  api.patch<OfSchedule>(one, async (request, reply) => {
    const count = countOf(request)
    const before = await getSchedule(store, request.params)
    const { head, body } = readParts<SchedulePatchHead>(request, patchProblems, false)
    const change = toScheduleChange(head, body)
    const { cron = before.cron, timezone = before.timezone } = change
    refuseIf(timingProblems({ cron, timezone }, clock.now()))
    const after = await store.updateSchedule(before.app, before.key, change)
    return send(reply, after ?? (await getSchedule(store, request.params)), count)
  })

  function readWhole(request: FastifyRequest): { head: ScheduleHeadIn; body: Uint8Array } {
    const { head, body } = readParts<ScheduleHeadIn>(request, headProblems, true)
    refuseIf(timingProblems({ cron: head.cron, timezone: head.timezone ?? 'UTC' }, clock.now()))
    return { head, body: body as Uint8Array }
  }

  /** Checks a body. Throws AppError with everything that is wrong with it. */
  function readParts<Head extends { readonly metadata?: Record<string, string> }>(
    request: FastifyRequest,
    problemsOf: (value: unknown) => readonly FieldError[],
    whole: boolean,
  ): { head: Head; body: Uint8Array | undefined } {
    const given = request.body as SplitBody | undefined
    if (given === undefined) throw new AppError('invalid_json', 'The body is empty.')
    const { head, payload } = given
    const problems = [...problemsOf(head)]
    const isObject = typeof head === 'object' && head !== null && !Array.isArray(head)
    const at = ['body', 'payload']
    if (whole && isObject && payload === undefined) problems.push({ at, message: 'is required', type: 'required' })
    if (payload && payload[0] !== openBrace) problems.push({ at, message: 'must be object', type: 'type' })
    refuseIf(problems)
    refuseIf(metadataProblems((head as Head).metadata))
    return { head: head as Head, body: payload }
  }

  function send(reply: FastifyReply, schedule: Schedule, count: number) {
    return reply.type(jsonType).send(scheduleBytes(schedule, clock.now(), count))
  }
}

/** Schedules: list, get, delete, pause, resume, run. */
export function scheduleRoutes(api: FastifyInstance, { store, clock, publisher }: HttpContext): void {
  const config = { bodyOptional: true }

  api.get<OfApplication>('/app/:app/schedule', async (request, reply) => {
    const query = readQuery(ScheduleListQuery, request.query)
    refuseIf(listProblems(query))
    const { key } = await getApplication(store, request.params.app)
    const asked = query as ScheduleListQuery
    const [now, count] = [clock.now(), listedOf(asked)]
    reply.type(jsonType)
    return writePage(
      clock,
      asked,
      {
        // A schedule has its payload with it: the page keeps the size alone, and reads the schedule once more to show it.
        read: async (after: number | null, order, limit) => {
          const { items } = await store.listSchedules(key, { after, order, limit })
          return items.map(({ id, body }) => ({ id, bytes: body.length }))
        },
        keep: async (rows) => rows.map((row) => ({ row })),
        keepsAll: true,
        rowsAtOnce: 4,
        bytesOf: ({ row }) => row.bytes,
        positionOf: ({ id }) => decodeKey('sch', id) as number,
        write: ({ id }) => id,
        parse: (text) => decodeKey('sch', text),
      },
      async (items) => {
        const found = await Promise.all(items.map(({ row }) => store.findSchedule(key, row.id)))
        return found.flatMap((schedule) => (schedule === undefined ? [] : [scheduleBytes(schedule, now, count)]))
      },
    )
  })

  api.get<OfSchedule>(one, async (request, reply) => {
    const count = countOf(request)
    const schedule = await getSchedule(store, request.params)
    return reply.type(jsonType).send(scheduleBytes(schedule, clock.now(), count))
  })

  api.delete<OfSchedule>(one, async (request, reply) => {
    const { app, key } = await getSchedule(store, request.params)
    await store.deleteSchedule(app, key)
    return reply.code(204).send()
  })

  for (const [name, paused] of [
    ['pause', true],
    ['resume', false],
  ] as const) {
    api.post<OfSchedule>(`${one}/${name}`, { config }, async (request, reply) => {
      const count = countOf(request)
      const { app, key } = await getSchedule(store, request.params)
      const after = (await store.updateSchedule(app, key, { paused })) ?? (await getSchedule(store, request.params))
      return reply.type(jsonType).send(scheduleBytes(after, clock.now(), count))
    })
  }

  api.post<OfSchedule>(`${one}/run`, { config }, async (request, reply) => {
    const application = await getApplication(store, request.params.app)
    const schedule = await getSchedule(store, request.params)
    const { id } = await runNow(store, publisher, application.id, schedule)
    return reply.code(202).send({ msgId: id })
  })
}

/** How many runs to come are asked for. */
function countOf(request: FastifyRequest): number {
  const query = readQuery(ScheduleQuery, request.query)
  refuseIf(queryProblems(query))
  return shownOf(query as ScheduleQuery)
}
