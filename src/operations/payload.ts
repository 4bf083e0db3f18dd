import { Type } from 'typebox'
import type { FieldError } from '../domain/app-error.ts'

/** A payload in a request: an object, a list or a text. Its bytes are never written again. */
export function payloadIn(description: string) {
  const object = Type.Object({}, { additionalProperties: true })
  return Type.Unsafe<object | string>(Type.Union([object, Type.Array(Type.Unknown()), Type.String()], { description }))
}

const firstBytes = Buffer.from('{["')

/** A problem of a payload that is a number, a boolean or null, which are slips rather than events. */
export function payloadProblems(payload: Uint8Array): FieldError[] {
  if (firstBytes.includes(payload[0] as number)) return []
  return [{ at: ['body', 'payload'], message: 'must be an object, a list or a text', type: 'type' }]
}
