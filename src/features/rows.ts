import { appShares } from '../store/sql/app-shares.ts'
import { foldedNames } from '../store/sql/folded-names.ts'
import { intakeReads } from '../store/sql/intake.ts'
import { lanes } from '../store/sql/lanes.ts'
import { messages } from '../store/sql/messages.ts'
import { queues } from '../store/sql/pending-rows.ts'
import type { Port } from '../store/sql/port.ts'
import { removals } from '../store/sql/removals.ts'
import { type RemoveHistory, retention } from '../store/sql/retention.ts'
import { leading } from '../store/sql/workers.ts'
import type { Store } from '../store/store.ts'
import { access } from './access/rows.ts'
import { applications } from './applications/rows.ts'
import { auditing, signing } from './audit/rows.ts'
import { deadFiling } from './dead-file/rows.ts'
import { deadLetters } from './dead-letters/rows.ts'
import { endpoints } from './endpoints/rows.ts'
import { erasing } from './erasure/content-rows.ts'
import { subjects } from './erasure/rows.ts'
import { eventTypes } from './event-types/rows.ts'
import { history } from './history/rows.ts'
import { inbox } from './inbox/rows.ts'
import { alerts, notices } from './notices/rows.ts'
import { type PortalLooks, portalLooks } from './portal/rows.ts'
import { type PublishAlong, type Schedules, schedules } from './schedules/rows.ts'
import { webSessions } from './sessions/rows.ts'
import { type Sources, sources } from './sources/rows.ts'
import { tasks } from './tasks/rows.ts'
import { type Views, views } from './views/rows.ts'

/** The methods of the nouns that `features/nouns.ts` lists. */
export interface NounStores extends PortalLooks, Schedules, Sources, Views {}

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
    ...appShares(port),
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
    ...portalLooks(port),
    ...tasks(port),
    ...views(port),
    ...subjects(port),
    ...signing(port),
    ...history(port),
    ...inbox(port),
    ...alerts(port),
    ...notices(port),
    ...leading(port),
  }
}
