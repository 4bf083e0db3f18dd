import { duration, type Kind, WrongValue } from '../runtime/setting-kinds.ts'

const day = 86_400_000
const wait = duration(0, 7 * day)
const growth = 2
const expected =
  'waits such as 5s,1m,1h; exponential:5s..1h,x12 for waits that double from 5s up to 1h, 12 attempts in all; none for one attempt; or JSON in the form of the API'

/** A retry policy in the API's form. Jitter and maximum age stay at their defaults, except in JSON. */
export const retryPolicy: Kind<object> = {
  placeholder: 'POLICY',
  parse(raw) {
    const text = String(raw).trim()
    if (text.startsWith('{')) return parseJson(text)
    if (text === 'none') return { waits: { kind: 'list', ms: [] } }
    const match = /^exponential:([^.,]+)\.\.([^.,]+),x(\d{1,3})$/.exec(text)
    if (match !== null) return exponential(match)
    return { waits: { kind: 'list', ms: text.split(',').map(waitMs) } }
  },
  show: (value) => JSON.stringify(value),
}

function exponential([, base = '', cap = '', attempts = '']: RegExpExecArray): object {
  const [baseMs, capMs, maxAttempts] = [waitMs(base), waitMs(cap), Number(attempts)]
  if (baseMs > capMs) throw new WrongValue(`${expected} (${base} is longer than ${cap})`)
  return { waits: { kind: 'exponential', baseMs, factor: growth, capMs, maxAttempts } }
}

function waitMs(text: string): number {
  try {
    return wait.parse(text.trim())
  } catch (error) {
    if (!(error instanceof WrongValue)) throw error
    throw new WrongValue(`${expected} (${JSON.stringify(text)} is not a duration from 0s to 7d)`)
  }
}

function parseJson(text: string): object {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) throw new WrongValue(`${expected} (${error.message})`)
    throw error
  }
}
