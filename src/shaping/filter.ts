import {
  type ASTNode,
  Environment,
  ParseError,
  type ParseResult,
  TypeError as TypeMismatch,
} from '@marcbachmann/cel-js'
import type { Clock } from '../domain/clock.ts'
import type { MessageSummary } from '../domain/delivery.ts'
import { type Sliced, Turns } from '../domain/turns.ts'
import { filterLimit } from '../features/endpoints/noun.ts'
import { Outline } from '../json/outline.ts'
import type { Store } from '../store/store.ts'
import { type Charge, findCosts, type Refusal } from './filter-cost.ts'

/** The parts of a message that a filter reads. */
export interface Filterable {
  /** Null for a body that is not JSON. */
  readonly payload: unknown
  readonly eventType: string
  readonly eventId: string | null
  readonly channels: readonly string[] | null
  readonly tags: readonly string[] | null
}

/** An expression over messages. */
export interface Filter {
  /** Whether the message passes. It does not when the expression fails, such as for a missing field. */
  passes(message: Filterable): boolean
  /** Why the expression failed; null when it did not. */
  failure(message: Filterable): string | null
  /** The most steps of about 50 ns that it may take. Counting stops beyond `limit`. */
  steps(message: Filterable, limit?: number): number
}

/** Steps that a filter may take for one message: it cannot be interrupted, and all other work waits meanwhile. */
export const filterStepsLimit = 500_000

const tooLarge = 'the payload is too large for this filter'

/** The text is not a valid filter. */
export class FilterError extends Error {
  override readonly name = 'FilterError'
  /** Where, in characters from 0; undefined when the whole text is wrong. */
  readonly position: number | undefined

  constructor(message: string, position: number | undefined) {
    super(message)
    this.position = position
  }
}

const environment = new Environment({
  homogeneousAggregateLiterals: false,
  limits: { maxAstNodes: 300, maxDepth: 32, maxListElements: 100, maxMapEntries: 20, maxCallArguments: 3 },
})
  .registerVariable('payload', 'dyn')
  .registerVariable('eventType', 'string')
  .registerVariable('eventId', 'dyn')
  .registerVariable('channels', 'list<string>')
  .registerVariable('tags', 'list<string>')

/**
 * Reads a filter: a condition in CEL (the Common Expression Language) over `payload`, `eventType`, `eventId`, `channels`
 * and `tags`, without functions that could take long. Throws `FilterError` when the text is not one.
 */
export function checkFilter(text: string): Filter {
  if (text.length > filterLimit) throw new FilterError(`is longer than ${filterLimit} characters`, undefined)
  const { evaluate, ast } = parse(text)
  // Before the check, which rewrites the tree.
  const { refusal, fixed, charges } = findCosts(ast)
  if (refusal !== undefined) throw explained(text, refusal)
  const checked = evaluate.check()
  if (checked.error !== undefined) throw asFilterError(text, checked.error)
  if (checked.type !== 'bool' && checked.type !== 'dyn') {
    throw new FilterError(`is ${article(checked.type ?? '')}, not a condition`, undefined)
  }

  function steps({ payload }: Filterable, limit = filterStepsLimit): number {
    let sum = fixed
    for (const each of charges) {
      if (sum > limit) break
      sum += stepsOf(each, payload, limit - sum)
    }
    return sum
  }

  function failure(message: Filterable): { answer: unknown; error: string | null } {
    if (steps(message) > filterStepsLimit) return { answer: false, error: tooLarge }
    const { stackTraceLimit } = Error
    // An element of a list may fail the condition with an error: 8 µs each with a trace, 1 µs without.
    Error.stackTraceLimit = 0
    try {
      const { payload, eventType, eventId, channels, tags } = message
      const answer = evaluate({ payload, eventType, eventId, channels: channels ?? [], tags: tags ?? [] })
      return { answer, error: typeof answer === 'boolean' ? null : 'it is neither true nor false' }
    } catch (error) {
      // An expression that a payload makes fail does not pass it.
      return { answer: false, error: summaryOf(error) }
    } finally {
      Error.stackTraceLimit = stackTraceLimit
    }
  }

  return {
    passes: (message) => failure(message).answer === true,
    failure: (message) => failure(message).error,
    steps,
  }
}

