/**
 * JSON in which numbers stay as they were written: `9007199254740993` and `1.0` come out as they went in. TypeScript's
 * library does not know yet what Node 24 can do here.
 */
const { parse, rawJSON } = JSON as unknown as {
  parse(text: string, revive: (key: string, value: unknown, context: { source?: string }) => unknown): unknown
  rawJSON(text: string): unknown
}

/** Reads JSON for printing it again with `JSON.stringify`. Numbers that JavaScript would change are opaque objects. */
export function parseExactly(text: string): unknown {
  return parse(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && source !== String(value) ? rawJSON(source) : value,
  )
}

/** The text laid out over lines when it is JSON, else undefined. */
export function prettyJson(text: string): string | undefined {
  try {
    return JSON.stringify(parseExactly(text), null, 2)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
