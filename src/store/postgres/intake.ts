import type { SteadyMs } from '../../domain/clock.ts'
import { fresh } from '../../domain/delivery.ts'
import { encodeId, type Identity } from '../../domain/ids.ts'
import { delayOf, isFresh, isPlain, queuedInOrder, wideOnes } from '../plan.ts'
import {
  allAccepted,
  type Intake,
  type Once,
  type Publication,
  type Published,
  type PublishedTogether,
  payloadEndOf,
  Refused,
  repeatedTogether,
} from '../publishing.ts'
import { type StoredMessage, StoreTrouble } from '../store.ts'
import type { Database } from './database.ts'
import { findTaken, freeLeft, type LeftHash, reasonsOf, takeTogether, withoutTwins } from './idempotency.ts'
import { acceptedPlans, fanOut, nothingCoalesced, type PlannedDelivery, queuePlans } from './planned.ts'
import { overtaken, type PublishAnswer, publishing } from './publish-statement.ts'
import { booleans, integers, postgresStatement, type Run, texts } from './sessions.ts'
import { stateOf } from './trouble.ts'

/** How often a group is stored again because another process overtook it. */
const overtakenTries = 5

/** The outcome of one transaction. */
interface Stored {
  readonly answers: Published[]
  readonly accepted: readonly Accepted[]
  /** Those of them that are plain and due at once. */
  readonly freshOnes: readonly StoredMessage[]
  /** Deliveries that wait for the end of a window they opened. */
  readonly opened: readonly PlannedDelivery[]
  /** Hashes of removed messages that publications met; those are answered as stale, and are tried again. */
  readonly left: readonly LeftHash[]
  readonly now: number
}

/** An accepted publication, and whether its deliveries are queued later. */
interface Accepted {
  readonly publication: Publication
  readonly isWide: boolean
}

/** Stores messages, if need be along with other changes. */
interface IntakeAlong extends Omit<Intake, 'subscriptions' | 'surveyWaiting'> {
  /** `along` is run in the transaction that stored these messages; an error that it rejects with undoes them. */
  publishTogether(
    publications: readonly Publication[],
    once: Once | null,
    along?: (run: Run, messages: readonly Identity[]) => Promise<void>,
  ): Promise<PublishedTogether>
}

