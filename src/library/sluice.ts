import type { DatabaseSync } from 'node:sqlite'
import type { Delivering } from '../compose/delivering.ts'
import { type Api, openParts, type Parts } from '../compose/parts.ts'
import { AppError } from '../domain/app-error.ts'
import type { SignatureProfile } from '../domain/flow.ts'
import type { SignatureHeaders } from '../features/applications/noun.ts'
import { batchLimit } from '../features/messages/schemas.ts'
import type { AcceptedWithin } from '../intake/publisher.ts'
import { inProcess, invalid, type Request, routeCalls, type TypedRequest } from '../operations/in-process.ts'
import { systemClock } from '../runtime/clock.ts'
import { configOf, exposureOf, oldKeyName } from '../runtime/config.ts'
import { openLog } from '../runtime/log.ts'
import { systemTerminal } from '../runtime/process.ts'
import { formatAddress } from '../runtime/setting-kinds.ts'
import type { Config, SettingName } from '../runtime/settings.ts'
import { openVerifier, type ReceivedHeaders } from '../wire/receiver.ts'
import { type Managed, managed } from './manage.ts'
import {
  type Attempts,
  attempts,
  type DeadLetters,
  deadLetters,
  type Explain,
  explain,
  type Lanes,
  lanes,
  type Messages,
  messages,
  type NewMessage,
  type PublishedMessage,
  published,
  readMessage,
} from './messages.ts'

/** The input form of a setting: durations and sizes are numbers or text such as `10s` and `1MiB`. */
type Written<T> = T extends number
  ? number | string
  : T extends boolean
    ? boolean
    : T extends readonly string[]
      ? readonly string[] | string
      : T extends string
        ? T
        : string

/** The settings of the command line, under the same names. Neither the environment nor a file is read. */
type Settings = { readonly [Name in SettingName]?: Written<NonNullable<Config[Name]>> | undefined }

/** The options of `openSluice`. */
export interface SluiceOptions extends Settings {
  /**
   * Whether this process delivers (default: true). On SQLite the delivering process owns the file; other processes open
   * it with `deliver: false` and publish into it.
   */
  readonly deliver?: boolean | undefined
}

/** The part of a `pg` client (a `Client` or one of a pool) that Sluice uses. */
export interface PostgresClient {
  query(text: string): Promise<{ readonly rows: readonly unknown[] }>
}

/** A message that exists once the transaction it was published in commits. */
export interface Enqueued extends PublishedMessage {
  /**
   * Reports the commit, so that the deliveries start at once. Without it they start within about 20 milliseconds on
   * SQLite and 20 seconds on Postgres, so a program that dies before the call loses nothing.
   */
  committed(): void
}

/** Sluice inside a program. */
export interface Sluice extends Managed, AsyncDisposable {
  readonly lanes: Lanes
  readonly deadLetters: DeadLetters
  readonly messages: Messages
  readonly attempts: Attempts
  /** The URL of the API, such as `http://127.0.0.1:8484`; undefined without `listen`. */
  readonly url: string | undefined

  /**
   * Publishes a message to an application, by its id or uid. Resolves once the message and its deliveries are on disk.
   * Rejects with AppError when nothing was stored. Only after `unavailable` the message may have been stored: publish it
   * again with the same `eventId`.
   */
  publish(app: string, message: NewMessage): Promise<PublishedMessage>

  /** Publishes all of these messages, up to 1,000, or none of them. */
  publishTogether(app: string, messages: readonly NewMessage[]): Promise<PublishedMessage[]>

  /**
   * Publishes within the caller's transaction: if it rolls back, nothing was published. The connection is to Sluice's own
   * file or database and has an open transaction; on SQLite use `begin immediate`.
   *
   * On SQLite it returns at once. Commit soon: until then, the deliveries of this process wait for the file.
   */
  publishWith(connection: DatabaseSync, app: string, message: NewMessage): Enqueued
  publishWith(connection: PostgresClient, app: string, message: NewMessage): Promise<Enqueued>

  /** Explains why an application, an endpoint or one delivery waits, and until when. */
  readonly explain: Explain

  /**
   * Any other operation of the API, by its path below `/api/v1`: `request('DELETE', '/app/acme')`. The answer has the type of
   * the operation.
   */
  readonly request: TypedRequest

  /** Ends attempts under way within `shutdownLimit`, releases the lanes and closes the store. */
  close(): Promise<void>
}

/**
 * Opens Sluice inside this program: the store, and by the options the deliveries and the HTTP API. Rejects with
 * `ConfigError`, which names every mistake, when an option is wrong.
 *
 *     const sluice = await openSluice({ store: 'sqlite:./data/sluice.db' })
 *     await sluice.publish('acme', { eventType: 'video.trending', payload: { views: 1000 } })
 *     await sluice.close()
 */
