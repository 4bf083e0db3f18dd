import type { Access } from '../access.ts'
import type { Auditing } from '../auditing.ts'
import type { Browsing } from '../browsing.ts'
import type { Applications, Endpoints } from '../configuration.ts'
import type { EventTypes } from '../event-types.ts'
import type { Heads } from '../heads.ts'
import type { History } from '../history.ts'
import type { Intake } from '../intake.ts'
import type { Leading } from '../leading.ts'
import type { Notices } from '../notices.ts'
import type { Regions } from '../regions.ts'
import type { Schedules } from '../schedules.ts'
import type { Standing } from '../standing.ts'
import type { Statistics } from '../statistics.ts'
import type { Tasks } from '../tasks.ts'
import type { Transferring } from '../transferring.ts'
import { access } from './access.ts'
import { applications } from './applications.ts'
import { auditing } from './auditing.ts'
import { deadLetters } from './dead-letters.ts'
import { endpoints } from './endpoints.ts'
import { eventTypes } from './event-types.ts'
import { lanes } from './lanes.ts'
import { leading } from './leading.ts'
import { messages } from './messages.ts'
import { notices } from './notices.ts'
import type { Methods, Port } from './port.ts'
import { regions } from './regions.ts'
import { type PublishAlong, schedules } from './schedules.ts'
import { statistics } from './statistics.ts'
import { subscriptions } from './subscriptions.ts'
import { tasks } from './tasks.ts'
import { waiting } from './waiting.ts'

/** The parts of the store that are written once, for both databases. */
export interface Administration
  extends Applications,
    Endpoints,
    Regions,
    EventTypes,
    Access,
    Auditing,
    Notices,
    Leading,
    Statistics,
    Schedules,
    Tasks,
    Browsing,
    History,
    Transferring,
    Standing,
    Heads,
    Pick<Intake, 'subscriptions' | 'surveyWaiting'> {}

export function administration(port: Port, publishAlong: PublishAlong): Methods<Administration> {
  return {
    ...applications(port),
    ...endpoints(port),
    ...regions(port),
    ...eventTypes(port),
    ...access(port),
    ...auditing(port),
    ...notices(port),
    ...leading(port),
    ...statistics(port),
    ...schedules(port, publishAlong),
    ...tasks(port),
    ...messages(port),
    ...deadLetters(port),
    ...lanes(port),
    ...subscriptions(port),
    ...waiting(port),
  }
}
