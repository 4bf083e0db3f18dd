import { Type } from 'typebox'
import { taskStatuses, taskTypes } from '../../domain/task.ts'
import { svixStatuses } from '../schemas/background-task.ts'
import { nullable } from '../schemas/field.ts'
import { Instant } from './field.ts'

const started = {
  id: Type.String(),
  status: Type.Enum([...svixStatuses]),
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
  state: Type.Enum([...taskStatuses], { description: 'As `status`, and whether it was paused or cancelled' }),
  perSecond: nullable(Type.Integer({ description: 'The pace of a replay; null for as fast as it can' })),
  createdAt: Instant,
  data: Type.Object(
    {},
    {
      additionalProperties: true,
      description:
        'Counts while it runs: `scanned` of `total` looked at, or of `totalAtLeast`. Its answer when it has one',
    },
  ),
})
