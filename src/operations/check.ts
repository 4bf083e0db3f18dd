import type { FieldError } from '../domain/app-error.ts'
import type { FoundThings } from './lookup.ts'
import { bodyReaderOf } from './request-body.ts'
import type { Incoming, Route } from './route.ts'
import { compile, readQuery, refuseIf } from './validate.ts'

/** A request after its checks, with the things that its path names. */
export interface CheckedCall extends FoundThings {
  readonly params: Readonly<Record<string, string>>
  readonly query: unknown
  readonly body: unknown
  readonly request: Incoming
}

const none: readonly FieldError[] = []

/** Compiles the checks of a route. The problems of the query and of the body are listed together. */
export function checkerOf(route: Route): (request: Incoming) => CheckedCall {
  const { query: schema } = route
  const queryProblems = schema && compile(schema, 'query')
  const body = bodyReaderOf(route)
  return (request) => {
    const query = schema === undefined ? {} : readQuery(schema, request.query)
    const value = body.read(request.body)
    const problems = queryProblems === undefined ? none : queryProblems(query)
    const more = body.problemsOf(value)
    refuseIf(more.length === 0 ? problems : [...problems, ...more])
    return { params: request.params as Record<string, string>, query, body: value, request }
  }
}
