import type { TSchema } from 'typebox'
import { AppPortalAccessOut } from '../answers/access.ts'
import { ApplicationOut } from '../answers/application.ts'
import { DeadImportOut, DeadLetterLine, DeadLetterOut, DeadLetterTrailOut } from '../answers/dead.ts'
import { EndpointHeadersOut, EndpointOut, EndpointSecretOut, EndpointStats } from '../answers/endpoint.ts'
import {
  BulkExpungeOut,
  EndpointMessageOut,
  MessageAttemptOut,
  MessageEndpointOut,
  MessageOut,
  MessagePrecheckOut,
} from '../answers/message.ts'
import { ScheduleOut, ScheduleRanOut } from '../answers/schedule.ts'
import { nouns } from '../nouns.ts'
import { MessageBatchIn, MessageIn } from '../operations/message.ts'
import { ApplicationIn, ApplicationPatch } from '../schemas/application.ts'
import { AnyDeadReplayIn, DeadLineIn, DeadReplayIn } from '../schemas/dead.ts'
import { EndpointIn, EndpointPatch, EndpointPut } from '../schemas/endpoint.ts'
import { EndpointHeadersIn, EndpointHeadersPatch } from '../schemas/endpoint-headers.ts'
import { SecretRotateIn } from '../schemas/endpoint-secret.ts'
import { EventExampleIn } from '../schemas/event-type.ts'
import { PrecheckIn } from '../schemas/message.ts'
import { BulkExpungeIn } from '../schemas/message-list.ts'
import { ApplicationTokenExpireIn, AppPortalAccessIn } from '../schemas/portal.ts'
import { BulkReplayIn, ReplayIn } from '../schemas/replay.ts'
import { ScheduleIn, SchedulePatch } from '../schemas/schedule.ts'

/** The schemas that have a name in the reference: Svix's where it has the same thing. */
export const namedSchemas: Readonly<Record<string, TSchema>> = {
  ...Object.assign({}, ...nouns.map(({ schemas }) => schemas)),
  AnyDeadReplayIn,
  AppPortalAccessIn,
  AppPortalAccessOut,
  ApplicationIn,
  ApplicationOut,
  ApplicationPatch,
  ApplicationTokenExpireIn,
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
  EventExampleIn,
  MessageAttemptOut,
  MessageBatchIn,
  MessageEndpointOut,
  MessageIn,
  MessageOut,
  MessagePrecheckIn: PrecheckIn,
  MessagePrecheckOut,
  ReplayIn,
  ScheduleIn,
  ScheduleOut,
  SchedulePatch,
  ScheduleRanOut,
}
