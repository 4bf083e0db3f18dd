import { type Static, Type } from 'typebox'
import { capabilities } from '../access.ts'
import { ApplicationIn } from './application.ts'
import { integer, nullable } from './field.ts'
import { namePattern } from './pattern.ts'

const week = 7 * 24 * 3600
const sessionId = Type.String({ minLength: 1, maxLength: 256 })

/** What lets somebody into an application's portal. */
export const AppPortalAccessIn = Type.Object({
  /** Made with the access, unless it exists. */
  application: Type.Optional(nullable(ApplicationIn)),
  capabilities: Type.Optional(nullable(Type.Array(Type.Enum([...capabilities]), { minItems: 1, uniqueItems: true }))),
  /** The same as the one capability `ViewBase`. */
  readOnly: Type.Optional(nullable(Type.Boolean())),
  /** In seconds. */
  expiry: Type.Optional(nullable(integer(60, week))),
  sessionId: Type.Optional(nullable(sessionId)),
  /** Taken for the sake of Svix's clients. */
  featureFlags: Type.Optional(Type.Array(Type.String({ maxLength: 256, pattern: namePattern }))),
})
export type AppPortalAccessIn = Static<typeof AppPortalAccessIn>

/** What ends an application's tokens. */
export const ApplicationTokenExpireIn = Type.Object({
  /** In seconds from now; at once when absent. */
  expiry: Type.Optional(nullable(integer(0, week))),
  /** Only those of these sessions, when there are any. */
  sessionIds: Type.Optional(Type.Array(sessionId, { maxItems: 1000 })),
})
export type ApplicationTokenExpireIn = Static<typeof ApplicationTokenExpireIn>
