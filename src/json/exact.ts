/**
 * JSON put together from bytes, for answers that contain payloads: those are the producer's own and go through no
 * serialiser.
 */

const closingBrace = Buffer.from('}')

/** An object with one field more, whose value is JSON already. */
export function withField(object: Buffer, name: string, value: Buffer): Buffer {
  return Buffer.concat([object.subarray(0, -1), Buffer.from(`,"${name}":`), value, closingBrace])
}

/** An object with the fields of another, both not empty. */
export function withFields(object: Buffer, fields: object): Buffer {
  return Buffer.concat([object.subarray(0, -1), Buffer.from(`,${JSON.stringify(fields).slice(1)}`)])
}

/**
 * JSON that keeps numbers as written: `9007199254740993` and `1.0` are printed unchanged. TypeScript's library has no
 * types yet for these functions of Node 24.
 */
const { parse, rawJSON } = JSON as unknown as {
  parse(text: string, revive: (key: string, value: unknown, context: { source?: string }) => unknown): unknown
  rawJSON(text: string): unknown
}

/** Parses JSON that is printed again with `JSON.stringify`. Numbers that JavaScript would change are opaque objects. */
export function parseExactly(text: string): unknown {
  return parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && source !== String(value) ? rawJSON(source) : value,
  )
}

/** The text indented over lines when it is JSON, else undefined. */
export function prettyJson(text: string): string | undefined {
  try {
    return JSON.stringify(parseExactly(text), null, 2)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
