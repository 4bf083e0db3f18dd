import { Type } from 'typebox'
import { admin } from '../access.ts'
import { described, maybe } from '../fields.ts'
import { isRef } from '../lookup.ts'
import { type Noun, route } from '../route.ts'
import { dateTime, refuseIf } from '../validate.ts'
import { TaskStartedOut, toStartedOut } from './background-task.ts'
import { readSpan } from './replay.ts'

const AppUsageStatsIn = Type.Object({
  since: described(dateTime, 'From this instant on, RFC 3339.'),
  until: described(dateTime, 'Before this instant, RFC 3339; now by default.'),
  appIds: maybe(
    Type.Array(Type.String({ maxLength: 256 }), {
      minItems: 1,
      maxItems: 1000,
      description: 'Applications, by id or uid; null for all.',
    }),
  ),
})

const AppUsageStatsOut = Type.Object({
  ...TaskStartedOut.properties,
  unresolvedAppIds: Type.Array(Type.String()),
})

export const statistics = {
  tag: 'Statistics',
  description: 'Counts over applications, as background tasks.',
  schemas: { AppUsageStatsIn, AppUsageStatsOut },
  routes: [
    route({
      method: 'POST',
      path: '/stats/usage/app',
      need: admin,
      id: 'v1.statistics.aggregate-app-stats',
      summary: 'Count deliveries per application, in the background',
      body: AppUsageStatsIn,
      answers: { 202: AppUsageStatsOut },
      handle: async ({ body }, { store, clock }) => {
        const span = readSpan(body, clock.now())
        const refs = body.appIds ?? null
        const found = await Promise.all(
          (refs ?? []).map((ref) => (isRef(ref) ? store.findApplication(ref) : undefined)),
        )
        const unresolvedAppIds = (refs ?? []).filter((_, i) => found[i] === undefined)
        const apps = refs && [...new Set(found.flatMap((app) => (app === undefined ? [] : [app.key])))]
        const problem = { at: ['body', 'appIds'], message: 'names no application', type: 'unknown' }
        refuseIf(apps?.length === 0 ? [problem] : [])
        const work = { type: 'application.stats', input: { ...span, apps } } as const
        const task = await store.createTask({ app: null, work, data: { appStats: [] } })
        return { ...toStartedOut(task), unresolvedAppIds }
      },
    }),
    route({
      method: 'PUT',
      path: '/stats/usage/event-types',
      need: admin,
      id: 'v1.statistics.aggregate-event-types',
      summary: "List the event types that each application's endpoints subscribe to, in the background",
      answers: { 202: TaskStartedOut },
      handle: async (_call, { store }) => {
        const work = { type: 'event-type.aggregate', input: {} } as const
        return toStartedOut(await store.createTask({ app: null, work, data: { event_types: [] } }))
      },
    }),
  ],
} satisfies Noun
