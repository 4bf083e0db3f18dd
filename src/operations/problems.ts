import type { FieldError } from '../domain/app-error.ts'
import { type Flow, makesPseudonyms, type Shape } from '../domain/flow.ts'
import { isPattern } from '../domain/match.ts'
import { credentialProblems } from '../features/credentials/schemas.ts'
import type { EndpointPatch } from '../features/endpoints/schemas.ts'
import { pointerDepthLimit, readPointer } from '../json/pointer.ts'
import { checkFilter, FilterError } from '../shaping/filter.ts'
import {
  type HeaderTemplates,
  isContentType,
  isContentTypeHeader,
  isHeaderName,
  isReservedHeader,
  isSendable,
  templateProblem,
  templatesLimit,
} from '../wire/headers.ts'
import { headerBytesLimit, metadataProblems } from './fields.ts'

/** Problems of an endpoint's fields, one by one, beyond their schemas. */
export function endpointProblems(input: EndpointPatch, checkUrl: (url: string) => readonly string[]): FieldError[] {
  const { url, eventTypes, filterTypes, headers, metadata, burst } = input
  const urlProblems = url === undefined ? [] : checkUrl(url)
  return [
    ...urlProblems.map((message) => ({ at: ['body', 'url'], message, type: 'url' })),
    ...patternProblems('eventTypes', eventTypes),
    ...patternProblems('filterTypes', filterTypes),
    ...headerProblems(headers),
    ...credentialProblems(input, checkUrl),
    ...templateProblems(input.headerTemplates),
    ...metadataProblems(metadata),
    ...burstProblems(burst, input.throttleRate === undefined ? input.rateLimit : input.throttleRate),
    ...jitterProblems(input.retry),
  ]
}

function patternProblems(field: string, patterns: readonly string[] | null | undefined): FieldError[] {
  const message = 'must be an event type such as video.trending, a group such as video.*, or *'
  return (patterns ?? []).flatMap((pattern, i) =>
    isPattern(pattern) ? [] : [{ at: ['body', field, i], message, type: 'pattern' }],
  )
}

/** Problems of the headers of a message or an endpoint, beyond their shape. */
export function headerProblems(headers: Readonly<Record<string, string>> | null | undefined): FieldError[] {
  if (headers == null) return []
  const problems: FieldError[] = []
  let bytes = 0
  for (const [name, value] of Object.entries(headers)) {
    bytes += name.length + value.length
    const at = ['body', 'headers', name]
    if (!isHeaderName(name)) problems.push({ at, message: 'is not a header name', type: 'header' })
    else if (isReservedHeader(name)) problems.push({ at, message: 'is a reserved header', type: 'header' })
    if (isContentTypeHeader(name) && !isContentType(value)) {
      problems.push({ at, message: 'is not a content type', type: 'header' })
    } else if (!isSendable(value)) {
      problems.push({ at, message: 'must be Latin-1 without control characters', type: 'header' })
    }
  }
  if (bytes > headerBytesLimit) {
    const message = `must not take up more than ${headerBytesLimit} bytes together`
    problems.push({ at: ['body', 'headers'], message, type: 'maxBytes' })
  }
  return problems
}

/** Problems of the header templates of an endpoint or an application. */
export function templateProblems(templates: HeaderTemplates | null | undefined): FieldError[] {
  const entries = Object.entries(templates ?? {})
  const problems = entries.slice(0, templatesLimit).flatMap(([name, template]): FieldError[] => {
    const message = templateProblem(name, template)
    return message === undefined ? [] : [{ at: ['body', 'headerTemplates', name], message, type: 'header' }]
  })
  if (entries.length <= templatesLimit) return problems
  const message = `must have at most ${templatesLimit} headers`
  return [...problems, { at: ['body', 'headerTemplates'], message, type: 'maxProperties' }]
}

function burstProblems(burst: number | null | undefined, rate: number | null | undefined): FieldError[] {
  if (burst == null || rate !== null) return []
  return [{ at: ['body', 'burst'], message: 'needs a throttleRate beside it', type: 'burst' }]
}

function jitterProblems(retry: EndpointPatch['retry']): FieldError[] {
  if (retry?.jitterMs == null || retry.jitter === 'added') return []
  return [{ at: ['body', 'retry', 'jitterMs'], message: 'needs the jitter `added` beside it', type: 'jitter' }]
}

/** Problems of settings that are valid one by one and not together. */
export function flowProblems({ coalesce, order }: Flow): FieldError[] {
  if (coalesce === null || order === 'none') return []
  const message = 'cannot be combined with `order`: waiting deliveries would overtake each other'
  return [{ at: ['body', 'coalesce'], message, type: 'coalesce' }]
}

/** Problems of the fields beyond their syntax. */
export function shapingProblems({ filter, shape, region, secrets = [], signature }: Shaped): FieldError[] {
  const problems = filter === null ? [] : filterProblems(filter)
  if (shape !== null) problems.push(...shapeProblems(shape))
  if (makesPseudonyms({ shape }) && region === null) {
    const message = 'is needed for pseudonyms: create one, and name it here'
    problems.push({ at: ['body', 'region'], message, type: 'region' })
  }
  if (signature !== 'standard' && secrets.some(({ secret }) => secret.startsWith('whsk_'))) {
    const message = `signs with a shared secret, but the endpoint's is an ed25519 key`
    problems.push({ at: ['body', 'signature'], message, type: 'signature' })
  }
  return problems
}

interface Shaped extends Flow {
  readonly secrets?: readonly { readonly secret: string }[] | undefined
}

function filterProblems(filter: string): FieldError[] {
  try {
    checkFilter(filter)
    return []
  } catch (error) {
    if (!(error instanceof FilterError)) throw error
    return [{ at: ['body', 'filter'], message: error.message, type: 'filter' }]
  }
}

function shapeProblems({ keep, drop, rename, pseudonymize }: Shape): FieldError[] {
  const named = Object.keys(rename).map((text) => ({ at: ['rename', text], text }))
  const listed = Object.entries({ keep: keep ?? [], drop, pseudonymize }).flatMap(([list, texts]) =>
    texts.map((text, i) => ({ at: [list, i], text })),
  )
  const problems: FieldError[] = [...listed, ...named]
    .filter(({ text }) => readPointer(text) === undefined)
    .map(({ at }) => ({
      at: ['body', 'shape', ...at],
      message: `must be a JSON pointer of at most ${pointerDepthLimit} steps`,
      type: 'pointer',
    }))
  const taken = new Set<string>()
  for (const [text, name] of Object.entries(rename)) {
    const place = `${text.slice(0, text.lastIndexOf('/'))}/${name}`
    if (taken.has(place)) {
      const message = `another field beside it is renamed to ${JSON.stringify(name)}, too`
      problems.push({ at: ['body', 'shape', 'rename', text], message, type: 'rename' })
    }
    taken.add(place)
  }
  return problems
}
