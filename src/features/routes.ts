import type { TSchema } from 'typebox'
import { type Noun, type Route, urlOf } from '../operations/route.ts'
import { authentication } from './access/routes.ts'
import { alerts } from './alerts/routes.ts'
import { apiKeys } from './api-keys/routes.ts'
import { applications } from './applications/routes.ts'
import { arrivals } from './arrivals/routes.ts'
import { attempts } from './attempts/routes.ts'
import { audit } from './audit/routes.ts'
import { deadLetters } from './dead-letters/routes.ts'
import { deadLetterImport } from './dead-lines/routes.ts'
import { doctor } from './doctor/routes.ts'
import { endpointControl } from './endpoint-control/routes.ts'
import { endpoints } from './endpoints/routes.ts'
import { subjects } from './erasure/routes.ts'
import { eventTypes } from './event-types/routes.ts'
import { health } from './health/routes.ts'
import { history } from './history/routes.ts'
import { inbox } from './inbox/routes.ts'
import { ingest } from './ingest/routes.ts'
import { lanes } from './lanes/routes.ts'
import { live } from './live/routes.ts'
import { messages } from './messages/routes.ts'
import { operationalWebhooks } from './operational-webhooks/routes.ts'
import { portal } from './portal/routes.ts'
import { reference } from './reference/routes.ts'
import { regions } from './regions/routes.ts'
import { replays } from './replays/routes.ts'
import { schedules } from './schedules/routes.ts'
import { endpointList } from './search/list-routes.ts'
import { finding } from './search/routes.ts'
import { sessions } from './sessions/routes.ts'
import { sources } from './sources/routes.ts'
import { sourceProviders } from './sources/schemas.ts'
import { statistics } from './statistics/routes.ts'
import { backgroundTasks } from './tasks/routes.ts'
import { views } from './views/routes.ts'
import { why } from './why/routes.ts'

/** Every kind of thing in the API, in the order of the reference. */
const all = [
  applications,
  endpoints,
  endpointControl,
  endpointList,
  eventTypes,
  messages,
  regions,
  schedules,
  sourceProviders,
  sources,
  inbox,
  attempts,
  replays,
  deadLetters,
  deadLetterImport,
  lanes,
  why,
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
  views,
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
