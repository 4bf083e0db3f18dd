import type { FieldError } from '../../domain/app-error.ts'
import { runNow } from '../../intake/publisher.ts'
import { admin, read } from '../../operations/access.ts'
import { iso, listOf } from '../../operations/fields.ts'
import { found, isRef, newUid } from '../../operations/lookup.ts'
import { byId, itemBytes, listRows, writePage } from '../../operations/page.ts'
import { type Noun, Reply, route } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import { refuseIf } from '../../operations/validate.ts'
import type { PageRequest } from '../../store/store.ts'
import type { Schedule } from './noun.ts'
import {
  newProblems,
  nextListed,
  previewRuns,
  ScheduleIn,
  ScheduleListQuery,
  ScheduleOut,
  SchedulePatch,
  SchedulePreviewOut,
  SchedulePreviewQuery,
  ScheduleQuery,
  ScheduleRanOut,
  ScheduleSummaryOut,
  scheduleBytes,
  scheduleProblems,
  toNewSchedule,
  toScheduleChange,
  toScheduleReplacement,
  toScheduleSummary,
} from './schemas.ts'

const one = '/app/:app/schedule/:schedule' as const

function pauseRoute(name: 'pause' | 'resume', paused: boolean, summary: string, description?: string) {
  return route(`POST ${one}/${name}`, admin, {
    id: `v1.schedule.${name}`,
    summary,
    ...(description && { description }),
    query: ScheduleQuery,
    answers: { 200: ScheduleOut },
    handle: async ({ schedule: { app, key, id }, query }, { store, clock }) => {
      const changed: Schedule = found(await store.updateSchedule(app, key, { paused }), 'schedule', id)
      return scheduleBytes(changed, clock.now(), query.next_runs)
    },
  })
}

