import type { Clock } from '../domain/clock.ts'
import type { Store } from '../store/store.ts'
import { walkDead } from './dead-letters/steps.ts'
import type { CountedList } from './dead-letters/store.ts'
import { eraseContents, eraseSubject } from './erasure/steps.ts'
import { bulkReplay, recover, replayMissing } from './replays/steps.ts'
import { countDestinations, listSubscriptions } from './statistics/steps.ts'
import type { Chosen, DeadFilter, Task, TaskData } from './tasks/rules.ts'
import { keysOf, type Step } from './tasks/step.ts'

/** Counting the rows of a task stops here: some milliseconds of an index. */
const totalLimit = 100_000

/** Finds the next step of a task. It only reads; the store does the step in one transaction. */
export async function nextStep(store: Store, task: Task, clock: Clock): Promise<Step> {
  const list = task.cursor === null ? listOf(task) : undefined
  const total = list === undefined ? totalIn(task.data) : toTotal(await store.countListed(list, totalLimit))
  const step = await stepOf(store, task, clock)
  return { ...step, data: (done) => ({ ...step.data(done), ...total }) }
}

function stepOf(store: Store, task: Task, clock: Clock): Promise<Step> {
  const { work } = task
  switch (work.type) {
    case 'endpoint.recover':
      return recover(store, task, work.input)
    case 'endpoint.replay':
      return replayMissing(store, clock, task, work.input)
    case 'endpoint.bulk-replay':
      return bulkReplay(store, task, work.input)
    case 'dead.replay':
      return walkDead(store, task, work.input, 'revive')
    case 'dead.purge':
      return walkDead(store, task, work.input, 'purge')
    case 'application.purge_content':
      return eraseContents(store, task, work.input)
    case 'subject.erase':
      return eraseSubject(store, clock, task, work.input)
    case 'application.stats':
      return countDestinations(store, task, work.input)
    case 'event-type.aggregate':
      return listSubscriptions(store, task)
  }
}

/** The list that the task walks, where it can be counted. */
function listOf({ app, work }: Task): CountedList | undefined {
  switch (work.type) {
    case 'endpoint.recover':
      return { of: 'dead by message', endpoint: work.input.endpoint, ...keysOf(work.input) }
    case 'endpoint.replay':
    case 'endpoint.bulk-replay':
    case 'application.purge_content':
      return { of: 'messages', app: app as number, ...keysOf(work.input) }
    case 'dead.replay':
    case 'dead.purge': {
      const { message, endpoint, after: from, before: until, letters = null } = work.input as DeadFilter & Chosen
      return message === null && letters === null ? { of: 'dead', app, endpoint, from, until } : undefined
    }
    default:
      return undefined
  }
}

/** The length of that list, so that the progress of the task can be shown. */
function toTotal(count: number): TaskData {
  return count < totalLimit ? { total: count } : { totalAtLeast: count }
}

function totalIn({ total, totalAtLeast }: TaskData): TaskData {
  return total !== undefined ? { total } : totalAtLeast !== undefined ? { totalAtLeast } : {}
}
