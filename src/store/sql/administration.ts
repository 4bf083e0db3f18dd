import { access } from '../../features/access/rows.ts'
import { applications } from '../../features/applications/rows.ts'
import { auditing, signing } from '../../features/audit/rows.ts'
import { deadFiling } from '../../features/dead-file/rows.ts'
import { deadLetters } from '../../features/dead-letters/rows.ts'
import { endpoints } from '../../features/endpoints/rows.ts'
import { erasing } from '../../features/erasure/content-rows.ts'
import { subjects } from '../../features/erasure/rows.ts'
import { eventTypes } from '../../features/event-types/rows.ts'
import { history } from '../../features/history/rows.ts'
import { alerts, notices } from '../../features/notices/rows.ts'
import { type PublishAlong, schedules } from '../../features/schedules/rows.ts'
import { webSessions } from '../../features/sessions/rows.ts'
import { sources } from '../../features/sources/rows.ts'
import { tasks } from '../../features/tasks/rows.ts'
import type { Store } from '../store.ts'
import { foldedNames } from './folded-names.ts'
import { intakeReads } from './intake.ts'
import { lanes } from './lanes.ts'
import { messages } from './messages.ts'
import type { Port } from './port.ts'
import { queues } from './queues.ts'
import { removals } from './removals.ts'
import { type RemoveHistory, retention } from './retention.ts'
import { leading } from './workers.ts'

/** The methods of the store that are written once, for both databases. */
export type Administration = Pick<Store, keyof ReturnType<typeof administration>>

/** The steps of those methods that each database writes by hand. */
export interface HandWritten {
  readonly publishAlong: PublishAlong
  readonly removeHistory: RemoveHistory
}

/** Makes those methods. */
export function administration(port: Port, { publishAlong, removeHistory }: HandWritten) {
  return {
    ...applications(port),
    ...endpoints(port),
    ...removals(port),
    ...retention(port, removeHistory),
    ...eventTypes(port),
    ...foldedNames(port),
    ...access(port),
    ...webSessions(port),
    ...auditing(port),
    ...messages(port),
    ...deadLetters(port),
    ...deadFiling(port),
    ...lanes(port),
    ...intakeReads(port),
    ...queues(port),
    ...erasing(port),
    ...schedules(port, publishAlong),
    ...sources(port),
    ...tasks(port),
    ...subjects(port),
    ...signing(port),
    ...history(port),
    ...alerts(port),
    ...notices(port),
    ...leading(port),
  }
}
