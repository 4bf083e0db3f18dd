import type { Access } from '../access.ts'
import type { Auditing } from '../auditing.ts'
import type { Applications } from '../configuration.ts'
import type { EventTypes } from '../event-types.ts'
import type { Leading } from '../leading.ts'
import type { Notices } from '../notices.ts'
import type { Regions } from '../regions.ts'
import type { Statistics } from '../statistics.ts'
import { access } from './access.ts'
import { applications } from './applications.ts'
import { auditing } from './auditing.ts'
import { eventTypes } from './event-types.ts'
import { leading } from './leading.ts'
import { notices } from './notices.ts'
import type { Methods, Port } from './port.ts'
import { regions } from './regions.ts'
import { statistics } from './statistics.ts'

/** The parts of the store that are written once, for both databases. */
export interface Administration
  extends Applications,
    Regions,
    EventTypes,
    Access,
    Auditing,
    Notices,
    Leading,
    Statistics {}

export function administration(port: Port): Methods<Administration> {
  return {
    ...applications(port),
    ...regions(port),
    ...eventTypes(port),
    ...access(port),
    ...auditing(port),
    ...notices(port),
    ...leading(port),
    ...statistics(port),
  }
}
