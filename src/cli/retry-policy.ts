import { defaultRetryPolicy, jitters, type RetryPolicy, retryAfterRules } from '../domain/retry.ts'
import { choice, duration, type Kind, WrongValue } from '../runtime/setting-kinds.ts'

const day = 86_400_000
const wait = duration(0, 7 * day)
const growth = 2
const expected =
  'waits such as 5s,1m,1h; exponential:5s..1h,x12 for waits that double from 5s up to 1h, 12 attempts in all; none for one attempt; each with jitter=full, max-age=3d or retry-after=later behind it; or JSON in the form of the API'

/** A policy in the API's form. The server fills in absent fields. */
type PolicyIn = Pick<RetryPolicy, 'waits'> & Partial<RetryPolicy>

/** The words behind the waits: `jitter=full`. */
const words = {
  jitter: choice(jitters),
  'max-age': duration(1, 30 * day),
  'retry-after': choice(retryAfterRules),
}
type Word = keyof typeof words
const fieldOf = { jitter: 'jitter', 'max-age': 'maxAgeMs', 'retry-after': 'retryAfter' } as const

/** The flag form of a retry policy. `parse` reads every text that `show` prints; the server fills in absent fields. */
export const retryPolicy: Kind<object> = {
  placeholder: 'POLICY',
  parse(raw) {
    const text = String(raw).trim()
    if (text.startsWith('{')) return parseJson(text)
    const parts = text.split(',').map((part) => part.trim())
    const first = parts.findIndex((part) => part.includes('='))
    const waits = first === -1 ? parts : parts.slice(0, first)
    const options = first === -1 ? [] : parts.slice(first)
    return { waits: parseWaits(waits, takeFactor(options)), ...Object.assign({}, ...options.map(parseOption)) }
  },
  show: (value) => showPolicy(value as PolicyIn),
}

function parseWaits(parts: readonly string[], factor: number | undefined): RetryPolicy['waits'] {
  const match = /^exponential:([^.,]+)\.\.([^.,]+),x(\d{1,3})$/.exec(parts.join(','))
  if (match !== null) return exponential(match, factor ?? growth)
  if (factor !== undefined) throw new WrongValue(`${expected} (factor= belongs to exponential:)`)
  return { kind: 'list', ms: parts.length === 1 && parts[0] === 'none' ? [] : parts.map(waitMs) }
}

function exponential([, base = '', cap = '', attempts = '']: RegExpExecArray, factor: number): RetryPolicy['waits'] {
  const [baseMs, capMs, maxAttempts] = [waitMs(base), waitMs(cap), Number(attempts)]
  if (baseMs > capMs) throw new WrongValue(`${expected} (${base} is longer than ${cap})`)
  return { kind: 'exponential', baseMs, factor, capMs, maxAttempts }
}

/** Takes `factor=3` out of the options, if it is among them. */
function takeFactor(options: string[]): number | undefined {
  const at = options.findIndex((part) => part.startsWith('factor='))
  if (at === -1) return undefined
  const [part = ''] = options.splice(at, 1)
  const factor = Number(part.slice('factor='.length) || Number.NaN)
  if (!(factor >= 1 && factor <= 100)) throw new WrongValue(`${expected} (${part}: a factor is from 1 to 100)`)
  return factor
}

function parseOption(part: string): Partial<RetryPolicy> {
  const [name = '', value] = part.split('=', 2)
  if (!Object.hasOwn(words, name)) throw new WrongValue(`${expected} (${JSON.stringify(part)} is none of these)`)
  return { [fieldOf[name as Word]]: explained(part, () => words[name as Word].parse(value)) }
}

function waitMs(text: string): number {
  return explained(JSON.stringify(text), () => wait.parse(text))
}

/** Reads a part of a policy. A part that is wrong is named, and so are the forms of the whole. */
function explained<T>(part: string, parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    if (!(error instanceof WrongValue)) throw error
    throw new WrongValue(`${expected} (${part} is not ${error.message.replace(/such as .* from/, 'from')})`)
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

function showPolicy(policy: PolicyIn): string {
  const options = Object.entries(fieldOf).flatMap(([name, field]) => {
    const value = policy[field]
    if (value === undefined || value === defaultRetryPolicy[field]) return []
    return [`${name}=${(words[name as Word] as Kind<unknown>).show(value)}`]
  })
  return [...showWaits(policy.waits), ...options].join(',')
}

function showWaits(waits: RetryPolicy['waits']): string[] {
  if (waits.kind === 'list') return waits.ms.length === 0 ? ['none'] : waits.ms.map(wait.show)
  const { baseMs, factor, capMs, maxAttempts } = waits
  // A base above the cap waits for the cap.
  const range = `exponential:${wait.show(Math.min(baseMs, capMs))}..${wait.show(capMs)}`
  return [range, `x${maxAttempts}`, ...(factor === growth ? [] : [`factor=${factor}`])]
}
