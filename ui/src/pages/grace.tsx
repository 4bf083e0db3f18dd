interface GraceProps {
  /** The thing that is replaced: `secret` or `URL`. */
  readonly of: string
  /** The choice to begin with. */
  readonly usual: 'a day' | 'two days'
}

const choices = [
  [0, 'no longer'],
  [3600, 'an hour'],
  [86_400, 'a day'],
  [2 * 86_400, 'two days'],
  [7 * 86_400, 'a week'],
] as const

/** The field `grace`: how long the old one works beside the new one, in seconds. */
export function Grace({ of, usual }: GraceProps) {
  return (
    <label class="field">
      <span class="label">The old {of} works for</span>
      <select name="grace">
        {choices.map(([seconds, text]) => (
          <option key={seconds} value={seconds} selected={text === usual}>
            {text}
          </option>
        ))}
      </select>
    </label>
  )
}
