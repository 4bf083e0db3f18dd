import { isMatched } from '../../domain/match.ts'
import type { DeliveryKey } from '../../store/messages.ts'
import type { Store } from '../../store/store.ts'
import { type Chosen, type DeadFilter, type Paced, type Task, unpackLetters } from '../tasks/rules.ts'
import { rowsPerStep, type Step, walk } from '../tasks/step.ts'
import { meetsDead } from './rules.ts'

export async function walkDead(
  store: Store,
  task: Task,
  filter: DeadFilter & Chosen & Paced,
  use: 'revive' | 'purge',
): Promise<Step> {
  if (filter.letters != null) return walkChosen(store, task, filter, unpackLetters(filter.letters))
  if (filter.message !== null) {
    const { endpoints, eventType } = await endpointsOf(store, task, filter.message, filter)
    const letters = await Promise.all(endpoints.map((key) => store.findDead(key, filter.message as number)))
    return walk(
      task,
      filter,
      letters.map((letter, i) => ({ letter, endpoint: endpoints[i] as number })),
      {
        use,
        countsAs: ({ letter }) => (letter === undefined ? 0 : 1),
        deliveryOf: ({ letter }) => (letter !== undefined && meetsDead(letter, eventType, filter) ? letter : undefined),
        cursorAt: ({ endpoint }) => [endpoint],
      },
    )
  }
  const [diedAt = 0, endpoint = 0, message = 0] = task.cursor ?? []
  const letters = await store.listDead(task.app, {
    endpoint: filter.endpoint,
    from: filter.after,
    until: filter.before,
    after: task.cursor === null ? null : { diedAt, endpoint, message },
    order: 'ascending',
    limit: rowsPerStep,
  })
  const { eventTypes } = filter
  const summaries =
    eventTypes === null ? [] : await store.loadSummaries([...new Set(letters.map((letter) => letter.message))])
  const types = new Map(summaries.map((summary) => [summary.key, summary.eventType]))
  return walk(task, filter, letters, {
    use,
    deliveryOf: (letter) => (meetsDead(letter, types.get(letter.message), filter) ? letter : undefined),
    cursorAt: (letter) => [letter.diedAt, letter.endpoint, letter.message],
  })
}

/** Replays chosen letters. Those that are gone, of another application, or have died again since, are left out. */
async function walkChosen(
  store: Store,
  task: Task,
  filter: DeadFilter & Paced,
  chosen: readonly DeliveryKey[],
): Promise<Step> {
  const [looked = 0] = task.cursor ?? []
  const part = chosen.slice(looked, looked + rowsPerStep)
  const found = new Map(
    (await store.summariseDead(part)).map((letter) => [`${letter.endpoint} ${letter.message}`, letter]),
  )
  const rows = part.map(({ endpoint, message }, i) => ({
    letter: found.get(`${endpoint} ${message}`),
    at: looked + i + 1,
  }))
  return walk(task, filter, rows, {
    use: 'revive',
    deliveryOf: ({ letter }) =>
      letter !== undefined && (task.app === null || letter.app === task.app) && meetsDead(letter, undefined, filter)
        ? letter
        : undefined,
    cursorAt: ({ at }) => [at],
  })
}

/** Endpoints at which a message may be dead, up to a step's worth: it was accepted for them, or tried there later. */
async function endpointsOf(
  store: Store,
  task: Task,
  message: number,
  { endpoint, eventTypes }: DeadFilter,
): Promise<{ readonly endpoints: readonly number[]; readonly eventType: string | undefined }> {
  const [summary] = await store.loadSummaries([message])
  const eventType = summary?.eventType
  const none = { endpoints: [], eventType }
  if (eventType === undefined || !isMatched(eventType, eventTypes)) return none
  const [after = -1] = task.cursor ?? []
  if (endpoint !== null) return { ...none, endpoints: endpoint > after ? [endpoint] : [] }
  const [accepted] = await store.loadDestinations([message], Number.MAX_SAFE_INTEGER)
  const all = new Set([...(accepted?.endpoints ?? []), ...(await store.attemptedEndpoints(message))])
  const endpoints = [...all]
    .filter((key) => key > after)
    .sort((a, b) => a - b)
    .slice(0, rowsPerStep)
  return { endpoints, eventType }
}
