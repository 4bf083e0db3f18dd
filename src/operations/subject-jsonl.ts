import type { MessageSummary } from '../domain/delivery.ts'
import type { Application, Endpoint } from '../domain/endpoint.ts'
import { Turns } from '../domain/turns.ts'
import { withFields } from '../json/exact.ts'
import type { SubjectSearch } from '../shaping/subject-search.ts'
import { oneLine } from './dead-letter-jsonl.ts'
import { statusesOfEach } from './nouns/attempt-list.ts'
import { toAttemptOut } from './nouns/attempt-schema.ts'
import { toDeadOut } from './nouns/dead-letter-schema.ts'
import { partsOf } from './page.ts'
import type { Parts } from './parts.ts'
import { messagesAsBytes } from './payload.ts'

/**
 * Everything about a data subject as lines of JSON: each message that names the subject, followed by its deliveries, its
 * attempts and its dead letters. The last line is of the type `end`; without it, the export was cut off.
 */

const newLine = Buffer.from('\n')
/** Messages that are looked up at once. */
const messagesAtOnce = 20
/** Deliveries of one message that get a line; its attempts have lines without a limit. */
const deliveriesLimit = 1000

const statusTexts = ['success', 'pending', 'fail', 'sending', 'canceled'] as const

/** The lines for the messages behind `after`. */
export async function* subjectLines(
  parts: Parts,
  app: Application,
  search: SubjectSearch,
  after: number,
): AsyncGenerator<Buffer> {
  const { store } = parts
  let messages = 0
  let last: string | null = null
  for (let at: number | null = after; at !== null; ) {
    const page = await search.next(at, Number.MAX_SAFE_INTEGER, messagesAtOnce)
    for (const key of page.messages) {
      const [head] = await store.loadSummaries([key])
      if (head === undefined) continue
      yield* linesOfMessage(parts, app, head)
      messages++
      last = head.id
    }
    at = page.next
  }
  yield line({ type: 'end', messages, last })
}

async function* linesOfMessage(parts: Parts, app: Application, head: MessageSummary): AsyncGenerator<Buffer> {
  const { store, clock } = parts
  const turns = Turns.by(clock)
  await turns.next()
  const [message] = await messagesAsBytes(store, [head], true)
  yield Buffer.concat([oneLine(withFields(message as Buffer, { type: 'message' })), newLine])

  const [[found], [statuses]] = await Promise.all([
    store.loadDestinations([head.key], deliveriesLimit),
    statusesOfEach(store, clock, [head]),
  ])
  const briefs = await store.attemptBriefsOf(head.key)
  const keys = new Set([...(found?.endpoints ?? []), ...briefs.map(({ endpoint }) => endpoint)])
  const endpoints = new Map<number, Endpoint>()
  for (const endpoint of await store.recallEndpoints([...keys])) endpoints.set(endpoint.key, endpoint)
  for (const [i, key] of (found?.endpoints ?? []).entries()) {
    const status = statuses?.[i]
    yield line({
      type: 'delivery',
      msgId: head.id,
      endpointId: endpoints.get(key)?.id ?? null,
      url: endpoints.get(key)?.url ?? null,
      status: status === undefined ? null : (statusTexts[status] ?? null),
    })
  }
  for (const part of partsOf(briefs, ({ bytes }) => bytes)) {
    await turns.next()
    for (const attempt of await store.loadAttempts(part)) {
      const endpoint = attempt && endpoints.get(attempt.endpoint)
      if (attempt && endpoint) yield line({ type: 'attempt', ...toAttemptOut(attempt, head, endpoint, true) })
    }
  }
  for (const key of keys) {
    const letter = await store.findDead(key, head.key)
    if (letter) yield line({ type: 'dead_letter', ...toDeadOut(letter, head, endpoints.get(key), app.id) })
  }
}

function line(value: object): Buffer {
  return Buffer.concat([Buffer.from(JSON.stringify(value)), newLine])
}
