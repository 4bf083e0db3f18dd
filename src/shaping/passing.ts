import type { Clock } from '../domain/clock.ts'
import type { MessageHead } from '../domain/delivery.ts'
import { type Parts, Turns } from '../domain/turns.ts'
import { Outline } from '../json/outline.ts'
import type { Store } from '../store/store.ts'
import { type Filter, filterStepsLimit } from './filter.ts'

/** Bodies that are read from the store at once: 16 of 1 MB took up to 55 ms of one turn. */
const bodiesAtOnce = 4

/** The answers of a filter for stored messages, by their keys. */
export interface Passing {
  readonly passed: ReadonlySet<number>
  /** The filter would take too long for these, and was not asked. */
  readonly unfiltered: ReadonlySet<number>
}

/** Asks a filter about stored messages, in turns between which others go on. */
export async function passing(
  store: Pick<Store, 'loadMessages'>,
  clock: Clock,
  filter: Filter,
  heads: readonly MessageHead[],
): Promise<Passing> {
  const passed = new Set<number>()
  const unfiltered = new Set<number>()
  for (let i = 0; i < heads.length; i += bodiesAtOnce) {
    const chunk = heads.slice(i, i + bodiesAtOnce)
    const bodies = new Map((await store.loadMessages(chunk.map(({ key }) => key))).map(({ key, body }) => [key, body]))
    await Turns.by(clock).run(asking(chunk, bodies))
  }
  return { passed, unfiltered }

  function* asking(chunk: readonly MessageHead[], bodies: ReadonlyMap<number, Uint8Array>): Parts<void> {
    for (const head of chunk) {
      const body = bodies.get(head.key)
      if (body === undefined) continue
      const answer = yield* asked(filter, head, body)
      if (answer === 'unknown') unfiltered.add(head.key)
      else if (answer) passed.add(head.key)
      yield
    }
  }
}

function* asked(filter: Filter, head: MessageHead, body: Uint8Array): Parts<boolean | 'unknown'> {
  const json = yield* Outline.of(body)
  if (json?.isParsable === false) return 'unknown'
  const message = { ...head, payload: json?.parse() ?? null }
  yield
  return filter.steps(message) > filterStepsLimit ? 'unknown' : filter.passes(message)
}