/** A stored filter. If this version refuses it, no message passes. */
export function readFilter(text: string): Filter {
  try {
    return checkFilter(text)
  } catch (error) {
    if (!(error instanceof FilterError)) throw error
    return { passes: () => false, failure: () => error.message, steps: () => 0 }
  }
}

function parse(text: string): { evaluate: ParseResult; ast: ASTNode } {
  try {
    const evaluate = environment.parse(text)
    return { evaluate, ast: evaluate.ast }
  } catch (error) {
    if (error instanceof ParseError || error instanceof TypeMismatch) throw asFilterError(text, error)
    throw error
  }
}

function asFilterError(text: string, error: ParseError | TypeMismatch): FilterError {
  return explained(text, { message: error.summary, position: error.range?.start })
}

function explained(text: string, { message, position }: Refusal): FilterError {
  const sentence = `${message.charAt(0).toLowerCase()}${message.slice(1)}`
  if (position === undefined) return new FilterError(sentence, undefined)
  const before = text.slice(0, position).split('\n')
  const column = (before.at(-1) ?? '').length + 1
  return new FilterError(`${sentence} (line ${before.length}, column ${column})`, position)
}

function article(type: string): string {
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`
}

function summaryOf(error: unknown): string {
  if (error !== null && typeof error === 'object' && 'summary' in error) return String(error.summary)
  return error instanceof Error ? error.message : String(error)
}

/** The steps of one charge for a payload. Counting stops beyond `limit`. */
function stepsOf({ path, elements, values, characters }: Charge, payload: unknown, limit: number): number {
  const part = partAt(payload, path)
  if (typeof part === 'string') return values + elements + characters * part.length
  if (part === null || typeof part !== 'object') return values + elements
  const length = elements === 0 ? 0 : Array.isArray(part) ? part.length : Object.keys(part).length
  let sum = elements * length
  if (values === 0 && characters === 0) return sum
  const left: unknown[] = [part]
  while (left.length > 0 && sum <= limit) {
    const next = left.pop()
    sum += values
    if (typeof next === 'string') sum += characters * next.length
    else if (next !== null && typeof next === 'object') {
      // A list longer than the limit is not copied to be counted.
      sum += Array.isArray(next) && next.length > limit ? next.length : 0
      if (sum > limit) break
      for (const inner of Object.values(next)) left.push(inner)
    }
  }
  return sum
}

/** The value at a path; undefined when there is none. */
function partAt(payload: unknown, path: readonly string[]): unknown {
  let part = payload
  for (const step of path) {
    if (part === null || typeof part !== 'object' || !Object.hasOwn(part, step)) return undefined
    part = (part as Record<string, unknown>)[step]
  }
  return part
}

/** Bodies that are read from the store at once: 16 of 1 MB took up to 55 ms of one turn. */
const bodiesAtOnce = 4

/**
 * Runs a filter on stored messages, in turns between which other work goes on. The answers are keys; `unfiltered` are
 * messages that the filter would take too long for, so that it was not run for them.
 */
export async function filterMessages(
  store: Pick<Store, 'loadMessages'>,
  clock: Clock,
  filter: Filter,
  summaries: readonly MessageSummary[],
) {
  const passed = new Set<number>()
  const unfiltered = new Set<number>()
  for (let i = 0; i < summaries.length; i += bodiesAtOnce) {
    const chunk = summaries.slice(i, i + bodiesAtOnce)
    const bodies = new Map((await store.loadMessages(chunk.map(({ key }) => key))).map(({ key, body }) => [key, body]))
    await Turns.by(clock).run(each(chunk, bodies))
  }
  return { passed, unfiltered }

  function* each(chunk: readonly MessageSummary[], bodies: ReadonlyMap<number, Uint8Array>): Sliced<void> {
    for (const summary of chunk) {
      const body = bodies.get(summary.key)
      if (body === undefined) continue
      const answer = yield* run(filter, summary, body)
      if (answer === 'unknown') unfiltered.add(summary.key)
      else if (answer) passed.add(summary.key)
      yield
    }
  }
}

function* run(filter: Filter, summary: MessageSummary, body: Uint8Array): Sliced<boolean | 'unknown'> {
  const json = yield* Outline.of(body)
  if (json?.isParsable === false) return 'unknown'
  const message = { ...summary, payload: json?.parse() ?? null }
  yield
  return filter.steps(message) > filterStepsLimit ? 'unknown' : filter.passes(message)
}
