/**
 * Headers that Sluice or the protocol sets, and those that clouds act on. Neither an endpoint nor a message can set one of
 * them. The content type is no such header: an endpoint's or a message's own stands in place of the one that it was published
 * with.
 */
const reserved =
  /^(accept-encoding|connection|content-(?!type$).*|expect|host|keep-alive|proxy-.*|svix-.*|te|trailer|transfer-encoding|upgrade|user-agent|webhook-.*|x-amz.*|x-azure-.*|x-fd-.*|x-goog.*|x-svix-.*)$/i

export const contentTypeHeader = 'content-type'

export function isContentTypeHeader(name: string): boolean {
  return name.toLowerCase() === contentTypeHeader
}

const sensitive =
  /(^|[-_.])(authorization|authenticate|auth|cookie2?|credentials?|key|password|secret|signature|token)([-_.]|$)/i

const maxValueLength = 4096
const unsendable = /[^\t\x20-\x7e\x80-\xff]/

/** Whether Sluice or the protocol sets the header of this name. */
export function isReservedHeader(name: string): boolean {
  return reserved.test(name)
}

/** Whether the value of a header is a secret, by its name. It is never shown again once it is set. */
export function isSensitiveHeader(name: string): boolean {
  return sensitive.test(name) || /api[-_.]?key/i.test(name)
}

/** A name of a header: a token of HTTP. `__proto__` is none, because records of headers are objects. */
export const headerNamePattern = "^(?!__proto__$)[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}$"
const headerName = new RegExp(headerNamePattern)

/** Whether a text is the name of a header. */
export function isHeaderName(text: string): boolean {
  return headerName.test(text)
}

/** A sentence about the problem of a header that an endpoint wants to be sent; undefined when there is none. */
export function checkHeader(name: string, value: string): string | undefined {
  if (!isHeaderName(name)) return `The header name ${JSON.stringify(name.slice(0, 80))} is not valid.`
  if (isReservedHeader(name)) return `The header ${name} is reserved: Sluice, HTTP or a cloud sets it.`
  return isSendable(value) ? undefined : `The value of the header ${name} contains characters that cannot be sent.`
}

/**
 * An endpoint's headers as they are sent, a list of names and values in turn. Reserved ones are left out, so that none can
 * be overridden; undefined when one cannot be sent at all, such as one that holds a line break.
 */
export function wireHeaders(headers: Readonly<Record<string, string>>): string[] | undefined {
  const flat: string[] = []
  for (const [name, value] of Object.entries(mergedHeaders(headers))) {
    if (isHeaderName(name) && isReservedHeader(name)) continue
    if (checkHeader(name, value) !== undefined) return undefined
    flat.push(name, value)
  }
  return flat
}

/** Whether a text can be a content type: printable ASCII, for it travels as a header. */
export function isContentType(text: string): boolean {
  return /^[\x21-\x7e]([\x20-\x7e]{0,253}[\x21-\x7e])?$/.test(text)
}

/** The content type among headers; undefined without one. */
export function contentTypeIn(headers: Readonly<Record<string, string>>): string | undefined {
  return Object.entries(headers).find(([name]) => isContentTypeHeader(name))?.[1]
}

/**
 * Records of headers put over each other. HTTP ignores the case of names, so a later value replaces an earlier one in any
 * case; the name keeps the case of the value that stays.
 */
export function mergedHeaders<T>(...records: readonly Readonly<Record<string, T>>[]): Record<string, T> {
  if (records.every(isEmpty)) return {}
  const byName = new Map<string, readonly [string, T]>()
  for (const record of records) {
    for (const entry of Object.entries(record)) byName.set(entry[0].toLowerCase(), entry)
  }
  return Object.fromEntries(byName.values())
}

function isEmpty(record: object): boolean {
  for (const _ in record) return false
  return true
}

/** The index of the first name or value of a request's head that must not be sent, or -1. */
export function unsendableAt(head: readonly string[]): number {
  const name = head.findIndex((text, i) => i % 2 === 0 && !isHeaderName(text))
  return name >= 0 ? name : unsendableValueAt(head)
}

/**
 * The last check of a request's head, right before it is written: the index of the first value that must not be sent, or -1.
 * However a value got into the store, none with a line break leaves. `from` is the index of a value.
 */
export function unsendableValueAt(head: readonly string[], from = 1): number {
  for (let i = from; i < head.length; i += 2) {
    const text = head[i]
    if (typeof text !== 'string' || unsendable.test(text)) return i
  }
  return -1
}

/** Whether HTTP can carry the value: Latin-1 without control characters, also empty. */
export function isSendable(value: string): boolean {
  return typeof value === 'string' && value.length <= maxValueLength && !unsendable.test(value)
}

