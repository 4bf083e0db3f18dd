import { managementApplication } from '../domain/endpoint.ts'
import type { StoredNotice } from '../domain/notice.ts'
import type { Preparer } from '../intake/preparer.ts'
import type { Item } from '../intake/publication.ts'
import { appSubscriptions } from '../intake/subscriptions.ts'
import type { Store, Subscriptions } from '../store/store.ts'
import type { AlertReceivers } from './alert-receivers.ts'
import type { Progress } from './leader.ts'

type NoticeStore = Pick<Store, 'listNotices' | 'removeNotices' | 'subscriptions' | 'publish' | 'loadSummaries'>

/** Notices sent in one step. */
const perStep = 100

/**
 * Publishes notices to the endpoints of operational webhooks that subscribe to them and to the receivers of alerts, and
 * removes them. The event id is made from the notice, so that a crash before its removal, or another process at the same
 * time, publishes nothing twice. The preparer has no admission: notices are the server's own and few.
 */
export async function sendNotices(
  store: NoticeStore,
  preparer: Preparer,
  receivers?: AlertReceivers | undefined,
): Promise<Progress> {
  const limit = perStep + (receivers?.held ?? 0)
  const notices = await store.listNotices(limit)
  if (notices.length === 0) return { more: false, published: 0 }
  await receivers?.synchronize()
  const subscriptions = await store.subscriptions(managementApplication)
  // There are no notices about operational webhooks: each failure would make another notice.
  const wanted = subscriptions?.list.length ? notices.filter(({ app }) => app !== managementApplication) : []
  const complete = await withMessages(store, wanted)
  const publications =
    subscriptions === undefined ? [] : await publicationsOf(preparer, subscriptions, complete, receivers)
  const answers = await store.publish(publications.map(({ publication }) => publication))
  // Subscriptions changed at this moment: stale notices are matched again in the next step.
  const stale = new Set(publications.filter((_, i) => answers[i]?.state === 'stale').map(({ notice }) => notice.key))
  const held = new Set(notices.filter((notice) => receivers?.holds(notice)).map(({ key }) => key))
  const sent = notices.map(({ key }) => key).filter((key) => !stale.has(key) && !held.has(key))
  await store.removeNotices(sent)
  for (const key of sent) receivers?.forget(key)
  const published = answers.filter((answer) => answer.state === 'accepted').length
  return { more: notices.length === limit || stale.size > 0, published }
}

/** The publications of notices: for the endpoints that subscribe to them, and for each receiver of alerts. */
async function publicationsOf(
  preparer: Preparer,
  subscriptions: Subscriptions,
  notices: readonly StoredNotice[],
  receivers: AlertReceivers | undefined,
) {
  const items = notices.flatMap((notice) =>
    [messageOf(notice), ...(receivers?.items(notice) ?? [])].map((item) => ({ notice, item })),
  )
  const prepared = await preparer.prepare(
    appSubscriptions(managementApplication, subscriptions, 0),
    items.map(({ item }) => item),
  )
  return items.flatMap(({ notice }, i) => {
    const publication = prepared.publications[i]
    return publication === undefined || publication.endpoints.length === 0 ? [] : [{ notice, publication }]
  })
}

/** Completes notices about messages, and leaves out those whose message no longer exists. */
async function withMessages(store: NoticeStore, notices: readonly StoredNotice[]): Promise<StoredNotice[]> {
  const keys = new Set(notices.flatMap(({ message }) => message ?? []))
  const summaries = new Map(
    (keys.size === 0 ? [] : await store.loadSummaries([...keys])).map((summary) => [summary.key, summary]),
  )
  return notices.flatMap((notice) => {
    if (notice.message === null) return [notice]
    const summary = summaries.get(notice.message)
    if (summary === undefined) return []
    return [{ ...notice, data: { ...notice.data, msgId: summary.id, msgEventId: summary.eventId } }]
  })
}

/** The message of a notice, in Svix's shape. */
function messageOf({ key, type, at, data }: StoredNotice): Item {
  const body = Buffer.from(JSON.stringify({ type, timestamp: new Date(at).toISOString(), data }))
  const eventId = `notice_${key}_${at}`
  return { envelope: { eventType: type, eventId, channels: null, contentType: 'application/json', delayMs: 0 }, body }
}
