import { type Static, Type } from 'typebox'
import type { ApiKey } from '../../store/access.ts'
import { scopes } from '../access.ts'
import { instantOrNull } from './audit.ts'
import { integer, nullable } from './field.ts'

const year = 365 * 24 * 3600

/** What makes an API key. */
export const ApiKeyIn = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 256 }),
  scopes: Type.Array(Type.Enum([...scopes]), { minItems: 1, uniqueItems: true }),
  /** The id or uid of the one application it is for. */
  app: Type.Optional(nullable(Type.String({ minLength: 1, maxLength: 256 }))),
  expiresInSeconds: Type.Optional(nullable(integer(1, 10 * year))),
})
export type ApiKeyIn = Static<typeof ApiKeyIn>

/** A key as admins see it; its text was shown when it was made. */
export function toApiKeyOut(key: ApiKey) {
  return {
    id: key.id,
    name: key.name,
    scopes: key.scopes,
    appId: key.app?.id ?? null,
    createdAt: new Date(key.createdAt).toISOString(),
    expiresAt: instantOrNull(key.expiresAt),
    lastUsedAt: instantOrNull(key.lastUsedAt),
    revokedAt: instantOrNull(key.revokedAt),
  }
}
