/**
 * Sluice as a library: webhook delivery inside a TypeScript program.
 *
 * @packageDocumentation
 */
export { AppError, type AppErrorCode, type FieldError } from './domain/app-error.ts'
export type {
  ApplicationOut,
  Applications,
  ArrivalSample,
  EndpointOut,
  Endpoints,
  List,
  ListOptions,
  NewSource,
  NewView,
  ScheduleIn,
  ScheduleOut,
  SchedulePatch,
  Schedules,
  SecretRotation,
  Source,
  SourceIn,
  SourcePatch,
  SourceProvider,
  SourceSecretRotation,
  SourceSummary,
  Sources,
  SourceTest,
  SourceVerdict,
  View,
  ViewChange,
  Views,
} from './library/manage.ts'
export type {
  ApplicationWhy,
  Attempt,
  Attempts,
  DeadLetter,
  DeadLetters,
  DeadLetterTrail,
  DeadListOptions,
  DeadReplay,
  DeliveryWhy,
  EndpointWhy,
  Explain,
  HistoryOptions,
  LaneOut,
  Lanes,
  Message,
  Messages,
  NewMessage,
  PublishedMessage,
  StartedTask,
} from './library/messages.ts'
export {
  type Enqueued,
  openSluice,
  type PostgresClient,
  type ReceivedWebhook,
  type Sluice,
  type SluiceOptions,
  type VerifyOptions,
  verify,
} from './library/sluice.ts'
export type { Method, Request } from './operations/in-process.ts'
export { ConfigError } from './runtime/config.ts'
export { version } from './runtime/version.ts'
export { NotEnlistableError } from './store/publishing.ts'
export { FileOwnedError } from './store/sqlite/file-use.ts'
export { StoreTrouble } from './store/store.ts'
export { SecretError, SignatureError } from './wire/receiver.ts'
