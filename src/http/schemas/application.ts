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
  /** For how long publishing the same again stores nothing: the same `dedupeKey`, or without one the same content. */
  dedupeSeconds: Type.Optional(nullable(integer(1, 7 * 86_400))),
  metadata: Type.Optional(Metadata),
})
export type ApplicationIn = Static<typeof ApplicationIn>

/** What changes an application: what is absent stays, null unsets. */
export const ApplicationPatch = Type.Partial(ApplicationIn)
export type ApplicationPatch = Static<typeof ApplicationPatch>

/** The fields that were given, in the store's words. */
export function toApplicationChange(input: ApplicationPatch): Partial<NewApplication> {
  const { name, uid, metadata, rateLimit, dedupeSeconds } = input
  const throttleRate = input.throttleRate === undefined ? rateLimit : input.throttleRate
  const change = { name, uid, throttleRate, dedupeSeconds, metadata }
  return Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined))
}

/** All that replacing sets, in the store's words; without a uid the one it has stays. */
export function toApplicationReplacement(input: ApplicationIn): Partial<NewApplication> {
  const { uid, ...rest } = toNewApplication(input)
  return input.uid === undefined ? rest : { ...rest, uid }
}

export function toNewApplication(input: ApplicationIn): NewApplication {
  return {
    name: input.name,
    uid: input.uid ?? null,
    throttleRate: input.throttleRate ?? input.rateLimit ?? null,
    dedupeSeconds: input.dedupeSeconds ?? null,
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
    dedupeSeconds: application.dedupeSeconds,
    metadata: application.metadata,
    createdAt: new Date(application.createdAt).toISOString(),
    updatedAt: new Date(application.updatedAt).toISOString(),
  }
}
