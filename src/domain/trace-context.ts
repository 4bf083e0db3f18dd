/**
 * The context of a trace by W3C Trace Context: the place in a trace that further spans belong to. As one text, it is the
 * `traceparent` alone, or followed by a space and the `tracestate`.
 */
export type TraceContext = string

/** The context as the two headers that carry it. */
interface TraceHeaders {
  readonly traceparent: string
  readonly tracestate: string | null
}

type Header = string | readonly string[] | undefined

const parentLength = 55
/** Version, trace id, parent id and flags; a later version may add fields behind them. */
const parentForm = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/
/** The flags that this version knows: sampled, and random trace id. */
const knownFlags = 0x03

/**
 * The longest state that is kept. W3C asks for 512 characters at least; of a longer state nothing is kept, since entries
 * may be dropped only as a whole and only some vendor knows which one matters.
 */
const stateLength = 512
const stateEntries = 32
const stateEntryForm =
  /^(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]$/

/** Reads the headers of a request. Null without a valid `traceparent`; an invalid `tracestate` is left out. */
export function readTraceContext(traceparent: Header, tracestate: Header): TraceContext | null {
  if (typeof traceparent !== 'string') return null
  const parts = parentForm.exec(traceparent.trim())
  if (parts === null) return null
  const [, version, traceId = '', parentId = '', flags = '', rest] = parts
  if (version === 'ff' || (version === '00' && rest !== undefined)) return null
  if (/^0+$/.test(traceId) || /^0+$/.test(parentId)) return null
  const state = readState(tracestate)
  const known = (Number.parseInt(flags, 16) & knownFlags).toString(16).padStart(2, '0')
  return writeTraceContext({ traceparent: `00-${traceId}-${parentId}-${known}`, tracestate: state })
}

function readState(tracestate: Header): string | null {
  if (tracestate === undefined) return null
  // Several headers are one list.
  const text = typeof tracestate === 'string' ? tracestate : tracestate.join(',')
  if (text.length > 2 * stateLength) return null
  const entries = text
    .split(',')
    .map((entry) => entry.replace(/^[ \t]+|[ \t]+$/g, ''))
    .filter((entry) => entry !== '')
  const keys = new Set(entries.map((entry) => entry.slice(0, entry.indexOf('='))))
  const isValid = entries.length <= stateEntries && keys.size === entries.length
  const state = entries.join(',')
  if (!isValid || state.length > stateLength || !entries.every((entry) => stateEntryForm.test(entry))) return null
  return state === '' ? null : state
}

/** The headers of a context. */
export function traceHeadersOf(context: TraceContext): TraceHeaders {
  const state = context.slice(parentLength + 1)
  return { traceparent: context.slice(0, parentLength), tracestate: state === '' ? null : state }
}

export function writeTraceContext({ traceparent, tracestate }: TraceHeaders): TraceContext {
  return tracestate === null ? traceparent : `${traceparent} ${tracestate}`
}
