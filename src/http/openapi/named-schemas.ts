import type { TSchema } from 'typebox'
import { DeadImportOut, DeadLetterLine, DeadLetterOut, DeadLetterTrailOut } from '../answers/dead.ts'
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
import { AnyDeadReplayIn, DeadLineIn, DeadReplayIn } from '../schemas/dead.ts'
import { PrecheckIn } from '../schemas/message.ts'
import { BulkExpungeIn } from '../schemas/message-list.ts'
import { ScheduleIn, SchedulePatch } from '../schemas/schedule.ts'

/** The schemas that have a name in the reference: Svix's where it has the same thing. */
export const namedSchemas: Readonly<Record<string, TSchema>> = {
  ...Object.assign({}, ...nouns.map(({ schemas }) => schemas)),
  AnyDeadReplayIn,
  BulkExpungeContentsIn: BulkExpungeIn,
  BulkExpungeContentsOut: BulkExpungeOut,
  DeadImportOut,
  DeadLetterLine,
  DeadLetterOut,
  DeadLetterTrailOut,
  DeadLineIn,
  DeadReplayIn,
  EndpointMessageOut,
  MessageAttemptOut,
  MessageBatchIn,
  MessageEndpointOut,
  MessageIn,
  MessageOut,
  MessagePrecheckIn: PrecheckIn,
  MessagePrecheckOut,
  ScheduleIn,
  ScheduleOut,
  SchedulePatch,
  ScheduleRanOut,
}
