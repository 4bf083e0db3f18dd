import {
  type ASTNode,
  Environment,
  ParseError,
  type ParseResult,
  TypeError as TypeMismatch,
} from '@marcbachmann/cel-js'
import { findCosts, type Refusal } from './filter-cost.ts'

/** What a filter is asked about. */
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
  /** Whether it is true of the message. One that fails is true of nothing: a field is missing, or is something else. */
  passes(message: Filterable): boolean
  /** Why it failed; null when it did not. */
  failure(message: Filterable): string | null
  /** How many steps it may take at the most. */
  steps(message: Filterable): number
}

/** The longest filter, in characters. */
export const filterLimit = 2000

/** What a filter may do with one message at the most, in steps of about 50 ns. */
const stepsLimit = 1_000_000

/** An expression is no filter. */
export class FilterError extends Error {
  override readonly name = 'FilterError'
  /** Where, in characters from 0; undefined when it is about the whole. */
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
 * and `tags`, without what could take long. Throws `FilterError` when the text is none.
 */
export function checkFilter(text: string): Filter {
  if (text.length > filterLimit) throw new FilterError(`is longer than ${filterLimit} characters`, undefined)
  const { evaluate, ast } = parse(text)
  // Before it is checked, which rewrites the tree.
  const { refusal, costly } = findCosts(ast)
  if (refusal !== undefined) throw explained(text, refusal)
  const checked = evaluate.check()
  if (checked.error !== undefined) throw asFilterError(text, checked.error)
  if (checked.type !== 'bool' && checked.type !== 'dyn') {
    throw new FilterError(`is ${article(checked.type ?? '')}, not a condition`, undefined)
  }

  const steps = ({ payload }: Filterable) => (costly === 0 ? 0 : costly * valuesIn(payload))

  function failure(message: Filterable): { answer: unknown; error: string | null } {
    if (steps(message) > stepsLimit) {
      return { answer: false, error: 'the payload is too large for this filter' }
    }
    try {
      const { payload, eventType, eventId, channels, tags } = message
      const answer = evaluate({ payload, eventType, eventId, channels: channels ?? [], tags: tags ?? [] })
      return { answer, error: typeof answer === 'boolean' ? null : 'it is neither true nor false' }
    } catch (error) {
      // Whatever a payload does to an expression, it is not what the expression asks for.
      return { answer: false, error: summaryOf(error) }
    }
  }

  return {
    passes: (message) => failure(message).answer === true,
    failure: (message) => failure(message).error,
    steps,
  }
}

/** A filter that was checked when it was stored. One that this version would refuse is true of nothing. */
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

/** Payloads that were counted, so that many filters do not count one each. */
const counted = new WeakMap<object, number>()

/** How many values there are in a payload, itself included; counted no further than is needed. */
function valuesIn(payload: unknown): number {
  if (payload === null || typeof payload !== 'object') return 1
  const known = counted.get(payload)
  if (known !== undefined) return known
  const left: unknown[] = [payload]
  let count = 0
  while (left.length > 0 && count <= stepsLimit) {
    const next = left.pop()
    count++
    if (next !== null && typeof next === 'object') for (const inner of Object.values(next)) left.push(inner)
  }
  counted.set(payload, count)
  return count
}
