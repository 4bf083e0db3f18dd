import { eventTypes } from '../../features/event-types/rows.ts'
import type { Store } from '../store.ts'
import { access } from './access.ts'
import { applications } from './applications.ts'
import { auditing, signing } from './auditing.ts'
import { deadFiling } from './dead-filing.ts'
import { deadLetters } from './dead-letters.ts'
import { endpoints } from './endpoints.ts'
import { erasing } from './erasing.ts'
import { foldedNames } from './folded-names.ts'
import { history } from './history.ts'
import { intakeReads } from './intake.ts'
import { lanes } from './lanes.ts'
import { messages } from './messages.ts'
import { alerts, notices } from './notices.ts'
import type { Port } from './port.ts'
import { queues } from './queues.ts'
import { removals } from './removals.ts'
import { type RemoveHistory, retention } from './retention.ts'
import { type PublishAlong, schedules } from './schedules.ts'
import { sources } from './sources.ts'
import { subjects } from './subjects.ts'
import { tasks } from './tasks.ts'
import { webSessions } from './web-sessions.ts'
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
