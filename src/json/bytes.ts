/**
 * JSON put together from bytes, for answers that contain payloads: those are the producer's own and go through no
 * serialiser.
 */

export const jsonType = 'application/json; charset=utf-8'

const closingBrace = Buffer.from('}')

/** An object with one field more, whose value is JSON already. */
export function withField(object: Buffer, name: string, value: Buffer): Buffer {
  return Buffer.concat([object.subarray(0, -1), Buffer.from(`,"${name}":`), value, closingBrace])
}

/** An object with the fields of another, both not empty. */
export function withFields(object: Buffer, fields: object): Buffer {
  return Buffer.concat([object.subarray(0, -1), Buffer.from(`,${JSON.stringify(fields).slice(1)}`)])
}
