import { apiKeys } from '../api/api-key.ts'
import { operationsOf } from '../nouns.ts'
import { auditOperations, authenticationOperations } from './access.ts'
import { applicationOperations } from './application.ts'
import { attemptOperations } from './attempt.ts'
import { endpointOperations, operationalWebhookOperations } from './endpoint.ts'
import { eventTypeOperations } from './event-type.ts'
import { healthOperations } from './health.ts'
import { messageOperations } from './message.ts'
import type { Operations } from './operation.ts'
import { referenceOperations } from './reference.ts'
import { regionOperations } from './region.ts'
import {
  backgroundTaskOperations,
  deadOperations,
  laneOperations,
  replayOperations,
  statisticsOperations,
} from './replay.ts'
import { scheduleOperations } from './schedule.ts'

/**
 * Every operation of the API, in the order the reference shows them. A test fails for a route that is not described
 * here, and for a description without a route.
 */
export const operations: Operations = {
  ...applicationOperations,
  ...endpointOperations,
  ...eventTypeOperations,
  ...messageOperations,
  ...regionOperations,
  ...scheduleOperations,
  ...attemptOperations,
  ...replayOperations,
  ...deadOperations,
  ...laneOperations,
  ...backgroundTaskOperations,
  ...statisticsOperations,
  ...authenticationOperations,
  ...operationsOf(apiKeys),
  ...auditOperations,
  ...operationalWebhookOperations,
  ...healthOperations,
  ...referenceOperations,
}
