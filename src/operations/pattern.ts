/** A name a caller chooses: regions, event types, channels. */
export const namePattern = '^[a-zA-Z0-9\\-_.]+$'
/** An instant as RFC 3339 writes it, with or without seconds. */
export const instantPattern = '^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d(:\\d\\d(\\.\\d+)?)?(Z|[+-]\\d\\d:\\d\\d)$'
/** The same as producers write it: with seconds, and with all that RFC 3339 permits. */
export const rfc3339Pattern = '^\\d{4}-\\d{2}-\\d{2}[Tt ]\\d{2}:\\d{2}:\\d{2}(\\.\\d{1,9})?([Zz]|[+-]\\d{2}:\\d{2})$'
/** A JSON pointer (RFC 6901), and one to something within the whole. */
export const pointerPattern = '^(/([^~/]|~[01])*)*$'
export const innerPointerPattern = '^(/([^~/]|~[01])*)+$'

const name = 'must be letters, digits, -, _ and . alone'
const instant = 'must be an instant such as 2026-11-15T09:40:00Z'
const pointer = 'must be a JSON pointer such as /user/id'

/** What patterns that nobody reads at a glance ask for. */
export const patternMeanings: ReadonlyMap<string, string> = new Map([
  [namePattern, name],
  [instantPattern, instant],
  [rfc3339Pattern, instant],
  [pointerPattern, pointer],
  [innerPointerPattern, pointer],
])
