import { type Static, Type } from 'typebox'
import { nullable } from './field.ts'
import { dateTime } from './instant.ts'

/** What counts deliveries per application: of those named, or of all. */
export const AppUsageStatsIn = Type.Object({
  since: dateTime,
  until: dateTime,
  appIds: Type.Optional(nullable(Type.Array(Type.String({ maxLength: 256 }), { minItems: 1, maxItems: 1000 }))),
})
export type AppUsageStatsIn = Static<typeof AppUsageStatsIn>