/** Stores messages and queues their deliveries. */
export function intake(database: Database): IntakeAlong {
  const { durable, keys, time, context } = database

  /** Stores publications of which no two share a hash. Without a transaction, they are stored by its first statement. */
  async function storeApart(run: Run, next: () => number, publications: readonly Publication[]): Promise<Stored> {
    const identities = publications.map((): Identity => {
      const key = next()
      return { key, id: encodeId('msg', key, context.randomText) }
    })
    const wide = wideOnes(publications)
    const [row] = await run<PublishAnswer>(...publishing(publications, identities, wide))
    const answer = row as PublishAnswer
    time.learn(answer.now)
    const planned = acceptedPlans(publications, identities, wide, answer.accepted)
    const { merged, opened } = planned.length > 0 ? await queuePlans(run, planned, answer.now) : nothingCoalesced
    const current = new Set(answer.current)
    const keptKeys = new Set(answer.accepted)
    if (publications.some(endsEarly)) await keepPayloadEnds(run, publications, identities, keptKeys, answer.now)
    if (publications.some(namesSubjects)) await keepSubjects(run, publications, identities, keptKeys)
    const refused = publications.filter((_, i) => {
      const { key } = identities[i] as Identity
      return current.has(key) && !keptKeys.has(key)
    })
    const left: LeftHash[] = []
    const reasons = await reasonsOf(run, refused, left).catch((error) => {
      // The accepted ones are stored, and must not be refused with the others. Those without a reason are tried again.
      if (run !== durable.run || !(error instanceof StoreTrouble)) throw error
      return noReasons
    })
    const answers = publications.map((publication, i): Published => {
      const identity = identities[i] as Identity
      const mergedAt = merged.get(identity.key)
      if (mergedAt !== undefined) return { state: 'accepted', ...identity, merged: mergedAt }
      if (keptKeys.has(identity.key)) return { state: 'accepted', ...identity }
      return reasons.get(publication) ?? { state: 'stale' }
    })
    const accepted: Accepted[] = []
    const freshOnes: StoredMessage[] = []
    for (const [i, publication] of publications.entries()) {
      const identity = identities[i] as Identity
      if (!keptKeys.has(identity.key)) continue
      const isWide = wide[i] === true
      accepted.push({ publication, isWide })
      if (!isWide && isFresh(publication)) freshOnes.push({ publication, identity, dueAt: answer.now })
    }
    return { answers, accepted, freshOnes, opened, left, now: answer.now }
  }

  /** Twins of one group take turns, so that the second finds the message of the first. */
  async function store(run: Run, next: () => number, publications: readonly Publication[]): Promise<Stored> {
    const held = await holdInboxRows(run, publications)
    const answers: Published[] = []
    const accepted: Accepted[] = []
    const freshOnes: StoredMessage[] = []
    const opened: PlannedDelivery[] = []
    const left: LeftHash[] = []
    let now = 0
    const isHeld = ({ inbox = null }: Publication) => inbox === null || held.has(inbox)
    for (const [i, publication] of publications.entries()) if (!isHeld(publication)) answers[i] = { state: 'mismatch' }
    for (let waiting = [...publications.entries()].filter(([, each]) => isHeld(each)); waiting.length > 0; ) {
      const [turn, later] = withoutTwins(waiting)
      const together = turn.map(([, publication]) => publication)
      const stored = await storeApart(run, next, together)
      for (const [n, [i]] of turn.entries()) answers[i] = stored.answers[n] as Published
      accepted.push(...stored.accepted)
      freshOnes.push(...stored.freshOnes)
      opened.push(...stored.opened)
      left.push(...stored.left)
      now = stored.now
      waiting = later
    }
    await takeInboxRows(run, publications, answers)
    return { answers, accepted, freshOnes, opened, left, now }
  }

  /** Repeats the work when another process overtook it. */
  async function persisting<T>(work: (next: () => number) => Promise<T>): Promise<T> {
    for (let tries = 1; ; tries++) {
      try {
        return await keys.make(work)
      } catch (error) {
        if (tries === overtakenTries || stateOf(error) !== overtaken) throw error
      }
    }
  }

  /** After the transaction, which may have been undone. The publications that are tried again do it if it fails. */
  async function free(left: readonly LeftHash[]): Promise<void> {
    try {
      await freeLeft(durable.run, left)
    } catch (error) {
      if (!(error instanceof StoreTrouble)) throw error
    }
  }

  return {
    async publish(publications) {
      if (publications.length === 0) return []
      const begunAt = context.clock.steady()
      // One transaction in any case: a group that is stored once more, or refused, must have left no trace.
      const stored = await persisting((next) => {
        if (isOneStatement(publications)) return store(durable.run, next, publications)
        return durable.transaction((run) => store(run, next, publications))
      })
      signal(database, stored, begunAt)
      await free(stored.left)
      return stored.answers
    },

    async publishTogether(publications, once, along) {
      const begunAt = context.clock.steady()
      let left: readonly LeftHash[] = []
      try {
        const { result, stored } = await persisting((next) =>
          durable.transaction(async (run) => {
            const [found] = once ? await findTaken(run, [once.hash]) : []
            if (found) throw new Refused(repeatedTogether(found, once as Once))
            const stored = await store(run, next, publications)
            left = stored.left
            const messages = allAccepted(stored.answers)
            if (once) await takeTogether(run, once, messages)
            await along?.(run, messages)
            return { result: { state: 'accepted' as const, messages }, stored }
          }),
        )
        signal(database, stored, begunAt)
        return result
      } catch (error) {
        if (!(error instanceof Refused)) throw error
        await free(left)
        return error.answer
      }
    },

    expand: fanOut(database),
  }
}

const noReasons: ReadonlyMap<Publication, Published> = new Map()

/** Whether one statement stores these publications: they are plain, and no two share a hash. */
function isOneStatement(publications: readonly Publication[]): boolean {
  const isAlone = (each: Publication) => isPlain(each) && !endsEarly(each) && !namesSubjects(each) && each.inbox == null
  if (!publications.every(isAlone)) return false
  return withoutTwins([...publications.entries()])[1].length === 0
}

/** Signals rows just committed to this process's watcher, and has unowned lanes woken. Storing them began at `begunAt`. */
function signal({ signals, wakes }: Database, { accepted, freshOnes, opened, now }: Stored, begunAt: SteadyMs): void {
  const endpoints = new Set<number>()
  const dueNow = new Set<number>()
  const named = new Set<Publication>()
  for (const { publication, identity, dueAt } of freshOnes) {
    wakes.request(publication.endpoints, 0, true, { message: identity.key, dueAt })
    named.add(publication)
  }
  let onlyFresh = opened.length === 0
  // A delivery that replaced another is due when that was, and its lane knows.
  for (const { endpoint, since } of opened) {
    wakes.request([endpoint], since, false)
    endpoints.add(endpoint)
  }
  if (accepted.some(({ isWide }) => isWide)) signals.fanOuts()
  for (const { publication, isWide } of accepted) {
    // The other lanes of a wide message are woken when it is expanded.
    const those = isWide ? queuedInOrder(publication) : queuedFor(publication)
    const delayMs = delayOf(publication)
    if (delayMs > 0) {
      onlyFresh = false
      wakes.request(those, now + delayMs, false)
    }
    for (const endpoint of those) {
      endpoints.add(endpoint)
      if (delayMs === 0 && !named.has(publication)) dueNow.add(endpoint)
    }
  }
  if (endpoints.size === 0) return
  wakes.request(dueNow, 0, true)
  if (freshOnes.length === accepted.length) signals.stored(freshOnes, begunAt)
  else signals.rows([...endpoints], onlyFresh ? fresh : undefined)
}

