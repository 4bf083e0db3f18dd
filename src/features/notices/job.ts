import { AppError } from '../../domain/app-error.ts'
import type { Clock, SteadyMs } from '../../domain/clock.ts'
import type { Preparer } from '../../intake/preparer.ts'
import type { Item } from '../../intake/publication.ts'
import { appSubscriptions } from '../../intake/subscriptions.ts'
import type { Progress } from '../../leader/leader.ts'
import type { Store, Subscriptions } from '../../store/store.ts'
import {
  type AlertReceiver,
  type Announced,
  bodyFor,
  type CommandReceiver,
  type RunCommand,
  valuesOf,
  type WebReceiver,
  wants,
} from '../alerts/receivers.ts'
import { columnDefaults } from '../endpoints/noun.ts'
import { managementApplication } from '../endpoints/rules.ts'
import type { StoredNotice } from './rules.ts'

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

/** Waits before the second and each further run of a command. */
const retryWaitsMs = [1000, 5000, 30_000, 120_000]
const commandsAtOnce = 4

interface AlertReceiversDeps {
  readonly store: Pick<Store, 'findEndpoint' | 'createEndpoint' | 'updateEndpoint'>
  readonly clock: Clock
  readonly receivers: readonly AlertReceiver[]
  readonly run: RunCommand
  /** Makes the secret of a new endpoint: every delivery is signed. */
  readonly newSecret: () => string
  readonly log?: ((sentence: string) => void) | undefined
}

interface Running {
  /** Receivers whose command has yet to succeed. */
  left: readonly CommandReceiver[]
  tries: number
  nextAt: SteadyMs
  isBusy: boolean
}

function receiverUid({ name }: Pick<WebReceiver, 'name'>): string {
  return `alert-${name}`
}

/**
 * The receivers of the alerts file. Receivers by HTTP are endpoints of operational webhooks that no notice matches: each gets
 * messages of its own, in its own form. Commands run here; their notice stays in the store until they have succeeded, or
 * have failed five times.
 */
export class AlertReceivers {
  readonly #deps: AlertReceiversDeps
  readonly #web: readonly WebReceiver[]
  readonly #commands: readonly CommandReceiver[]
  readonly #running = new Map<number, Running>()
  #isSynchronized = false

  constructor(deps: AlertReceiversDeps) {
    this.#deps = deps
    this.#web = deps.receivers.filter((each) => each.type !== 'command')
    this.#commands = deps.receivers.filter((each) => each.type === 'command')
  }

  /** How many notices stay, because their commands have not ended. */
  get held(): number {
    return this.#running.size
  }

  /** Makes and updates the endpoints of receivers, once. */
  async synchronize(): Promise<void> {
    if (this.#isSynchronized) return
    for (const receiver of this.#web) await this.#synchronize(receiver)
    this.#isSynchronized = true
  }

  /** The messages of a notice for receivers by HTTP. The event id makes each of them once. */
  items(notice: StoredNotice): Item[] {
    if (!isAlert(notice)) return []
    const announced = announcedOf(notice)
    return this.#web
      .filter((each) => wants(each, announced.data.rule))
      .map((receiver) => ({
        envelope: {
          eventType: notice.type,
          eventId: `notice_${notice.key}_${notice.at}_${receiver.name}`,
          channels: null,
          contentType: receiver.contentType,
          delayMs: 0,
          endpoint: receiverUid(receiver),
        },
        body: Buffer.from(bodyFor(receiver, announced)),
      }))
  }

  /** Runs the commands of a notice that are due. Answers whether the notice has to stay for them. */
  holds(notice: StoredNotice): boolean {
    if (this.#commands.length === 0 || !isAlert(notice)) return false
    const { clock } = this.#deps
    const announced = announcedOf(notice)
    const state = this.#running.get(notice.key) ?? {
      left: this.#commands.filter((each) => wants(each, announced.data.rule)),
      tries: 0,
      nextAt: Number.NEGATIVE_INFINITY,
      isBusy: false,
    }
    if (!state.isBusy && state.left.length === 0) return false
    this.#running.set(notice.key, state)
    const busy = [...this.#running.values()].filter(({ isBusy }) => isBusy).length
    if (!state.isBusy && state.nextAt <= clock.steady() && busy < commandsAtOnce) {
      state.isBusy = true
      void this.#runAll(state, announced)
    }
    return true
  }

  /** The notice was removed. */
  forget(key: number): void {
    this.#running.delete(key)
  }

  /** Never rejects: a run never does. */
  async #runAll(state: Running, announced: Announced): Promise<void> {
    const { clock, run, log } = this.#deps
    const values = Object.fromEntries(
      Object.entries(valuesOf(announced)).map(([name, value]) => [variableOf(name), value]),
    )
    const failed: CommandReceiver[] = []
    for (const receiver of state.left) {
      const { isDone, output } = await run(receiver.command, values, JSON.stringify(announced), receiver.timeoutMs)
      if (!isDone) failed.push(receiver)
      const end = isDone ? 'succeeded' : 'failed'
      log?.(`the command of the alert receiver ${receiver.name} ${end}${output === '' ? '' : `: ${output.trimEnd()}`}`)
    }
    const waitMs = retryWaitsMs[state.tries]
    state.tries++
    state.left = waitMs === undefined ? [] : failed
    state.nextAt = clock.steady() + (waitMs ?? 0)
    state.isBusy = false
    if (waitMs === undefined) {
      for (const { name } of failed) log?.(`the alert receiver ${name} missed ${announced.data.alertId}: gave up`)
    }
  }

  async #synchronize(receiver: WebReceiver): Promise<void> {
    const { store, newSecret } = this.#deps
    const uid = receiverUid(receiver)
    const { url, headers } = receiver
    const found = await store.findEndpoint(managementApplication, uid)
    if (found !== undefined) {
      if (found.url === url && JSON.stringify(found.headers) === JSON.stringify(headers)) return
      await store.updateEndpoint(managementApplication, found.key, { url, headers })
      return
    }
    try {
      await store.createEndpoint(managementApplication, {
        ...columnDefaults,
        uid,
        url,
        headers,
        description: `Receiver ${receiver.name} (${receiver.type}) of the alerts file.`,
        // No notice has this type.
        eventTypes: ['alert.receiver'],
        paused: false,
        secrets: [{ secret: newSecret(), expiresAt: null }],
      })
    } catch (error) {
      // Another process has just made it.
      if (!(error instanceof AppError) || error.code !== 'conflict') throw error
    }
  }
}

/** Not with the prefix of settings: a command may call `sluice`, which knows all variables with that prefix. */
function variableOf(name: string): string {
  return `ALERT_${name.replaceAll(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`
}

function isAlert({ type }: StoredNotice): boolean {
  return type === 'alert.firing' || type === 'alert.resolved'
}

function announcedOf({ type, at, data }: StoredNotice): Announced {
  return {
    type: type as Announced['type'],
    timestamp: new Date(at).toISOString(),
    data: data as unknown as Announced['data'],
  }
}
