import { isMap, isScalar, LineCounter, parseDocument, visit } from 'yaml'
import { AppError } from '../domain/app-error.ts'
import { checkContents } from './body.ts'

/** Nothing else happens while it is parsed: about half a second at this length, two when it is made for taking long. */
const lengthLimit = 256 * 1024
/** Aliases stand for what they point to each time: a few lines of them can stand for more than fits into memory. */
const aliasLimit = 100
const valueLimit = 100_000

/** Reads YAML 1.2 as the JSON it stands for. Throws AppError, with the line, when it is none or stands for too much. */
export function readYaml(text: string, at: readonly string[]): unknown {
  if (text.length > lengthLimit) {
    throw new AppError('payload_too_large', `YAML must not be longer than ${lengthLimit} characters; send JSON.`)
  }
  return shallow(at, () => {
    const value = parse(text, at)
    if (valuesIn(value, valueLimit) === 0) {
      throw refusal(at, `must not stand for more than ${valueLimit} values, aliases included`)
    }
    return checkContents(value)
  })
}

function parse(text: string, at: readonly string[]): unknown {
  const lineCounter = new LineCounter()
  const placeOf = (offset: number) => {
    const { line, col } = lineCounter.linePos(offset)
    return `line ${Math.max(1, line)}, column ${Math.max(1, col)}`
  }
  // The library's own look for keys that come twice takes the square of their number: 46 s for 40,000 of them. So does
  // making its errors pretty.
  const options = { version: '1.2', schema: 'core', uniqueKeys: false, prettyErrors: false, logLevel: 'error' } as const
  const document = parseDocument(text, { ...options, lineCounter })
  const [error] = document.errors
  // The library makes an error of its own of a stack that overflows.
  if (error?.message.includes('call stack')) throw new RangeError(error.message)
  if (error !== undefined) throw refusal(at, `is not valid YAML: ${placeOf(error.pos[0])}: ${error.message}`)
  visit(document, {
    Map(_, map) {
      const keys = new Set<unknown>()
      for (const { key } of map.items) {
        const name = isScalar(key) ? String(key.value) : key
        if (keys.has(name)) {
          throw refusal(at, `has a key twice: ${placeOf(isScalar(key) ? (key.range?.[0] ?? 0) : 0)}: ${name}`)
        }
        keys.add(name)
      }
    },
  })
  if (!isMap(document.contents)) throw refusal(at, 'must be a mapping')
  try {
    return document.toJS({ maxAliasCount: aliasLimit })
  } catch (error) {
    // What an alias points to is looked up here: it may be nothing, or too much.
    if (!(error instanceof ReferenceError)) throw error
    throw refusal(at, `is not valid YAML: ${error.message}`)
  }
}

/** What nests so deep that the stack does not hold it is refused like anything else. */
function shallow<T>(at: readonly string[], work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    throw refusal(at, 'is nested too deep')
  }
}

/** How many more values there may be; 0 when there were too many. */
function valuesIn(value: unknown, left: number): number {
  if (typeof value !== 'object' || value === null) return left - 1
  let rest = left - 1
  for (const item of Object.values(value)) {
    if (rest <= 0) return 0
    rest = valuesIn(item, rest)
  }
  return Math.max(0, rest)
}

function refusal(at: readonly string[], message: string): AppError {
  return new AppError('validation', 'Some fields are not valid.', [{ at, message, type: 'yaml' }])
}