export const schedules = {
  tag: 'Schedule',
  description: 'A message that is repeated by a cron expression in a time zone.',
  schemas: { ScheduleIn, SchedulePatch, ScheduleOut, ScheduleSummaryOut, SchedulePreviewOut, ScheduleRanOut },
  routes: [
    route('GET /app/:app/schedule', read, {
      id: 'v1.schedule.list',
      summary: 'List schedules',
      query: ScheduleListQuery,
      answers: { 200: listOf(ScheduleOut) },
      handle: ({ app, query }, { store, clock }) => {
        const [now, count] = [clock.now(), query.next_runs ?? nextListed]
        return writePage(
          clock,
          query,
          {
            // A schedule has its payload with it: the page keeps the size alone, and reads the schedule once more to show it.
            read: async (after: number | null, order, limit) => {
              const { items } = await store.listSchedules(app.key, { after, order, limit })
              return items.map(({ id, body }) => ({ id, bytes: body.length }))
            },
            keep: async (rows) => rows.map((row) => ({ row })),
            keepsAll: true,
            rowsAtOnce: 4,
            bytesOf: ({ row }) => itemBytes + row.bytes,
            ...byId('sch'),
          },
          async (items) => {
            const listed = await Promise.all(items.map(({ row }) => store.findSchedule(app.key, row.id)))
            return listed.flatMap((schedule) => (schedule === undefined ? [] : [scheduleBytes(schedule, now, count)]))
          },
        )
      },
    }),
    route('GET /schedule', read, {
      id: 'v1.schedule.list-all',
      summary: 'List the schedules of all applications',
      description: 'Without their messages.',
      query: ScheduleListQuery,
      answers: { 200: listOf(ScheduleSummaryOut) },
      handle: async ({ query }, { store, clock }) => {
        const [now, count] = [clock.now(), query.next_runs ?? nextListed]
        const list = (page: PageRequest) => store.listSchedules(null, page)
        const toOut = (schedule: Schedule) => toScheduleSummary(schedule, now, count)
        const page = await listRows(clock, query, { ...byId('sch'), list, toOut, rowsAtOnce: 4 })
        const apps = await store.applicationRefs(page.data.map(({ row }) => row.app))
        const data = page.data.flatMap(({ row, out }) => {
          const app = apps.get(row.app)
          return app === undefined ? [] : [{ ...out, appId: app.id, appUid: app.uid }]
        })
        return { ...page, data }
      },
    }),
    route('GET /schedule/preview', read, {
      id: 'v1.schedule.preview',
      summary: 'List the next runs of a cron expression',
      description: 'Checks a draft. A wrong expression is refused with the reason.',
      query: SchedulePreviewQuery,
      answers: { 200: SchedulePreviewOut },
      handle: ({ query }, { clock }) => ({ nextRuns: previewRuns(query, clock.now()).map(iso) }),
    }),
    route('POST /app/:app/schedule', admin, {
      id: 'v1.schedule.create',
      summary: 'Create a schedule: a message repeated by a cron expression',
      description:
        'Five fields of cron in a time zone, or six with seconds first; or `@after 5m`, five minutes after the last delivery of the run before has ended; or `@after 0 * * * *`, at the first such tick after it. A time that is skipped when clocks go forward runs at that moment; a time that exists twice runs the first time. Expressions that repeat within a day, such as every half hour, follow elapsed time. An application may have 1,000.',
      query: ScheduleQuery,
      body: ScheduleIn,
      reading: 'split',
      answers: { 201: ScheduleOut },
      handle: async ({ app, query, body: { head, payload } }, { store, clock, limits }) => {
        refuseIf([...newProblems(head, payload, clock.now()), ...(await endpointProblems(store, app, head.endpoint))])
        const created = await store.createSchedule(app.key, toNewSchedule(head, payload), limits.maxSchedulesPerApp)
        return scheduleBytes(created, clock.now(), query.next_runs)
      },
    }),
    route(`GET ${one}`, read, {
      id: 'v1.schedule.get',
      summary: 'Get a schedule, when it ran and when it will',
      query: ScheduleQuery,
      answers: { 200: ScheduleOut },
      handle: ({ schedule, query }, { clock }) => scheduleBytes(schedule, clock.now(), query.next_runs),
    }),
    route(`PUT ${one}`, admin, {
      id: 'v1.schedule.update',
      summary: 'Replace a schedule, or create it',
      description: 'Absent fields return to their defaults; `uid` and `paused` stay. A new timing starts from now.',
      query: ScheduleQuery,
      body: ScheduleIn,
      reading: 'split',
      answers: { 200: ScheduleOut, 201: ScheduleOut },
      lookup: 'upsert',
      handle: async ({ app, schedule, params, query, body: { head, payload } }, { store, clock, limits }) => {
        const { schedule: ref } = params
        if (schedule === undefined) newUid('schedule', 'sch', ref)
        refuseIf([...newProblems(head, payload, clock.now()), ...(await endpointProblems(store, app, head.endpoint))])
        const replacement = toScheduleReplacement(head, payload)
        const replaced = schedule && (await store.updateSchedule(app.key, schedule.key, replacement))
        if (replaced) return scheduleBytes(replaced, clock.now(), query.next_runs)
        const named = toNewSchedule({ ...head, uid: head.uid ?? newUid('schedule', 'sch', ref) }, payload)
        const created = await store.createSchedule(app.key, named, limits.maxSchedulesPerApp)
        return new Reply(201, scheduleBytes(created, clock.now(), query.next_runs))
      },
    }),
    route(`PATCH ${one}`, admin, {
      id: 'v1.schedule.patch',
      summary: 'Change some fields of a schedule',
      description:
        'Absent fields stay; a new body without a content type gets the default one. A new timing starts from now.',
      query: ScheduleQuery,
      body: SchedulePatch,
      reading: 'split',
      answers: { 200: ScheduleOut },
      handle: async ({ app, schedule, query, body: { head, payload } }, { store, clock }) => {
        const { cron = schedule.cron, timezone = schedule.timezone } = head
        const problems = scheduleProblems(head, payload, { cron, timezone }, clock.now())
        refuseIf([...problems, ...(await endpointProblems(store, app, head.endpoint))])
        const change = toScheduleChange(head, payload)
        const changed = await store.updateSchedule(schedule.app, schedule.key, change)
        return scheduleBytes(found(changed, 'schedule', schedule.id), clock.now(), query.next_runs)
      },
    }),
    route(`DELETE ${one}`, admin, {
      id: 'v1.schedule.delete',
      summary: 'Delete a schedule',
      description: 'Messages that it published stay.',
      answers: { 204: null },
      handle: ({ schedule: { app, key } }, { store }) => store.deleteSchedule(app, key),
    }),
    pauseRoute('pause', true, 'Pause a schedule'),
    pauseRoute(
      'resume',
      false,
      'Resume a schedule',
      'The schedule continues with the next run. Runs during the pause are not made up for.',
    ),
    route(`POST ${one}/run`, admin, {
      id: 'v1.schedule.run',
      summary: 'Publish the message of a schedule now',
      description: 'A paused schedule publishes, too. The time of the next run does not change.',
      answers: { 202: ScheduleRanOut },
      handle: async ({ app, schedule }, { store, publisher }) => {
        const { id } = await runNow(store, publisher, app.id, schedule)
        return { msgId: id }
      },
    }),
  ],
} satisfies Noun

/** A schedule names an endpoint that exists. If the endpoint is deleted later, runs fail, and `lastRuns` say why. */
async function endpointProblems(
  store: Pick<Services['store'], 'findEndpoint'>,
  app: { readonly key: number },
  endpoint: string | null | undefined,
): Promise<FieldError[]> {
  if (endpoint == null || (isRef(endpoint) && (await store.findEndpoint(app.key, endpoint)))) return []
  return [{ at: ['body', 'endpoint'], message: 'is no endpoint of the application', type: 'not_found' }]
}
