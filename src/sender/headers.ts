/** What Sluice or the protocol decides; an endpoint's own header of that name is left out. */
const reservedNames: ReadonlySet<string> = new Set([
  'accept-encoding',
  'connection',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'user-agent',
])
const reservedPrefixes = ['proxy-', 'webhook-']

const maxValueLength = 4096

/** What is wrong with a header an endpoint wants to be sent, as a sentence for its owner; undefined when nothing is. */
export function checkHeader(name: string, value: string): string | undefined {
  if (!isName(name)) return `The header name ${JSON.stringify(name.slice(0, 80))} is not valid.`
  if (isReserved(name)) return `The header ${name} is set by Sluice itself.`
  return isSendable(value) ? undefined : `The value of the header ${name} contains characters that cannot be sent.`
}

/**
 * An endpoint's headers as they go on the wire, name after value. Reserved ones are left out, so that none can be
 * overridden; undefined when one cannot be sent at all, such as one that holds a line break.
 */
export function wireHeaders(headers: Readonly<Record<string, string>>): string[] | undefined {
  const flat: string[] = []
  for (const [name, value] of Object.entries(headers)) {
    if (isName(name) && isReserved(name)) continue
    if (checkHeader(name, value) !== undefined) return undefined
    flat.push(name.toLowerCase(), value)
  }
  return flat
}

/**
 * The last check of a request's head, name after value, right before it is written: the index of the first entry that
 * must not be, or -1. Whatever let a value into the store, none with a line break leaves.
 */
export function unsendableAt(head: readonly string[], from = 0): number {
  for (let i = from; i < head.length; i++) {
    const text = head[i]
    if (typeof text !== 'string' || (i % 2 === 0 ? !isName(text) : unsendable.test(text))) return i
  }
  return -1
}

const unsendable = /[^\t\x20-\x7e\x80-\xff]/

function isName(name: string): boolean {
  return /^[a-z0-9-]{1,64}$/i.test(name)
}

function isReserved(name: string): boolean {
  const lower = name.toLowerCase()
  return reservedNames.has(lower) || reservedPrefixes.some((prefix) => lower.startsWith(prefix))
}

function isSendable(value: string): boolean {
  return typeof value === 'string' && value.length <= maxValueLength && !unsendable.test(value)
}
