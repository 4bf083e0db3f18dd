import type { Clock } from '../../domain/clock.ts'
import { meetsReplay } from '../../domain/delivery.ts'
import { Matcher } from '../../domain/match.ts'
import { filterMessages, readFilter } from '../../shaping/filter.ts'
import type { Store } from '../../store/store.ts'
import type { EndpointSpan, Paced, ReplayFilter, Task } from '../tasks/rules.ts'
import { keysOf, messagesOf, rowsPerStep, type Step, walk } from '../tasks/step.ts'

export async function recover(store: Store, task: Task, input: EndpointSpan & Paced): Promise<Step> {
  const range = { ...keysOf(input), after: task.cursor?.[0] ?? null, order: 'ascending', limit: rowsPerStep } as const
  const letters = await store.listDeadOf(input.endpoint, range)
  return walk(task, input, letters, {
    use: 'revive',
    deliveryOf: (letter) => letter,
    cursorAt: ({ message }) => [message],
  })
}

export async function replayMissing(
  store: Store,
  clock: Clock,
  task: Task,
  input: EndpointSpan & Paced,
): Promise<Step> {
  const [endpoint] = await store.loadEndpoints([input.endpoint])
  const summaries = endpoint === undefined ? [] : await messagesOf(store, task, input)
  const matcher = new Matcher(endpoint === undefined ? [] : [{ ...endpoint, endpoint: endpoint.key }])
  const wanted = summaries.filter(
    (summary) => !summary.expunged && matcher.match(summary.eventType, summary.channels).length > 0,
  )
  const keys = wanted.map((summary) => summary.key)
  const accepted = new Set(await store.acceptedFor(input.endpoint, keys))
  const deliveries = keys.filter((key) => !accepted.has(key)).map((message) => ({ endpoint: input.endpoint, message }))
  const latest = await store.latestAttempts(deliveries)
  const missing = new Map(deliveries.filter((_, i) => latest[i] === undefined).map((each) => [each.message, each]))
  const filter = endpoint?.flow.filter ?? null
  let unfiltered: ReadonlySet<number> = new Set()
  if (filter !== null) {
    const untried = wanted.filter(({ key }) => missing.has(key))
    const answers = await filterMessages(store, clock, readFilter(filter), untried)
    for (const { key } of untried) if (!answers.passed.has(key)) missing.delete(key)
    unfiltered = answers.unfiltered
  }
  return walk(task, input, summaries, {
    deliveryOf: ({ key }) => missing.get(key),
    cursorAt: ({ key }) => [key],
    isUnfiltered: ({ key }) => unfiltered.has(key),
  })
}

export async function bulkReplay(store: Store, task: Task, input: EndpointSpan & ReplayFilter & Paced): Promise<Step> {
  const summaries = await messagesOf(store, task, input)
  const deliveries = summaries.map((summary) => ({ endpoint: input.endpoint, message: summary.key }))
  const latest = await store.latestAttempts(deliveries)
  return walk(task, input, summaries, {
    deliveryOf: (summary, i) => (meetsReplay(summary, latest[i], input) ? deliveries[i] : undefined),
    cursorAt: ({ key }) => [key],
  })
}