export async function openSluice({ deliver = true, ...settings }: SluiceOptions): Promise<Sluice> {
  // A program that embeds Sluice has its own log; by default only warnings and errors are written into it.
  const config = configOf({ logLevel: 'warn', ...settings })
  const log = openLog(config)
  const parts = await openParts(config, log, { role: deliver ? 'owner' : 'guest' })
  const running: Running = {}
  try {
    if (settings.listen !== undefined) {
      if (parts.adminKey !== null && config.adminKey === null) log.warn(oldKeyName)
      const exposure = exposureOf(config)
      if (exposure !== undefined) log.warn(exposure)
      running.api = await parts.openApi()
      running.url = `http://${formatAddress(await running.api.listen(config.listen))}`
    }
    if (deliver) running.delivering = await parts.startDelivering(`embedded (${systemTerminal.description})`)
  } catch (error) {
    await stop(parts, running, config)
    throw error
  }
  return sluiceOver(parts, running, config)
}

/** Everything that was started and must be stopped. */
interface Running {
  api?: Api
  url?: string
  delivering?: Delivering
}

async function stop({ store }: Parts, { api, delivering }: Running, { shutdownLimit }: Config): Promise<void> {
  try {
    await api?.close()
    await delivering?.stop(shutdownLimit)
  } finally {
    await store.close()
  }
}

function sluiceOver(parts: Parts, running: Running, config: Config): Sluice {
  const publisher = parts.publisher()
  const carryOut = inProcess(parts.services(), running.url)
  let closing: Promise<void> | undefined
  const refuseClosed = () => {
    if (closing !== undefined) throw new AppError('closed', 'This Sluice was closed; open another with openSluice.')
  }
  /** The refusal that an error is, counted. */
  const counted = (error: unknown) => {
    parts.meter.refuse(error instanceof AppError ? error.code : 'internal')
    return error
  }
  const request: Request = async (method, path, body) => {
    refuseClosed()
    return carryOut(method, path, body)
  }
  const call = routeCalls(request)
  const close = () => {
    closing ??= stop(parts, running, config)
    return closing
  }

  function publishWithin(connection: object, app: string, message: NewMessage): Enqueued | Promise<Enqueued> {
    refuseClosed()
    try {
      const item = readMessage(app, message, config.bodyLimit)
      const answer = publisher.publishWithin(connection, app, item)
      if (!(answer instanceof Promise)) return enqueued(answer)
      return answer.then(enqueued, (error) => Promise.reject(counted(error)))
    } catch (error) {
      throw counted(error)
    }
  }

  return {
    lanes: lanes(call),
    deadLetters: deadLetters(call),
    ...managed(call),
    messages: messages(call),
    attempts: attempts(call),
    explain: explain(call),
    request: request as TypedRequest,
    url: running.url,
    async publish(app, message) {
      refuseClosed()
      try {
        const { envelope, body } = readMessage(app, message, config.bodyLimit)
        return published(await publisher.publish(app, envelope, body))
      } catch (error) {
        throw counted(error)
      }
    },
    async publishTogether(app, messages) {
      refuseClosed()
      if (messages.length === 0) return []
      try {
        if (messages.length > batchLimit) throw tooManyMessages()
        const items = messages.map((message) => readMessage(app, message, config.bodyLimit))
        return (await publisher.publishTogether(app, items)).map(published)
      } catch (error) {
        throw counted(error)
      }
    },
    // A caller on Postgres gets a promise, and its refusals too.
    publishWith: (parts.store.traits.answersLater
      ? async (...given: Parameters<typeof publishWithin>) => publishWithin(...given)
      : publishWithin) as Sluice['publishWith'],
    close,
    [Symbol.asyncDispose]: close,
  }
}

function tooManyMessages(): AppError {
  return invalid([{ at: ['body', 'messages'], message: `must not be more than ${batchLimit}`, type: 'maxItems' }])
}

function enqueued({ committed, ...accepted }: AcceptedWithin): Enqueued {
  return { ...published(accepted), committed }
}

/** A request as it was received: the headers of `fetch` or a record of them, as Node has it, and the bytes of the body. */
export interface ReceivedWebhook {
  readonly headers: ReceivedHeaders
  readonly body: Uint8Array | string
}

export interface VerifyOptions {
  /** The endpoint's `signature`; Standard Webhooks by default. */
  readonly profile?: SignatureProfile | undefined
  /** The application's `signatureHeaders`, if it has its own. */
  readonly headers?: SignatureHeaders | undefined
}

/**
 * Verifies a received webhook with the secret of its endpoint. Rejects with `SignatureError`, which has a code and a
 * remedy, unless the webhook is genuine. The body must be the bytes that arrived, before any JSON parser.
 */
export async function verify(received: ReceivedWebhook, secret: string, options: VerifyOptions = {}): Promise<void> {
  await openVerifier({ ...options, secret, now: () => systemClock.now() }).verify(received)
}
