import type { Static } from 'typebox'
import type { ScheduleHead, ScheduleOut as ScheduleOutSchema, SchedulePatchHead } from '../http/api/schedule-schema.ts'
import type { Request } from '../http/in-process.ts'
import { type List, type ListOptions, part, queryOf } from './manage.ts'

/** A schedule to make. */
export type ScheduleIn = ScheduleHead & { readonly payload: object }
/** What to change of a schedule: what is absent stays. */
export type SchedulePatch = SchedulePatchHead & { readonly payload?: object | undefined }
/** A schedule as the API shows it. */
export type ScheduleOut = Static<typeof ScheduleOutSchema>

/** Messages that are published by a cron expression. Each schedule is named by its id or its uid. */
export interface Schedules {
  create(app: string, input: ScheduleIn): Promise<ScheduleOut>
  get(app: string, schedule: string): Promise<ScheduleOut>
  list(app: string, options?: ListOptions): Promise<List<ScheduleOut>>
  update(app: string, schedule: string, change: SchedulePatch): Promise<ScheduleOut>
  /** What it has published stays. */
  delete(app: string, schedule: string): Promise<void>
  pause(app: string, schedule: string): Promise<void>
  /** It goes on with the next run. */
  resume(app: string, schedule: string): Promise<void>
  /** Publishes its message now; resolves with the message's id. */
  run(app: string, schedule: string): Promise<string>
}

export function schedules(request: Request): Schedules {
  const all = (app: string) => `/app/${part(app)}/schedule`
  const at = (app: string, schedule: string) => `${all(app)}/${part(schedule)}`
  return {
    create: (app, input) => request('POST', all(app), input),
    get: (app, schedule) => request('GET', at(app, schedule)),
    list: (app, options) => request('GET', all(app) + queryOf(options)),
    update: (app, schedule, change) => request('PATCH', at(app, schedule), change),
    delete: (app, schedule) => request('DELETE', at(app, schedule)),
    pause: async (app, schedule) => void (await request('POST', `${at(app, schedule)}/pause`)),
    resume: async (app, schedule) => void (await request('POST', `${at(app, schedule)}/resume`)),
    async run(app, schedule) {
      const { msgId } = await request<{ msgId: string }>('POST', `${at(app, schedule)}/run`)
      return msgId
    },
  }
}
