import type { MessageSummary } from '../domain/delivery.ts'
import type { Application, Endpoint } from '../domain/endpoint.ts'
import { Turns } from '../domain/turns.ts'
import { withFields } from '../json/exact.ts'
import type { SubjectSearch } from '../shaping/subjects.ts'
import type { Store } from '../store/store.ts'
import { oneLine } from './dead-letter-jsonl.ts'
import { statusesOf } from './nouns/attempt-list.ts'
import { shownStatus, statusTexts, toAttemptOut } from './nouns/attempt-schema.ts'
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
/** Deliveries of one message that are looked up at once. */
const deliveriesAtOnce = 500

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

  const [found] = await store.loadDestinations([head.key], Number.MAX_SAFE_INTEGER)
  const accepted = found?.endpoints ?? []
  for (const keys of inSteps(accepted)) {
    await turns.next()
    const known = new Map((await statusesOf(store, head, keys)).map((facts) => [facts.row, facts]))
    for (const key of keys) {
      const facts = known.get(key)
      yield line({
        type: 'delivery',
        msgId: head.id,
        endpointId: facts?.endpoint.id ?? null,
        url: facts?.endpoint.url ?? null,
        status: facts === undefined ? null : statusTexts[shownStatus(facts, true)],
      })
    }
  }
  const briefs = await store.attemptBriefsOf(head.key)
  for (const part of partsOf(briefs, ({ bytes }) => bytes)) {
    await turns.next()
    const endpoints = await endpointsOf(store, part)
    for (const attempt of await store.loadAttempts(part)) {
      const endpoint = attempt && endpoints.get(attempt.endpoint)
      if (attempt && endpoint) yield line({ type: 'attempt', ...toAttemptOut(attempt, head, endpoint, true) })
    }
  }
  const tried = briefs.map(({ endpoint }) => endpoint)
  for (const keys of inSteps([...new Set([...accepted, ...tried])])) {
    await turns.next()
    const dead = await store.deadAmong(keys.map((endpoint) => ({ endpoint, message: head.key })))
    const endpoints = await endpointsOf(store, dead)
    for (const { endpoint: key } of dead) {
      const letter = await store.findDead(key, head.key)
      if (letter) yield line({ type: 'dead_letter', ...toDeadOut(letter, head, endpoints.get(key), app.id) })
    }
  }
}

function* inSteps(keys: readonly number[]): Generator<readonly number[]> {
  for (let at = 0; at < keys.length; at += deliveriesAtOnce) yield keys.slice(at, at + deliveriesAtOnce)
}

/** The endpoints of deliveries by key, also deleted ones. */
async function endpointsOf(
  store: Store,
  deliveries: readonly { readonly endpoint: number }[],
): Promise<Map<number, Endpoint>> {
  const keys = [...new Set(deliveries.map(({ endpoint }) => endpoint))]
  return new Map((await store.recallEndpoints(keys)).map((endpoint) => [endpoint.key, endpoint]))
}

function line(value: object): Buffer {
  return Buffer.concat([Buffer.from(JSON.stringify(value)), newLine])
}
