import { type Static, Type } from 'typebox'
import type { Application } from '../../domain/endpoint.ts'
import type { NewApplication } from '../../store/store.ts'
import { integer, Metadata, nullable, uid } from './field.ts'

/** What creates an application. */
export const ApplicationIn = Type.Object({
  name: Type.String({ minLength: 1, maxLength: 1024 }),
  uid: Type.Optional(uid('app')),
  throttleRate: Type.Optional(nullable(integer(1, 1_000_000))),
  /** Svix's older name for it. */
  rateLimit: Type.Optional(nullable(integer(1, 1_000_000))),
  metadata: Type.Optional(Metadata),
})
export type ApplicationIn = Static<typeof ApplicationIn>

export function toNewApplication(input: ApplicationIn): NewApplication {
  return {
    name: input.name,
    uid: input.uid ?? null,
    throttleRate: input.throttleRate ?? input.rateLimit ?? null,
    metadata: input.metadata ?? {},
  }
}

/** An application as callers see it. */
export function toApplicationOut(application: Application) {
  return {
    id: application.id,
    uid: application.uid,
    name: application.name,
    throttleRate: application.throttleRate,
    rateLimit: application.throttleRate,
    metadata: application.metadata,
    createdAt: new Date(application.createdAt).toISOString(),
    updatedAt: new Date(application.updatedAt).toISOString(),
  }
}
