import type { FieldError } from '../domain/app-error.ts'
import { isPattern } from '../domain/match.ts'
import { isHeaderName, isReservedHeader } from '../wire/headers.ts'
import { headerBytesLimit, metadataProblems } from './fields.ts'
import type { EndpointPatch } from './nouns/endpoint-schema.ts'

/** What is wrong with an endpoint's fields beyond their shape. */
export function endpointProblems(input: EndpointPatch, checkUrl: (url: string) => readonly string[]): FieldError[] {
  const { url, eventTypes, filterTypes, headers, metadata, burst } = input
  const urlProblems = url === undefined ? [] : checkUrl(url)
  return [
    ...urlProblems.map((message) => ({ at: ['body', 'url'], message, type: 'url' })),
    ...patternProblems('eventTypes', eventTypes),
    ...patternProblems('filterTypes', filterTypes),
    ...headerProblems(headers),
    ...metadataProblems(metadata),
    ...burstProblems(burst, input.throttleRate === undefined ? input.rateLimit : input.throttleRate),
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
    // Visible ASCII, spaces and tabs within: all that every server reads alike.
    if (!/^[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?$/.test(value)) {
      problems.push({ at, message: 'is not a header value of visible ASCII', type: 'header' })
    }
  }
  if (bytes > headerBytesLimit) {
    const message = `must not take up more than ${headerBytesLimit} bytes together`
    problems.push({ at: ['body', 'headers'], message, type: 'maxBytes' })
  }
  return problems
}

function burstProblems(burst: number | null | undefined, rate: number | null | undefined): FieldError[] {
  if (burst == null || rate !== null) return []
  return [{ at: ['body', 'burst'], message: 'needs a throttleRate beside it', type: 'burst' }]
}
