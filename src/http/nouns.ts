import type { TSchema } from 'typebox'
import { apiKeys } from './api/api-key.ts'
import { applications } from './api/application.ts'
import { attempts } from './api/attempt.ts'
import { audit } from './api/audit.ts'
import { authentication } from './api/authentication.ts'
import { backgroundTasks } from './api/background-task.ts'
import { deadLetters } from './api/dead-letter.ts'
import { endpoints, operationalWebhooks } from './api/endpoints.ts'
import { eventTypes } from './api/event-type.ts'
import { health } from './api/health.ts'
import { lanes } from './api/lane.ts'
import { messages } from './api/message.ts'
import { reference } from './api/reference.ts'
import { regions } from './api/region.ts'
import { replays } from './api/replay.ts'
import { schedules } from './api/schedule.ts'
import { statistics } from './api/statistics.ts'
import type { Noun, Route } from './route.ts'

/** Every kind of thing in the API, in the order of the reference. */
export const nouns: readonly Noun[] = [
  applications,
  endpoints,
  eventTypes,
  messages,
  regions,
  schedules,
  attempts,
  replays,
  deadLetters,
  lanes,
  backgroundTasks,
  statistics,
  authentication,
  apiKeys,
  audit,
  operationalWebhooks,
  health,
  reference,
]

export const routes: readonly Route[] = nouns.flatMap((noun) => noun.routes)

/** The same by method and path, such as `GET /app/:app`. */
export const operations: Readonly<Record<string, Route>> = Object.fromEntries(
  routes.map((route) => [`${route.method} ${route.path}`, route]),
)

/** The schemas that have a name in the reference. */
export const namedSchemas: Readonly<Record<string, TSchema>> = Object.assign({}, ...nouns.map(({ schemas }) => schemas))
