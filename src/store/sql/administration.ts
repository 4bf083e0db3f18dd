import type { Access } from '../access.ts'
import type { Auditing } from '../auditing.ts'
import type { Applications, Endpoints } from '../configuration.ts'
import type { EventTypes } from '../event-types.ts'
import type { Intake } from '../intake.ts'
import type { Leading } from '../leading.ts'
import type { Notices } from '../notices.ts'
import type { Regions } from '../regions.ts'
import type { Schedules } from '../schedules.ts'
import type { Statistics } from '../statistics.ts'
import type { Tasks } from '../tasks.ts'
import { access } from './access.ts'
import { applications } from './applications.ts'
import { auditing } from './auditing.ts'
import { endpoints } from './endpoints.ts'
import { eventTypes } from './event-types.ts'
import { leading } from './leading.ts'
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
    ...subscriptions(port),
    ...waiting(port),
  }
}
