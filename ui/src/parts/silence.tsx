import { silentSince } from '../api/heard.ts'

/** Says that the server does not answer, and since when: all figures of the page are as old as that. */
export function Silence() {
  const since = silentSince.value
  return (
    <p class="silence" role="status" hidden={since === undefined}>
      {since !== undefined && `No answer from the server since ${clockTime(since)}. All figures are as of then.`}
    </p>
  )
}

function clockTime(at: number): string {
  return new Date(at).toLocaleTimeString(undefined, { hour12: false })
}
