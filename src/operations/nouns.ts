import type { TSchema } from 'typebox'
import { eventTypes } from '../features/event-types/routes.ts'
import { alerts } from './nouns/alert.ts'
import { applications, portal, regions } from './nouns/application.ts'
import { attempts } from './nouns/attempt.ts'
import { audit } from './nouns/audit.ts'
import { apiKeys, authentication } from './nouns/authentication.ts'
import { backgroundTasks, statistics } from './nouns/background-task.ts'
import { deadLetters } from './nouns/dead-letter.ts'
import { endpoints, operationalWebhooks } from './nouns/endpoints.ts'
import { finding } from './nouns/find.ts'
import { doctor, health, reference } from './nouns/health.ts'
import { history } from './nouns/history.ts'
import { ingest } from './nouns/ingest.ts'
import { lanes } from './nouns/lane.ts'
import { live } from './nouns/live.ts'
import { messages } from './nouns/message.ts'
import { replays } from './nouns/replay.ts'
import { schedules } from './nouns/schedule.ts'
import { sessions } from './nouns/session.ts'
import { arrivals, sources } from './nouns/source.ts'
import { sourceProviders } from './nouns/source-schema.ts'
import { subjects } from './nouns/subject.ts'
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
