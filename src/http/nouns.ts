import { apiKeys } from './api/api-key.ts'
import { applications } from './api/application.ts'
import { audit } from './api/audit.ts'
import { authentication } from './api/authentication.ts'
import { backgroundTasks } from './api/background-task.ts'
import { endpoints, operationalWebhooks } from './api/endpoints.ts'
import { eventTypes } from './api/event-type.ts'
import { health } from './api/health.ts'
import { lanes } from './api/lane.ts'
import { regions } from './api/region.ts'
import { replays } from './api/replay.ts'
import { statistics } from './api/statistics.ts'
import type { Operation } from './operations/operation.ts'
import type { Noun } from './route.ts'

/** Every kind of thing in the API, in the order of the reference. */
export const nouns: readonly Noun[] = [
  applications,
  endpoints,
  eventTypes,
  regions,
  replays,
  lanes,
  backgroundTasks,
  statistics,
  authentication,
  apiKeys,
  audit,
  operationalWebhooks,
  health,
]

/** The operations of a noun by method and path, such as `GET /app/:app`. */
export function operationsOf({ tag, routes }: Noun): Record<string, Operation> {
  return Object.fromEntries(
    routes.map(({ need, ...route }) => [
      `${route.method} ${route.path}`,
      { ...route, tag, ...(need === 'open' ? { open: true } : { need }) },
    ]),
  )
}
