import { describe } from 'node:test'
import { access } from './access.ts'
import { alerts } from './alerts.ts'
import { appShares } from './app-shares.ts'
import { auditing } from './auditing.ts'
import { bounding } from './bounding.ts'
import { browsing } from './browsing.ts'
import { callerTransaction } from './caller-transaction.ts'
import { coalescing } from './coalescing.ts'
import { condition } from './condition.ts'
import { configuration } from './configuration.ts'
import { deadFiling } from './dead-filing.ts'
import { delivering } from './delivering.ts'
import { dueLanes } from './due-lanes.ts'
import { eventTypes } from './event-types.ts'
import { fanOut } from './fan-out.ts'
import { foldedNames } from './folded-names.ts'
import { fronts } from './fronts.ts'
import type { Open } from './harness.ts'
import { health } from './health.ts'
import { history } from './history.ts'
import { idempotency } from './idempotency.ts'
import { inbox } from './inbox.ts'
import { intake } from './intake.ts'
import { lanes } from './lanes.ts'
import { leading } from './leading.ts'
import { notices } from './notices.ts'
import { ordering } from './ordering.ts'
import { ownership } from './ownership.ts'
import { planned } from './planned.ts'
import { reconciling } from './reconciling.ts'
import { regions } from './regions.ts'
import { removals } from './removals.ts'
import { replaying } from './replaying.ts'
import { retention } from './retention.ts'
import { schedules } from './schedules.ts'
import { settling } from './settling.ts'
import { snapshots } from './snapshots.ts'
import { sources } from './sources.ts'
import { statistics } from './statistics.ts'
import { subjects } from './subjects.ts'
import { sums } from './sums.ts'
import { tasks } from './tasks.ts'
import { transferring } from './transferring.ts'
import { views } from './views.ts'
import { waiting } from './waiting.ts'
import { webSessions } from './web-sessions.ts'

/** The promises of every store. `open` makes a fresh, empty store for each test. */
export function conformance(open: Open): void {
  describe('condition', () => condition(open))
  describe('configuration', () => configuration(open))
  describe('folded names', () => foldedNames(open))
  describe('access', () => access(open))
  describe('web sessions', () => webSessions(open))
  describe('auditing', () => auditing(open))
  describe('notices', () => notices(open))
  describe('alerts', () => alerts(open))
  describe('intake', () => intake(open))
  describe('idempotency', () => idempotency(open))
  describe('inbox', () => inbox(open))
  describe('coalescing', () => coalescing(open))
  describe('fan-out', () => fanOut(open))
  describe('planned', () => planned(open))
  describe('waiting', () => waiting(open))
  describe('ownership', () => ownership(open))
  describe('lanes', () => lanes(open))
  describe('due lanes', () => dueLanes(open))
  describe('fronts', () => fronts(open))
  describe('shares of applications', () => appShares(open))
  describe('schedules', () => schedules(open))
  describe('sources', () => sources(open))
  describe('views', () => views(open))
  describe('leading', () => leading(open))
  describe('retention', () => retention(open))
  describe('health', () => health(open))
  describe('reconciling', () => reconciling(open))
  describe('delivering', () => delivering(open))
  describe('settling', () => settling(open))
  describe('ordering', () => ordering(open))
  describe('bounding', () => bounding(open))
  describe('history', () => history(open))
  describe('regions', () => regions(open))
  describe('removals', () => removals(open))
  describe('event types', () => eventTypes(open))
  describe('statistics', () => statistics(open))
  describe('snapshots', () => snapshots(open))
  describe('sums', () => sums(open))
  describe('a transaction of the caller', () => callerTransaction(open))
  describe('browsing', () => browsing(open))
  describe('replaying', () => replaying(open))
  describe('dead filing', () => deadFiling(open))
  describe('transferring', () => transferring(open))
  describe('tasks', () => tasks(open))
  describe('subjects', () => subjects(open))
}
