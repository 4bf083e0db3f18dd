import { apiKeys } from '../api/api-key.ts'
import { applications } from '../api/application.ts'
import { audit } from '../api/audit.ts'
import { authentication } from '../api/authentication.ts'
import { backgroundTasks } from '../api/background-task.ts'
import { endpoints, operationalWebhooks } from '../api/endpoints.ts'
import { eventTypes } from '../api/event-type.ts'
import { health } from '../api/health.ts'
import { lanes } from '../api/lane.ts'
import { regions } from '../api/region.ts'
import { replays } from '../api/replay.ts'
import { statistics } from '../api/statistics.ts'
import { operationsOf } from '../nouns.ts'
import { attemptOperations } from './attempt.ts'
import { messageOperations } from './message.ts'
import type { Operations } from './operation.ts'
import { referenceOperations } from './reference.ts'
import { deadOperations } from './replay.ts'
import { scheduleOperations } from './schedule.ts'

/**
 * Every operation of the API, in the order the reference shows them. A test fails for a route that is not described
 * here, and for a description without a route.
 */
export const operations: Operations = {
  ...operationsOf(applications),
  ...operationsOf(endpoints),
  ...operationsOf(eventTypes),
  ...messageOperations,
  ...operationsOf(regions),
  ...scheduleOperations,
  ...attemptOperations,
  ...operationsOf(replays),
  ...deadOperations,
  ...operationsOf(lanes),
  ...operationsOf(backgroundTasks),
  ...operationsOf(statistics),
  ...operationsOf(authentication),
  ...operationsOf(apiKeys),
  ...operationsOf(audit),
  ...operationsOf(operationalWebhooks),
  ...operationsOf(health),
  ...referenceOperations,
}