/** Header templates by the names of the headers, such as `X-Event: {eventType}`. */
export type HeaderTemplates = Readonly<Record<string, string>>

/** The values that a template can insert. All of them are visible ASCII. */
interface TemplateValues {
  readonly eventType: string
  /** The number of the attempt, from 1 on, as the history shows it. */
  readonly attempt: number
  /** Names the message at one endpoint; the same on every attempt. */
  readonly deliveryId: string
  readonly messageId: string
  readonly endpointId: string
  /** Seconds since 1970, of this attempt. */
  readonly timestamp: string
}

const placeholders: readonly (keyof TemplateValues)[] = [
  'eventType',
  'attempt',
  'deliveryId',
  'messageId',
  'endpointId',
  'timestamp',
]
const placeholderList = [...placeholders, 'header:NAME'].map((name) => `{${name}}`).join(', ')

/** How many templates a record may have, how long one may be, and how many values it may insert. */
export const templatesLimit = 16
const templateLength = 256
const insertsLimit = 4

/** Headers with which a message arrived at a source, by lower-case name. */
type ArrivedHeaders = Readonly<Record<string, string>>

/** A text, a value to be inserted, or a header with which the message arrived at a source. */
type TemplatePart = { readonly text: string } | { readonly insert: keyof TemplateValues } | { readonly header: string }

/** A template that is ready for use. */
export interface HeaderTemplate {
  readonly name: string
  /** A header that did not arrive is an empty text, as are all headers of a message that was published. */
  fill(values: TemplateValues, arrived?: ArrivedHeaders | null): string
}

/** A problem of a template, as the end of a sentence about the header; undefined when there is none. */
export function templateProblem(name: string, template: string): string | undefined {
  if (!isHeaderName(name)) return 'is not a header name'
  if (isReserved(name)) return 'is a reserved header'
  if (template.length > templateLength) return `must have at most ${templateLength} characters`
  if (!isSendable(template)) return 'must be Latin-1 without control characters'
  const parts = templatePartsOf(template)
  if (parts === undefined) return `may have braces only around a value: ${placeholderList}`
  const inserts = parts.filter((part) => !('text' in part)).length
  if (inserts > insertsLimit) return `may insert at most ${insertsLimit} values`
  // Templates are shown to every reader; headers are sealed.
  if (inserts === 0 && isSensitiveHeader(name)) return 'is a secret by its name: set it in `headers`'
  return undefined
}

/** Sluice's User-Agent alone may be replaced. The content type is set in `headers`, where it is known before a request. */
function isReserved(name: string): boolean {
  return isContentTypeHeader(name) || (isReservedHeader(name) && name.toLowerCase() !== 'user-agent')
}

/**
 * Reads stored templates, each in the case of its name. Reserved ones are left out; undefined when one cannot be sent at
 * all, such as one that holds a line break.
 */
export function readTemplates(templates: HeaderTemplates): HeaderTemplate[] | undefined {
  const read: HeaderTemplate[] = []
  for (const [name, template] of Object.entries(templates)) {
    if (isReserved(name)) continue
    const parts = isHeaderName(name) && isSendable(template) ? templatePartsOf(template) : undefined
    if (parts === undefined) return undefined
    const fill = (values: TemplateValues, arrived: ArrivedHeaders | null = null) =>
      parts.map((part) => textOf(part, values, arrived)).join('')
    read.push({ name, fill })
  }
  return read
}

function textOf(part: TemplatePart, values: TemplateValues, arrived: ArrivedHeaders | null): string {
  if ('text' in part) return part.text
  if ('insert' in part) return String(values[part.insert])
  // A plain read would find `constructor` in every record.
  return arrived !== null && Object.hasOwn(arrived, part.header) ? (arrived[part.header] ?? '') : ''
}

/** The parts of a template; undefined when its braces are not around the name of a value. */
function templatePartsOf(template: string): TemplatePart[] | undefined {
  const parts: TemplatePart[] = []
  // With a group, split answers texts and the names between them in turn.
  for (const [i, piece] of template.split(/\{([^{}]*)\}/).entries()) {
    if (i % 2 === 1) {
      const insert = insertOf(piece)
      if (insert === undefined) return undefined
      parts.push(insert)
      continue
    }
    if (/[{}]/.test(piece)) return undefined
    if (piece !== '') parts.push({ text: piece })
  }
  return parts
}

function insertOf(name: string): TemplatePart | undefined {
  const insert = placeholders.find((placeholder) => placeholder === name)
  if (insert !== undefined) return { insert }
  const header = name.startsWith('header:') ? name.slice('header:'.length).toLowerCase() : ''
  return isHeaderName(header) ? { header } : undefined
}
