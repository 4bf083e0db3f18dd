import { Type } from 'typebox'
import { admin } from '../../operations/access.ts'
import { closed, dateTime, described, maybe } from '../../operations/fields.ts'
import { isRef } from '../../operations/lookup.ts'
import { type Noun, route } from '../../operations/route.ts'
import { refuseIf } from '../../operations/validate.ts'
import { readSpan, startTask, TaskStartedOut } from '../tasks/schemas.ts'

const AppUsageStatsIn = Type.Object(
  {
    since: described(dateTime, 'From this instant on, RFC 3339.'),
    until: described(dateTime, 'Before this instant, RFC 3339; now by default.'),
    appIds: maybe(
      Type.Array(Type.String({ maxLength: 256 }), {
        minItems: 1,
        maxItems: 1000,
        description: 'Applications, by id or uid; null for all.',
      }),
    ),
  },
  closed,
)

const AppUsageStatsOut = Type.Object({
  ...TaskStartedOut.properties,
  unresolvedAppIds: Type.Array(Type.String()),
})

export const statistics = {
  tag: 'Statistics',
  description: 'Counts over applications, as background tasks.',
  schemas: { AppUsageStatsIn, AppUsageStatsOut },
  routes: [
    route('POST /stats/usage/app', admin, {
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
        return { ...(await startTask(store, null, work, { appStats: [] })), unresolvedAppIds }
      },
    }),
    route('PUT /stats/usage/event-types', admin, {
      id: 'v1.statistics.aggregate-event-types',
      summary: "List the event types that each application's endpoints subscribe to, in the background",
      answers: { 202: TaskStartedOut },
      handle: (_call, { store }) =>
        startTask(store, null, { type: 'event-type.aggregate', input: {} }, { event_types: [] }),
    }),
  ],
} satisfies Noun
