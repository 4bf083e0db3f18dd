import { managementApplication } from '../domain/endpoint.ts'
import { Matcher } from '../domain/match.ts'
import type { NoticeType } from '../domain/notice.ts'
import type { Store } from '../store/store.ts'

/** Told of single messages, and so as often as those fail. */
const frequent: readonly NoticeType[] = [
  'message.attempt.exhausted',
  'message.attempt.failing',
  'message.attempt.recovered',
]

/**
 * Which of the notices that may be very many somebody wants to hear. It is looked up now and then: one that comes a few
 * seconds after its subscription may be missed, and one that nobody wants any more is thrown away by whoever sends them.
 */
export class NoticeWishes {
  readonly #store: Pick<Store, 'subscriptions'>
  #wanted: ReadonlySet<NoticeType> = new Set()

  constructor(store: Pick<Store, 'subscriptions'>) {
    this.#store = store
  }

  wants(type: NoticeType): boolean {
    return this.#wanted.has(type)
  }

  async lookUp(): Promise<void> {
    const matcher = new Matcher((await this.#store.subscriptions(managementApplication))?.list ?? [])
    this.#wanted = new Set(frequent.filter((type) => matcher.match(type, null).length > 0))
  }
}
