import { Type } from 'typebox'
import { taskStatuses, taskTypes } from '../../domain/task.ts'
import { Instant } from './field.ts'

const started = {
  id: Type.String(),
  status: Type.Enum([...taskStatuses]),
  task: Type.Enum([...taskTypes]),
  updatedAt: Instant,
}

/** Work that was begun; it goes on in the background. */
export const TaskStartedOut = Type.Object(started)

/** The same, and which of the named applications there are not. */
export const AppUsageStatsOut = Type.Object({ ...started, unresolvedAppIds: Type.Array(Type.String()) })

/** Work in the background, and how far it has come. */
export const BackgroundTaskOut = Type.Object({
  ...started,
  data: Type.Object(
    {},
    { additionalProperties: true, description: 'Counts while it runs; its answer when it has one' },
  ),
})
