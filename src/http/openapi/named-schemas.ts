import type { TSchema } from 'typebox'
import { AppPortalAccessOut, AuditOut, AuditVerifyOut } from '../answers/access.ts'
import { ApplicationOut } from '../answers/application.ts'
import { AppUsageStatsOut, BackgroundTaskOut, TaskStartedOut } from '../answers/background-task.ts'
import { DeadImportOut, DeadLetterLine, DeadLetterOut, DeadLetterTrailOut } from '../answers/dead.ts'
import { EndpointHeadersOut, EndpointOut, EndpointSecretOut, EndpointStats } from '../answers/endpoint.ts'
import {
  EventTypeFromOpenApi,
  EventTypeImportOpenApiOut,
  EventTypeImportOpenApiOutData,
  EventTypeOut,
} from '../answers/event-type.ts'
import { HealthOut, LeaderOut } from '../answers/health.ts'
import { HeadOut, LaneOut } from '../answers/lane.ts'
import {
  BulkExpungeOut,
  EndpointMessageOut,
  MessageAttemptOut,
  MessageEndpointOut,
  MessageOut,
  MessagePrecheckOut,
} from '../answers/message.ts'
import { RegionCreatedOut, RegionOut } from '../answers/region.ts'
import { ScheduleOut, ScheduleRanOut } from '../answers/schedule.ts'
import { ApplicationWhyOut, BlockerOut, EndpointWhyOut, WhyOut } from '../answers/why.ts'
import { MessageBatchIn, MessageIn } from '../operations/message.ts'
import { ApplicationIn, ApplicationPatch } from '../schemas/application.ts'
import { AnyDeadReplayIn, DeadLineIn, DeadReplayIn } from '../schemas/dead.ts'
import { EndpointIn, EndpointPatch, EndpointPut } from '../schemas/endpoint.ts'
import { EndpointHeadersIn, EndpointHeadersPatch } from '../schemas/endpoint-headers.ts'
import { SecretRotateIn } from '../schemas/endpoint-secret.ts'
import { EventExampleIn, EventTypeImportIn, EventTypeIn, EventTypePatch, EventTypePut } from '../schemas/event-type.ts'
import { PrecheckIn } from '../schemas/message.ts'
import { BulkExpungeIn } from '../schemas/message-list.ts'
import { HeadIn } from '../schemas/order.ts'
import { ApplicationTokenExpireIn, AppPortalAccessIn } from '../schemas/portal.ts'
import { RegionIn } from '../schemas/region.ts'
import { BulkReplayIn, ReplayIn } from '../schemas/replay.ts'
import { ScheduleIn, SchedulePatch } from '../schemas/schedule.ts'
import { AppUsageStatsIn } from '../schemas/statistics.ts'

/** The schemas that have a name in the reference: Svix's where it has the same thing. */
export const namedSchemas: Readonly<Record<string, TSchema>> = {
  AnyDeadReplayIn,
  AppPortalAccessIn,
  AppPortalAccessOut,
  AppUsageStatsIn,
  AppUsageStatsOut,
  ApplicationIn,
  ApplicationOut,
  ApplicationPatch,
  ApplicationTokenExpireIn,
  ApplicationWhyOut,
  AuditOut,
  AuditVerifyOut,
  BackgroundTaskOut,
  BlockerOut,
  BulkExpungeContentsIn: BulkExpungeIn,
  BulkExpungeContentsOut: BulkExpungeOut,
  BulkReplayIn,
  DeadImportOut,
  DeadLetterLine,
  DeadLetterOut,
  DeadLetterTrailOut,
  DeadLineIn,
  DeadReplayIn,
  EndpointHeadersIn,
  EndpointHeadersOut,
  EndpointHeadersPatchIn: EndpointHeadersPatch,
  EndpointIn,
  EndpointMessageOut,
  EndpointOut,
  EndpointPatch,
  EndpointSecretOut,
  EndpointSecretRotateIn: SecretRotateIn,
  EndpointStats,
  EndpointUpdate: EndpointPut,
  EndpointWhyOut,
  EventExampleIn,
  EventTypeFromOpenApi,
  EventTypeImportOpenApiIn: EventTypeImportIn,
  EventTypeImportOpenApiOut,
  EventTypeImportOpenApiOutData,
  EventTypeIn,
  EventTypeOut,
  EventTypePatch,
  EventTypeUpdate: EventTypePut,
  HealthOut,
  LaneOut,
  HeadIn,
  HeadOut,
  LeaderOut,
  MessageAttemptOut,
  MessageBatchIn,
  MessageEndpointOut,
  MessageIn,
  MessageOut,
  MessagePrecheckIn: PrecheckIn,
  MessagePrecheckOut,
  RegionCreatedOut,
  RegionIn,
  RegionOut,
  ReplayIn,
  ScheduleIn,
  ScheduleOut,
  SchedulePatch,
  ScheduleRanOut,
  TaskStartedOut,
  WhyOut,
}
