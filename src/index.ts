/**
 * Sluice as a library: webhook delivery inside a TypeScript program.
 *
 * @packageDocumentation
 */
export { AppError, type AppErrorCode, type FieldError } from './domain/app-error.ts'
export type {
  ApplicationWhy,
  DeadLetter,
  DeadLetters,
  DeadLetterTrail,
  DeadListOptions,
  DeadReplay,
  DeliveryWhy,
  EndpointWhy,
  Explain,
  LaneOut,
  Lanes,
  StartedTask,
} from './library/deliveries.ts'
export type { Attempt, Attempts, HistoryOptions, Message, Messages } from './library/history.ts'
export type {
  ApplicationOut,
  Applications,
  EndpointOut,
  Endpoints,
  List,
  ListOptions,
  ScheduleIn,
  ScheduleOut,
  SchedulePatch,
  Schedules,
  SecretRotation,
} from './library/manage.ts'
export type { NewMessage, PublishedMessage } from './library/message.ts'
export type { SluiceOptions } from './library/options.ts'
export { type Enqueued, openSluice, type PostgresClient, type Sluice } from './library/sluice.ts'
export { type ReceivedWebhook, SecretError, SignatureError, type VerifyOptions, verify } from './library/verify.ts'
export type { Method, Request } from './operations/in-process.ts'
export { ConfigError } from './runtime/config.ts'
export { version } from './runtime/version.ts'
export { NotEnlistableError } from './store/publishing.ts'
export { FileOwnedError } from './store/sqlite/database-file.ts'
export { StoreTrouble } from './store/store.ts'
