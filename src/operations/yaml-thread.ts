import { parentPort, workerData } from 'node:worker_threads'
import { isMap, isScalar, LineCounter, parseDocument, visit } from 'yaml'

/** A thread that parses one YAML document and ends. `nouns/event-type-import.ts` starts it, and ends it when it takes too long. */

/** Aliases repeat the value that they point to: a few lines of them can stand for more than fits into memory. */
const aliasLimit = 100
const valueLimit = 100_000

/** The answer of the thread: the document as JSON, or a problem of it. */
export type Parsed = { readonly json: string } | { readonly problem: string }

class Problem extends Error {}

parentPort?.postMessage(parsed(workerData as string))

function parsed(text: string): Parsed {
  try {
    const value = parse(text)
    if (valuesIn(value, valueLimit) === 0) {
      throw new Problem(`must not stand for more than ${valueLimit} values, aliases included`)
    }
    return { json: JSON.stringify(value) }
  } catch (error) {
    if (error instanceof Problem) return { problem: error.message }
    // The parser recurses into nested values.
    if (error instanceof RangeError) return { problem: 'is nested too deep' }
    throw error
  }
}

function parse(text: string): unknown {
  const lineCounter = new LineCounter()
  const placeOf = (offset: number) => {
    const { line, col } = lineCounter.linePos(offset)
    return `line ${Math.max(1, line)}, column ${Math.max(1, col)}`
  }
  // The library finds duplicate keys in quadratic time, 46 s for 40,000 of them, and so it does pretty errors.
  const options = { version: '1.2', schema: 'core', uniqueKeys: false, prettyErrors: false, logLevel: 'error' } as const
  const document = parseDocument(text, { ...options, lineCounter })
  const [error] = document.errors
  // The library reports an overflow of the stack as an error of its own.
  if (error?.message.includes('call stack')) throw new RangeError(error.message)
  if (error !== undefined) throw new Problem(`is not valid YAML: ${placeOf(error.pos[0])}: ${error.message}`)
  visit(document, {
    Map(_, map) {
      const keys = new Set<unknown>()
      for (const { key } of map.items) {
        const name = isScalar(key) ? String(key.value) : key
        if (keys.has(name)) {
          throw new Problem(`has a key twice: ${placeOf(isScalar(key) ? (key.range?.[0] ?? 0) : 0)}: ${name}`)
        }
        keys.add(name)
      }
    },
  })
  if (!isMap(document.contents)) throw new Problem('must be a mapping')
  try {
    return document.toJS({ maxAliasCount: aliasLimit })
  } catch (error) {
    // An alias may point to nothing, or to too much.
    if (!(error instanceof ReferenceError)) throw error
    throw new Problem(`is not valid YAML: ${error.message}`)
  }
}

/** The number of values that may still come; 0 when the limit is passed. */
function valuesIn(value: unknown, left: number): number {
  if (typeof value !== 'object' || value === null) return left - 1
  let rest = left - 1
  for (const item of Object.values(value)) {
    if (rest <= 0) return 0
    rest = valuesIn(item, rest)
  }
  return Math.max(0, rest)
}
