import { encodeId, type Identity } from '../../domain/ids.ts'
import { isFresh, isPlain, wideOnes } from '../plan.ts'
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
import type { StoredMessage } from '../store.ts'
import { booleans, integers, texts } from './arrays.ts'
import type { Database } from './database.ts'
import { fanOut } from './fan-out.ts'
import { findTaken, reasonsOf, takeTogether, withoutTwins } from './idempotency.ts'
import { announce, type Queued } from './lane-wakes.ts'
import { acceptedPlans, nothingCoalesced, type PlannedDelivery, queuePlans } from './planned.ts'
import { overtaken, type PublishAnswer, publishing } from './publish-statement.ts'
import { type Run, statement } from './sessions.ts'
import { stateOf } from './trouble.ts'

/** How often a group is stored again because another process overtook it. */
const overtakenTries = 5

/** The outcome of one transaction. */
interface Stored extends Queued {
  readonly answers: Published[]
}

/** Runs the work that stores these publications in the transaction that they belong to. */
type Within = (publications: readonly Publication[], work: (run: Run) => Promise<Stored>) => Promise<Stored>

/** Stores messages, if need be along with other changes. */
export interface IntakeAlong extends Omit<Intake, 'subscriptions' | 'surveyWaiting'> {
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

  /** Stores publications of which no two share a hash. */
  async function storeApart(run: Run, next: () => number, publications: readonly Publication[]): Promise<Stored> {
    const identities = publications.map((): Identity => {
      const key = next()
      return { key, id: encodeId('msg', key, context.randomText) }
    })
    const [row] = await run<PublishAnswer>(...publishing(publications, identities))
    const answer = row as PublishAnswer
    time.learn(answer.now)
    const planned = acceptedPlans(publications, identities, answer.accepted)
    const { merged, opened } = planned.length > 0 ? await queuePlans(run, planned, answer.now) : nothingCoalesced
    const current = new Set(answer.current)
    const accepted = new Set(answer.accepted)
    if (publications.some(endsEarly)) await keepPayloadEnds(run, publications, identities, accepted, answer.now)
    if (publications.some(namesSubjects)) await keepSubjects(run, publications, identities, accepted)
    const queued = publications.filter((_, i) => accepted.has(identities[i]?.key as number))
    const refused = publications.filter((_, i) => {
      const { key } = identities[i] as Identity
      return current.has(key) && !accepted.has(key)
    })
    const reasons = await reasonsOf(run, refused)
    const answers = publications.map((publication, i): Published => {
      const identity = identities[i] as Identity
      const mergedAt = merged.get(identity.key)
      if (mergedAt !== undefined) return { state: 'accepted', ...identity, merged: mergedAt }
      if (accepted.has(identity.key)) return { state: 'accepted', ...identity }
      return reasons.get(publication) ?? { state: 'stale' }
    })
    const wide = wideOnes(publications)
    const fresh = publications.flatMap((publication, i): StoredMessage[] => {
      const identity = identities[i] as Identity
      const hasRows = accepted.has(identity.key) && !wide[i] && isFresh(publication)
      return hasRows ? [{ publication, identity, dueAt: answer.now }] : []
    })
    return { answers, queued, fresh, opened, now: answer.now }
  }

  /** Twins of one group take turns, so that the second finds the message of the first. */
  async function store(within: Within, next: () => number, publications: readonly Publication[]): Promise<Stored> {
    const answers: Published[] = []
    const queued: Publication[] = []
    const fresh: StoredMessage[] = []
    const opened: PlannedDelivery[] = []
    let now = 0
    for (let left = [...publications.entries()]; left.length > 0; ) {
      const [turn, later] = withoutTwins(left)
      const together = turn.map(([, publication]) => publication)
      const stored = await within(together, (run) => storeApart(run, next, together))
      for (const [n, [i]] of turn.entries()) answers[i] = stored.answers[n] as Published
      queued.push(...stored.queued)
      fresh.push(...stored.fresh)
      opened.push(...stored.opened)
      now = stored.now
      left = later
    }
    return { answers, queued, fresh, opened, now }
  }

  /** Plain publications are one statement; others need a transaction around its statements. */
  const byItself: Within = (publications, work) =>
    publications.every((each) => isPlain(each) && !endsEarly(each) && !namesSubjects(each))
      ? work(durable.run)
      : durable.transaction(work)

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

  return {
    async publish(publications) {
      if (publications.length === 0) return []
      const begunAt = context.clock.steady()
      const stored = await persisting((next) => store(byItself, next, publications))
      announce(database, stored, begunAt)
      return stored.answers
    },

    async publishTogether(publications, once, along) {
      const begunAt = context.clock.steady()
      try {
        const { result, stored } = await persisting((next) =>
          durable.transaction(async (run) => {
            const [found] = once ? await findTaken(run, [once.hash]) : []
            if (found) throw new Refused(repeatedTogether(found, once as Once))
            const stored = await store((_, work) => work(run), next, publications)
            const messages = allAccepted(stored.answers)
            if (once) await takeTogether(run, once, messages)
            await along?.(run, messages)
            return { result: { state: 'accepted' as const, messages }, stored }
          }),
        )
        announce(database, stored, begunAt)
        return result
      } catch (error) {
        if (error instanceof Refused) return error.answer
        throw error
      }
    },

    expand: fanOut(database),
  }
}

const insertPayloadEnds = statement(
  'insert-payload-ends',
  `
    insert into payload_end (message, app, at, once_delivered, over_at)
    select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::boolean[], $5::bigint[])`,
)

/** Whether the body of a message is erased before the message is removed. */
export function endsEarly(publication: Publication): boolean {
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
    const end = payloadEndOf(publication, now + Math.ceil(Math.max(0, publication.delayMs)))
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

const insertSubjects = statement(
  'insert-subjects',
  `
    insert into subject (app, hash, message)
    select * from unnest($1::bigint[], $2::text[], $3::bigint[])`,
)

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
