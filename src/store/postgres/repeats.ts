import type { Identity } from '../../domain/ids.ts'
import { writeIdentities } from '../publish-batch.ts'
import type { Once, Publication, Published } from '../publishing.ts'
import { integers, texts } from './arrays.ts'
import { findTaken, take } from './idempotency.ts'
import { overtaken } from './publish-statement.ts'
import { type Run, statement } from './sessions.ts'

// By itself, after the publishing: a reservation made by another transaction at the same moment is invisible to it.
export const selectByEventIds = statement(
  'by-event-ids',
  `
    select wanted.n, m.id
      from unnest($1::bigint[], $2::text[]) with ordinality as wanted (app, event_id, n)
     cross join lateral (
             select message from event_id where app = wanted.app and event_id = wanted.event_id limit 1
           ) as e
     cross join lateral (select id from message where key = e.message limit 1) as m`,
)

/** Divides what has no hash in common from what must wait for its twin. */
export function withoutTwins(
  list: readonly [number, Publication][],
): [[number, Publication][], [number, Publication][]] {
  const seen = new Set<string>()
  const turn: [number, Publication][] = []
  const later: [number, Publication][] = []
  for (const entry of list) {
    const once = entry[1].once ?? []
    const isTwin = once.some(({ hash }) => seen.has(hash))
    for (const { hash } of once) seen.add(hash)
    ;(isTwin ? later : turn).push(entry)
  }
  return [turn, later]
}

/** Why publications at the right version were not stored. Publications that are missing in the answer are tried again. */
export async function reasonsOf(run: Run, refused: readonly Publication[]): Promise<Map<Publication, Published>> {
  const reasons = new Map<Publication, Published>()
  if (refused.length === 0) return reasons
  const asked = refused.flatMap((publication) => (publication.once ?? []).map((once) => ({ publication, once })))
  const found = await findTaken(
    run,
    asked.map(({ once }) => once.hash),
  )
  for (const { n, fingerprint, message, id } of found) {
    const { publication, once } = asked[n - 1] as (typeof asked)[number]
    if (reasons.has(publication)) continue
    if (fingerprint !== once.fingerprint || message === null) reasons.set(publication, { state: 'mismatch' })
    else if (id !== null) {
      reasons.set(publication, { state: 'repeated', key: message, id })
      // A later repeat of this request gets the same answer, also when the hash that it met here has expired.
      const before = (publication.once ?? []).slice(0, publication.once?.indexOf(once))
      const repeats = before.map((each) => ({ once: each, message }))
      if (repeats.length > 0) await take(run, repeats)
    }
  }
  const unexplained = refused.filter((publication) => publication.eventId !== null && !reasons.has(publication))
  if (unexplained.length === 0) return reasons
  const values = [integers(unexplained.map((p) => p.app)), texts(unexplained.map((p) => p.eventId))]
  for (const { n, id } of await run<{ n: number; id: string }>(selectByEventIds, values)) {
    reasons.set(unexplained[n - 1] as Publication, { state: 'conflict', id })
  }
  return reasons
}

/** Takes a hash for messages that were stored together. */
export async function takeTogether(run: Run, once: Once, messages: readonly Identity[]): Promise<void> {
  const taken = await take(run, [{ once, message: messages[0]?.key ?? null }], writeIdentities(messages))
  if (taken === 0) throw Object.assign(new Error('the hash was taken meanwhile'), { code: overtaken })
}
