import type { TSchema } from 'typebox'
import { apiKeys, authentication } from '../features/access/routes.ts'
import { alerts } from '../features/alerts/routes.ts'
import { applications, portal, regions } from '../features/applications/routes.ts'
import { attempts } from '../features/attempts/routes.ts'
import { audit } from '../features/audit/routes.ts'
import { deadLetters } from '../features/dead-letters/routes.ts'
import { endpoints, operationalWebhooks } from '../features/endpoints/routes.ts'
import { subjects } from '../features/erasure/routes.ts'
import { eventTypes } from '../features/event-types/routes.ts'
import { doctor, health, reference } from '../features/health/routes.ts'
import { history } from '../features/history/routes.ts'
import { ingest } from '../features/ingest/routes.ts'
import { lanes } from '../features/lanes/routes.ts'
import { live } from '../features/live/routes.ts'
import { messages } from '../features/messages/routes.ts'
import { replays } from '../features/replays/routes.ts'
import { schedules } from '../features/schedules/routes.ts'
import { finding } from '../features/search/routes.ts'
import { sessions } from '../features/sessions/routes.ts'
import { arrivals, sources } from '../features/sources/routes.ts'
import { sourceProviders } from '../features/sources/schemas.ts'
import { backgroundTasks, statistics } from '../features/tasks/routes.ts'
import { type Noun, type Route, urlOf } from './route.ts'

/** Every kind of thing in the API, in the order of the reference. */
const all = [
  applications,
  endpoints,
  eventTypes,
  messages,
  regions,
  schedules,
  sourceProviders,
  sources,
  attempts,
  replays,
  deadLetters,
  lanes,
  backgroundTasks,
  subjects,
  live,
  statistics,
  history,
  authentication,
  sessions,
  portal,
  apiKeys,
  audit,
  operationalWebhooks,
  finding,
  health,
  doctor,
  alerts,
  reference,
] satisfies readonly Noun[]

/** Those whose URLs begin otherwise than the API of Sluice come last. */
export const nouns: readonly Noun[] = [...all, arrivals, ingest]

/** Every route with its types. */
export type KnownRoute = (typeof all)[number]['routes'][number]

export const routes: readonly Route[] = nouns.flatMap((noun) => noun.routes)

/** The same by method and path, such as `GET /app/:app`; with the whole URL where it begins otherwise than `/api/v1`. */
export const operations: Readonly<Record<string, Route>> = Object.fromEntries(
  routes.map((route) => [`${route.method} ${route.root === undefined ? route.path : urlOf(route)}`, route]),
)

/** The schemas that have a name in the reference. */
export const namedSchemas: Readonly<Record<string, TSchema>> = Object.assign({}, ...nouns.map(({ schemas }) => schemas))
