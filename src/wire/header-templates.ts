import { isHeaderName, isReservedHeader, isSendable, isSensitiveHeader } from './headers.ts'

/** Header templates by the names of the headers, such as `X-Event: {eventType}`. */
export type HeaderTemplates = Readonly<Record<string, string>>

/** The values that a template can insert. All of them are visible ASCII. */
export interface TemplateValues {
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
export type ArrivedHeaders = Readonly<Record<string, string>>

/** A text, a value to be inserted, or a header with which the message arrived at a source. */
type Part = { readonly text: string } | { readonly insert: keyof TemplateValues } | { readonly header: string }

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
  const parts = partsOf(template)
  if (parts === undefined) return `may have braces only around a value: ${placeholderList}`
  const inserts = parts.filter((part) => !('text' in part)).length
  if (inserts > insertsLimit) return `may insert at most ${insertsLimit} values`
  // Templates are shown to every reader; headers are sealed.
  if (inserts === 0 && isSensitiveHeader(name)) return 'is a secret by its name: set it in `headers`'
  return undefined
}

/** Sluice's User-Agent alone may be replaced. */
function isReserved(name: string): boolean {
  return isReservedHeader(name) && name.toLowerCase() !== 'user-agent'
}

/**
 * Reads stored templates, each in the case of its name. Reserved ones are left out; undefined when one cannot be sent at
 * all, such as one that holds a line break.
 */
export function readTemplates(templates: HeaderTemplates): HeaderTemplate[] | undefined {
  const read: HeaderTemplate[] = []
  for (const [name, template] of Object.entries(templates)) {
    if (isReserved(name)) continue
    const parts = isHeaderName(name) && isSendable(template) ? partsOf(template) : undefined
    if (parts === undefined) return undefined
    const fill = (values: TemplateValues, arrived: ArrivedHeaders | null = null) =>
      parts.map((part) => textOf(part, values, arrived)).join('')
    read.push({ name, fill })
  }
  return read
}

function textOf(part: Part, values: TemplateValues, arrived: ArrivedHeaders | null): string {
  if ('text' in part) return part.text
  if ('insert' in part) return String(values[part.insert])
  // A plain read would find `constructor` in every record.
  return arrived !== null && Object.hasOwn(arrived, part.header) ? (arrived[part.header] ?? '') : ''
}

/** The parts of a template; undefined when its braces are not around the name of a value. */
function partsOf(template: string): Part[] | undefined {
  const parts: Part[] = []
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

function insertOf(name: string): Part | undefined {
  const insert = placeholders.find((placeholder) => placeholder === name)
  if (insert !== undefined) return { insert }
  const header = name.startsWith('header:') ? name.slice('header:'.length).toLowerCase() : ''
  return isHeaderName(header) ? { header } : undefined
}
