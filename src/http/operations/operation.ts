import type { TSchema } from 'typebox'
import type { Need } from '../access.ts'
import { anyBytes, type JsonLines } from '../route.ts'

/**
 * One operation as the reference describes it. The schemas are those the route itself checks with, so the reference
 * cannot promise what the route refuses; a test holds the answers to theirs.
 */
export interface Operation {
  /** As in Svix's API where it has the operation, so that what is generated from either has the same names. */
  readonly id: string
  /** A few words in the imperative. */
  readonly summary: string
  /** What the summary does not say; Markdown is not rendered. */
  readonly description?: string
  readonly tag: string
  readonly query?: TSchema
  readonly body?: TSchema | JsonLines | typeof anyBytes
  /** Whether the body may be left out. */
  readonly bodyOptional?: boolean
  /** What is answered when all goes well, by status; null stands for no body. */
  readonly answers: Readonly<Record<number, TSchema | JsonLines | null>>
  /** No key is asked for. */
  readonly open?: boolean
  readonly need?: Need
}

export { anyBytes, type JsonLines }

/** Operations by method and path, such as `GET /app/:app`, as the routes declare them below `/api/v1`. */
export type Operations = Readonly<Record<string, Operation>>

/** Gives all operations of one noun their tag. */
export function tagged(tag: string, operations: Readonly<Record<string, Omit<Operation, 'tag'>>>): Operations {
  return Object.fromEntries(Object.entries(operations).map(([route, operation]) => [route, { ...operation, tag }]))
}
