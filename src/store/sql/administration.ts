import type { Store } from '../store.ts'
import { access } from './access.ts'
import { applications } from './applications.ts'
import { auditing } from './auditing.ts'
import { deadLetters } from './dead-letters.ts'
import { endpoints } from './endpoints.ts'
import { eventTypes } from './event-types.ts'
import { intakeReads } from './intake.ts'
import { lanes } from './lanes.ts'
import { leading } from './leading.ts'
import { messages } from './messages.ts'
import { notices } from './notices.ts'
import type { Port } from './port.ts'
import { regions } from './regions.ts'
import { type PublishAlong, schedules } from './schedules.ts'
import { tasks } from './tasks.ts'

/** The methods of the store that are written once, for both databases. */
export type Administration = Pick<Store, keyof ReturnType<typeof administration>>

/** Makes those methods. `publishAlong` is the one path that both databases write by hand and a schedule needs. */
export function administration(port: Port, publishAlong: PublishAlong) {
  return {
    ...applications(port),
    ...regions(port),
    ...endpoints(port),
    ...eventTypes(port),
    ...access(port),
    ...auditing(port),
    ...messages(port),
    ...deadLetters(port),
    ...lanes(port),
    ...intakeReads(port),
    ...schedules(port, publishAlong),
    ...tasks(port),
    ...notices(port),
    ...leading(port),
  }
}
