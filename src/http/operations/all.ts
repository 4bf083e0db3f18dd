import { apiKeys } from '../api/api-key.ts'
import { audit } from '../api/audit.ts'
import { backgroundTasks } from '../api/background-task.ts'
import { eventTypes } from '../api/event-type.ts'
import { health } from '../api/health.ts'
import { lanes } from '../api/lane.ts'
import { regions } from '../api/region.ts'
import { statistics } from '../api/statistics.ts'
import { operationsOf } from '../nouns.ts'
import { authenticationOperations } from './access.ts'
import { applicationOperations } from './application.ts'
import { attemptOperations } from './attempt.ts'
import { endpointOperations, operationalWebhookOperations } from './endpoint.ts'
import { messageOperations } from './message.ts'
import type { Operations } from './operation.ts'
import { referenceOperations } from './reference.ts'
import { deadOperations, replayOperations } from './replay.ts'
import { scheduleOperations } from './schedule.ts'

/**
 * Every operation of the API, in the order the reference shows them. A test fails for a route that is not described
 * here, and for a description without a route.
 */
export const operations: Operations = {
  ...applicationOperations,
  ...endpointOperations,
  ...operationsOf(eventTypes),
  ...messageOperations,
  ...operationsOf(regions),
  ...scheduleOperations,
  ...attemptOperations,
  ...replayOperations,
  ...deadOperations,
  ...operationsOf(lanes),
  ...operationsOf(backgroundTasks),
  ...operationsOf(statistics),
  ...authenticationOperations,
  ...operationsOf(apiKeys),
  ...operationsOf(audit),
  ...operationalWebhookOperations,
  ...operationsOf(health),
  ...referenceOperations,
}
