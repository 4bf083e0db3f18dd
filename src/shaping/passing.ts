import type { MessageHead } from '../domain/delivery.ts'
import type { Store } from '../store/store.ts'
import type { Filter } from './filter.ts'
import { readJson } from './shape.ts'

/** Bodies held in memory at a time. */
const bodiesAtOnce = 16

/** Those of stored messages that a filter is true of. */
export async function passing(
  store: Pick<Store, 'loadMessages'>,
  filter: Filter,
  heads: readonly MessageHead[],
): Promise<MessageHead[]> {
  const passed: MessageHead[] = []
  for (let i = 0; i < heads.length; i += bodiesAtOnce) {
    const chunk = heads.slice(i, i + bodiesAtOnce)
    const bodies = new Map((await store.loadMessages(chunk.map(({ key }) => key))).map(({ key, body }) => [key, body]))
    for (const head of chunk) {
      const body = bodies.get(head.key)
      if (body !== undefined && filter.passes({ ...head, payload: readJson(body)?.value ?? null })) passed.push(head)
    }
  }
  return passed
}