/** The endpoints whose queues got a row that is due when its message is. */
function queuedFor({ endpoints, special }: Publication): readonly number[] {
  if (special === undefined) return endpoints
  const others = new Set<number>()
  for (const { endpoint, drop, coalesce } of special) {
    if (drop !== undefined || coalesce !== undefined) others.add(endpoint)
  }
  return others.size === 0 ? endpoints : endpoints.filter((endpoint) => !others.has(endpoint))
}

const insertPayloadEnds = postgresStatement('insert-payload-ends')`
    insert into payload_end (message, app, at, once_delivered, over_at)
    select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[], $5::bigint[])`

/** Whether the body of a message is erased before the message is removed. */
function endsEarly(publication: Publication): boolean {
  return payloadEndOf(publication, 0) !== undefined
}

/** Notes when the bodies of accepted messages are to be erased. */
async function keepPayloadEnds(
  run: Run,
  publications: readonly Publication[],
  identities: readonly Identity[],
  accepted: ReadonlySet<number>,
  now: number,
): Promise<void> {
  const ending = publications.flatMap((publication, i) => {
    const { key } = identities[i] as Identity
    const end = payloadEndOf(publication, now + delayOf(publication))
    return end === undefined || !accepted.has(key) ? [] : [{ key, app: publication.app, ...end }]
  })
  await run(insertPayloadEnds, [
    integers(ending.map(({ key }) => key)),
    integers(ending.map(({ app }) => app)),
    integers(ending.map(({ at }) => at)),
    booleans(ending.map(({ onceDelivered }) => onceDelivered)),
    integers(ending.map(({ overAt }) => overAt)),
  ])
}

const insertSubjects = postgresStatement('insert-subjects')`
    insert into subject (app, hash, message)
    select * from unnest($1::bigint[], $2::text[], $3::bigint[])`

function namesSubjects({ subjects = [] }: Publication): boolean {
  return subjects.length > 0
}

/** Indexes accepted messages by their data subjects. */
async function keepSubjects(
  run: Run,
  publications: readonly Publication[],
  identities: readonly Identity[],
  accepted: ReadonlySet<number>,
): Promise<void> {
  const rows = publications.flatMap(({ app, subjects = [] }, i) => {
    const { key } = identities[i] as Identity
    return accepted.has(key) ? subjects.map((hash) => ({ app, hash, key })) : []
  })
  await run(insertSubjects, [
    integers(rows.map(({ app }) => app)),
    texts(rows.map(({ hash }) => hash)),
    integers(rows.map(({ key }) => key)),
  ])
}

// Of two processes that take the same row, the second one waits for the outcome of the first: passing over it would publish the
// rows behind it before it. The order is that of all who lock several.
const lockInboxRows = postgresStatement('lock-inbox-rows')`
    select id from sluice_inbox where id = any ($1::bigint[]) and refused_at is null order by id for update`
const deleteInboxRows = postgresStatement('delete-inbox-rows')`delete from sluice_inbox where id = any ($1::bigint[])`

/** Locks the rows of the inbox that these publications are made from; answers those that are still there. */
async function holdInboxRows(run: Run, publications: readonly Publication[]): Promise<ReadonlySet<number>> {
  const ids = publications.flatMap(({ inbox }) => inbox ?? [])
  if (ids.length === 0) return new Set()
  return new Set((await run<{ id: number }>(lockInboxRows, [integers(ids)])).map(({ id }) => id))
}

/** Removes the rows that have become messages, or stand for an earlier one. */
async function takeInboxRows(run: Run, publications: readonly Publication[], answers: readonly Published[]) {
  const taken = publications.flatMap(({ inbox = null }, i) => {
    const state = answers[i]?.state
    return inbox !== null && (state === 'accepted' || state === 'repeated') ? [inbox] : []
  })
  if (taken.length > 0) await run(deleteInboxRows, [integers(taken)])
}
