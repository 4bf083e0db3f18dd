import { managementApplication } from '../domain/endpoint.ts'
import type { StoredNotice } from '../domain/notice.ts'
import { publicationOf } from '../intake/publication.ts'
import { routeOf } from '../intake/routes.ts'
import type { Store } from '../store/store.ts'

type NoticeStore = Pick<Store, 'listNotices' | 'removeNotices' | 'subscriptions' | 'publish' | 'loadHeads'>

/** Notices sent in one step. */
const perStep = 100

export interface Sent {
  /** Whether there is more to send right away. */
  readonly more: boolean
  readonly published: number
}

/**
 * Publishes notices to the endpoints of operational webhooks that subscribe to them, and removes them. The event id is made
 * from the notice, so that a crash before its removal, or another process at the same time, publishes nothing twice.
 */
export async function sendNotices(store: NoticeStore): Promise<Sent> {
  const notices = await store.listNotices(perStep)
  if (notices.length === 0) return { more: false, published: 0 }
  const subscriptions = await store.subscriptions(managementApplication)
  // There are no notices about operational webhooks: one that fails would make another with every failure.
  const wanted = subscriptions?.list.length ? notices.filter(({ app }) => app !== managementApplication) : []
  const complete = await withMessages(store, wanted)
  const route = subscriptions && routeOf({ key: managementApplication }, subscriptions, 0)
  const publications = complete.flatMap((notice) => {
    const { eventType, body } = messageOf(notice)
    const eventId = `notice_${notice.key}_${notice.at}`
    const envelope = { eventType, eventId, channels: null, contentType: 'application/json', delayMs: 0 }
    const publication = route && publicationOf({ route, envelope, body })
    return publication === undefined || publication.endpoints.length === 0 ? [] : [{ notice, publication }]
  })
  const answers = await store.publish(publications.map(({ publication }) => publication))
  // Subscriptions changed at this moment: stale notices are matched again in the next step.
  const stale = new Set(publications.filter((_, i) => answers[i]?.state === 'stale').map(({ notice }) => notice.key))
  await store.removeNotices(notices.map(({ key }) => key).filter((key) => !stale.has(key)))
  const published = answers.filter((answer) => answer.state === 'accepted').length
  return { more: notices.length === perStep || stale.size > 0, published }
}

/** Completes notices about messages, and leaves out those whose message no longer exists. */
async function withMessages(store: NoticeStore, notices: readonly StoredNotice[]): Promise<StoredNotice[]> {
  const keys = new Set(notices.flatMap(({ message }) => message ?? []))
  const heads = new Map((keys.size === 0 ? [] : await store.loadHeads([...keys])).map((head) => [head.key, head]))
  return notices.flatMap((notice) => {
    if (notice.message === null) return [notice]
    const head = heads.get(notice.message)
    if (head === undefined) return []
    return [{ ...notice, data: { ...notice.data, msgId: head.id, msgEventId: head.eventId } }]
  })
}

/** The message of a notice, in Svix's shape. */
function messageOf({ type, at, data }: StoredNotice) {
  const body = Buffer.from(JSON.stringify({ type, timestamp: new Date(at).toISOString(), data }))
  return { eventType: type, body }
}
