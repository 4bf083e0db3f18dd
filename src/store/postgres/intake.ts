import { fresh } from '../../domain/delivery.ts'
import { encodeId } from '../../domain/ids.ts'
import { queuedAtOnce, wideOnes } from '../fan-out.ts'
import type { Once } from '../idempotency.ts'
import type { Intake, Publication, Published, PublishedTogether, Special } from '../intake.ts'
import { isPlain, keptPlan, queuedInOrder } from '../plan.ts'
import { openRegion } from '../regions.ts'
import { type SubscriptionRow, toJson, toSubscription } from '../rows.ts'
import { integers, packed, texts } from './arrays.ts'
import type { Database, Identity } from './database.ts'
import { fanOut } from './fan-out.ts'
import { findTaken, type Taken, take } from './idempotency.ts'
import {
  enqueuePlanned,
  keepVariants,
  nothingCoalesced,
  type PlannedDelivery,
  type WhatCoalesced,
  whatCoalesced,
} from './planned.ts'
import { withClock } from './server-time.ts'
import type { Run, Statement } from './sessions.ts'
import { stateOf } from './trouble.ts'
import { waitingCounter } from './waiting.ts'

const selectSubscriptions: Statement = {
  name: 'subscriptions',
  text: `
    select a.version, a.dedupe_s, e.key, e.id, e.event_types, e.channels, e.disabled, e.flow,
           case when e.flow is not null then e.secrets end as secrets
      from application a left join endpoint e on e.app = a.key and e.deleted_at is null
     where a.key = $1 and a.deleted_at is null
     order by e.key`,
}

const selectRegions: Statement = { name: 'regions-of', text: 'select name, secret from region where app = $1' }

/**
 * Everything of a group in one statement, and so in one transaction of its own and one round trip. A publication whose
 * version is not the application's any more falls out in `current`; one that may be stored only once and was, in `open`;
 * one whose event id is taken, by an earlier message or by an earlier one of this group, in `accepted`. Event ids and
 * hashes are taken in one order by everyone, so that no two groups deadlock. Of a group that is not all plain, the
 * deliveries that are not are queued by further statements of the same transaction.
 */
function publishStatement(name: string, { hasEventIds = false, hasOnce = false, hasPlans = false }): Statement {
  return {
    name,
    text: `
      ${withClock}, current as materialized (
        select m.*
          from unnest(
                 $1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[],
                 $9::text[], $10::bigint[], $11::integer[], $12::integer[], $14::text[], $15::text[], $16::boolean[]
                 ${hasPlans ? ', $21::bigint[], $22::text[], $23::text[], $24::text[]' : ''}
               ) as m (key, id, app, version, event_type, event_id, channels, content_type, endpoints, delay_ms, start, length,
                       tags, headers, wide ${hasPlans ? ', expires_in_ms, ordering_key, plan, plain' : ''})
         cross join lateral (
                 select from application where key = m.app and version = m.version and deleted_at is null limit 1
               ) as unchanged
      ), ${hasOnce ? sqlOpen : ''} ${hasEventIds ? sqlReserved(hasOnce) : ''} accepted as materialized (
        select * from ${hasOnce ? 'open' : 'current'}
         where ${hasEventIds ? 'event_id is null or key in (select message from reserved)' : 'true'}
      ), stored as (
        insert into message
               (key, id, app, event_type, event_id, channels, content_type, endpoints, body, tags, headers, deliver_at
                ${hasPlans ? ', expires_at, ordering_key, plan' : ''})
        select key, id, app, event_type, event_id, channels::json, content_type, endpoints::bigint[],
               substring($13::bytea from start for length), tags::json, headers::json,
               case when delay_ms > 0 then now + delay_ms end
               ${hasPlans ? ', now + expires_in_ms, ordering_key, plan::json' : ''}
          from clock, accepted
      ), queued as (
        insert into pending
               (endpoint, class, due_at, message, since, attempts, prior_attempts ${hasPlans ? ', expires_at' : ''})
        select endpoint, case when delay_ms > 0 then 1 else 0 end, now + delay_ms, key, now + delay_ms, 0, 0
               ${hasPlans ? ', now + expires_in_ms' : ''}
          from clock, accepted, unnest(${hasPlans ? 'plain' : 'endpoints'}::bigint[]) as endpoint
         where not wide
      ), spread as (
        insert into fan_out (message, since, next) select key, now + delay_ms, 0 from clock, accepted where wide
      )${hasOnce ? sqlTaken : ''}
      select now, (select array_agg(key) from current) as current, (select array_agg(key) from accepted) as accepted
             ${hasOnce ? sqlAllTaken : ''}
        from clock`,
  }
}

// Without the sum, the planner prefers the index over expires_at, and with it all that has not expired.
const sqlOpen = `
  once as materialized (
    select * from unnest($17::bigint[], $18::text[], $19::text[], $20::bigint[]) as o (key, hash, fingerprint, ttl_ms)
  ), used as materialized (
    select o.key from clock, once o
     cross join lateral (select from idempotency where hash = o.hash and expires_at + 0 > now limit 1) as i
  ), open as materialized (
    select * from current where key not in (select key from used)
  ),`

function sqlReserved(hasOnce: boolean): string {
  return `
    reserved as (
      insert into event_id (app, event_id, message)
      select app, event_id, key from ${hasOnce ? 'open' : 'current'}
       where event_id is not null order by app, event_id, key
      on conflict do nothing
      returning message
    ),`
}

const sqlTaken = `
  , taking as materialized (
    select once.* from once where key in (select key from accepted)
  ), taken as (
    insert into idempotency (hash, fingerprint, expires_at, message)
    select hash, fingerprint, now + ttl_ms, key from clock, taking order by hash
    on conflict (hash) do update
      set fingerprint = excluded.fingerprint, expires_at = excluded.expires_at, message = excluded.message,
          status = null, answer = null
      where idempotency.expires_at <= (select now from clock)
    returning 1
  )`

/**
 * Divides by zero when another process took one of the hashes between our look and our insert. That undoes everything,
 * and the group is stored anew: this time the look finds it.
 */
const sqlAllTaken = `
  , 1 / (case when (select count(*) from taken) = (select count(*) from taking) then 1 else 0 end) as all_taken`
const overtaken = '22012'
const overtakenTries = 5

export const publishPlain = publishStatement('publish', {})
export const publishWithEventIds = publishStatement('publish-event-ids', { hasEventIds: true })
export const publishOnce = publishStatement('publish-once', { hasOnce: true })
export const publishOnceWithEventIds = publishStatement('publish-once-event-ids', { hasEventIds: true, hasOnce: true })
// Whatever its messages have, so that there is only one.
export const publishPlanned = publishStatement('publish-planned', { hasEventIds: true, hasOnce: true, hasPlans: true })

// By itself, after the publishing: a reservation made by another transaction at the same moment is invisible to it.
export const selectByEventIds: Statement = {
  name: 'by-event-ids',
  text: `
    select wanted.n, m.id
      from unnest($1::bigint[], $2::text[]) with ordinality as wanted (app, event_id, n)
     cross join lateral (
             select message from event_id where app = wanted.app and event_id = wanted.event_id limit 1
           ) as e
     cross join lateral (select id from message where key = e.message limit 1) as m`,
}

const insertPayloadEnds: Statement = {
  name: 'insert-payload-ends',
  text: `
    insert into payload_end (message, app, at)
    select message, app, at from unnest($1::bigint[], $2::bigint[], $3::bigint[]) as ending (message, app, at)`,
}

interface Answer {
  readonly now: number
  readonly current: number[] | null
  readonly accepted: number[] | null
}

interface Inserted {
  readonly identities: readonly Identity[]
  readonly answer: Answer
}

interface VersionRow {
  readonly version: number
  readonly dedupe_s: number | null
  readonly key: null
}

const noRegions: ReadonlyMap<string, string | null> = new Map()

/** What one transaction did, for those who are to be told after it. */
interface Stored {
  readonly answers: Published[]
  readonly queued: readonly Publication[]
  /** Deliveries that wait for the end of a window they opened. */
  readonly opened: readonly PlannedDelivery[]
  readonly now: number
}

/** Runs what stores these publications in the transaction they belong in. */
type Within = (publications: readonly Publication[], work: (run: Run) => Promise<Stored>) => Promise<Stored>

/** Ends a transaction of several messages because one of them was refused. */
class Refused extends Error {
  readonly answer: PublishedTogether

  constructor(answer: PublishedTogether) {
    super('refused')
    this.answer = answer
  }
}

/** Takes messages in, if need be along with something else. */
export interface IntakeAlong extends Intake {
  /** `along` is run in the transaction that stored these messages; what it rejects with undoes them. */
  publishTogether(
    publications: readonly Publication[],
    once: Once | null,
    along?: (run: Run, messages: readonly Identity[]) => Promise<void>,
  ): Promise<PublishedTogether>
}

/** Takes messages in. */
export function intake(database: Database): IntakeAlong {
  const { durable, keys, time, context } = database

  async function regionSecrets(app: number): Promise<ReadonlyMap<string, string | null>> {
    const rows = await durable.run<{ name: string; secret: string }>(selectRegions, [app])
    const { vault, log } = context
    return new Map(rows.map(({ name, secret }) => [name, openRegion(vault, secret, { app, name }, log)]))
  }

  /** Stores a group under new keys and answers which of them were current and which were accepted. */
  async function insert(run: Run, next: () => number, publications: readonly Publication[]): Promise<Inserted> {
    const statement = statementFor(publications)
    const identities = publications.map(() => {
      const key = next()
      return { key, id: encodeId('msg', key, context.randomText) }
    })
    const values = [integers(identities.map((i) => i.key)), texts(identities.map((i) => i.id))]
    values.push(...(contentsOf(publications) as string[]))
    if (statement !== publishPlain && statement !== publishWithEventIds) {
      values.push(...onceOf(publications, identities))
    }
    if (statement === publishPlanned) values.push(...plansOf(publications))
    const [answer] = await run<Answer>(statement, values)
    return { identities, answer: answer as Answer }
  }

  /** Publications of which no two may be stored only once for the same reason. */
  async function storeApart(run: Run, next: () => number, publications: readonly Publication[]): Promise<Stored> {
    const { identities, answer } = await insert(run, next, publications)
    time.learn(answer.now)
    const planned = acceptedPlans(publications, identities, answer)
    const { merged, opened } = planned.length > 0 ? await queuePlans(run, planned, answer.now) : nothingCoalesced
    const current = new Set(answer.current)
    const accepted = new Set(answer.accepted)
    if (publications.some(endsEarly)) await keepPayloadEnds(run, publications, identities, accepted, answer.now)
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
    return { answers, queued, opened, now: answer.now }
  }

  /** Twins of one group take turns, so that the second finds what the first became. */
  async function store(within: Within, next: () => number, publications: readonly Publication[]): Promise<Stored> {
    const answers: Published[] = []
    const queued: Publication[] = []
    const opened: PlannedDelivery[] = []
    let now = 0
    for (let left = [...publications.entries()]; left.length > 0; ) {
      const [turn, later] = withoutTwins(left)
      const together = turn.map(([, publication]) => publication)
      const stored = await within(together, (run) => storeApart(run, next, together))
      for (const [n, [i]] of turn.entries()) answers[i] = stored.answers[n] as Published
      queued.push(...stored.queued)
      opened.push(...stored.opened)
      now = stored.now
      left = later
    }
    return { answers, queued, opened, now }
  }

  /** What is plain is one statement; the rest needs a transaction around its statements. */
  const byItself: Within = (publications, work) =>
    publications.every((each) => isPlain(each) && !endsEarly(each)) ? work(durable.run) : durable.transaction(work)

  /** Again when another process overtook it. */
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
    async subscriptions(app) {
      const rows = await durable.run<VersionRow | (Omit<VersionRow, 'key'> & SubscriptionRow)>(selectSubscriptions, [
        app,
      ])
      const [first] = rows
      if (first === undefined) return undefined
      const endpoints = rows.flatMap((row) => (row.key === null ? [] : [row]))
      const secrets = endpoints.some(({ flow }) => flow?.region != null) ? await regionSecrets(app) : noRegions
      const list = endpoints.map((row) => toSubscription(row, app, context, secrets))
      return { version: first.version, list, dedupeSeconds: first.dedupe_s }
    },

    async publish(publications) {
      if (publications.length === 0) return []
      const stored = await persisting((next) => store(byItself, next, publications))
      announce(database, stored)
      return stored.answers
    },

    async publishTogether(publications, once, along) {
      try {
        const { result, stored } = await persisting((next) =>
          durable.transaction(async (run) => {
            const [found] = once ? await findTaken(run, [once.hash]) : []
            if (found) throw new Refused(repeatedTogether(found, once as Once))
            const stored = await store((_, work) => work(run), next, publications)
            const messages = stored.answers.map((answer, index): Identity => {
              if (answer.state === 'conflict') throw new Refused({ ...answer, index })
              if (answer.state === 'stale' || answer.state === 'mismatch') throw new Refused(answer)
              return { key: answer.key, id: answer.id }
            })
            if (once) await takeFor(run, once, messages)
            await along?.(run, messages)
            return { result: { state: 'accepted' as const, messages }, stored }
          }),
        )
        announce(database, stored)
        return result
      } catch (error) {
        if (error instanceof Refused) return error.answer
        throw error
      }
    },

    expand: fanOut(database),
    surveyWaiting: waitingCounter(database),
  }
}

function statementFor(publications: readonly Publication[]): Statement {
  if (!publications.every(isPlain)) return publishPlanned
  const hasEventIds = publications.some((p) => p.eventId !== null)
  if (publications.some((p) => p.once !== undefined && p.once.length > 0)) {
    return hasEventIds ? publishOnceWithEventIds : publishOnce
  }
  return hasEventIds ? publishWithEventIds : publishPlain
}

/** Divides what has no hash in common from what must wait for its twin. */
function withoutTwins(list: readonly [number, Publication][]): [[number, Publication][], [number, Publication][]] {
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

/** Why publications at the right version were not stored. What is missing in the answer is to be tried again. */
async function reasonsOf(run: Run, refused: readonly Publication[]): Promise<Map<Publication, Published>> {
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
      // Whoever repeats this request later is to be answered the same, also when what it met here has expired.
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

async function takeFor(run: Run, once: Once, messages: readonly Identity[]): Promise<void> {
  const answer = Buffer.from(JSON.stringify(messages.map(({ key, id }) => [key, id])))
  const taken = await take(run, [{ once, message: messages[0]?.key ?? null }], answer)
  if (taken === 0) throw Object.assign(new Error('the hash was taken meanwhile'), { code: overtaken })
}

function repeatedTogether({ fingerprint, answer }: Taken, once: Once): PublishedTogether {
  if (fingerprint !== once.fingerprint || answer === null) return { state: 'mismatch' }
  const pairs: [number, string][] = JSON.parse(new TextDecoder().decode(answer))
  return { state: 'repeated', messages: pairs.map(([key, id]) => ({ key, id })) }
}

/** Parameters 3 to 16 of a publish statement. */
function contentsOf(publications: readonly Publication[]): unknown[] {
  const bodies = packed(publications.map((p) => p.body))
  return [
    integers(publications.map((p) => p.app)),
    integers(publications.map((p) => p.version)),
    texts(publications.map((p) => p.eventType)),
    texts(publications.map((p) => p.eventId)),
    texts(publications.map((p) => toJson(p.channels))),
    texts(publications.map((p) => p.contentType)),
    texts(publications.map((p) => integers(p.endpoints))),
    integers(publications.map((p) => Math.max(0, Math.ceil(p.delayMs)))),
    bodies.starts,
    bodies.lengths,
    bodies.bytes,
    texts(publications.map((p) => toJson(p.tags ?? null))),
    texts(publications.map((p) => toJson(p.headers ?? null))),
    `{${wideOnes(publications).join(',')}}`,
  ]
}

/** Parameters 17 to 20. */
function onceOf(publications: readonly Publication[], identities: readonly Identity[]): string[] {
  const list = publications.flatMap(({ once = [] }, i) =>
    once.map((each) => ({ ...each, key: identities[i]?.key as number })),
  )
  return [
    integers(list.map((each) => each.key)),
    texts(list.map((each) => each.hash)),
    texts(list.map((each) => each.fingerprint)),
    integers(list.map((each) => Math.ceil(each.ttlMs))),
  ]
}

/** Parameters 21 to 24. */
function plansOf(publications: readonly Publication[]): string[] {
  const wide = wideOnes(publications)
  return [
    integers(publications.map(({ expiresInMs }) => (expiresInMs == null ? null : Math.floor(expiresInMs)))),
    texts(publications.map(({ orderingKey }) => orderingKey ?? null)),
    texts(publications.map(({ special }, i) => toJson(keptPlan(special, wide[i] === true)))),
    texts(publications.map(plainOnes)),
  ]
}

/** Whether a message's body goes before it does. */
function endsEarly({ payloadForMs }: Publication): boolean {
  return payloadForMs != null
}

async function keepPayloadEnds(
  run: Run,
  publications: readonly Publication[],
  identities: readonly Identity[],
  accepted: ReadonlySet<number>,
  now: number,
): Promise<void> {
  const ending = publications.flatMap(({ app, delayMs, payloadForMs }, i) => {
    const { key } = identities[i] as Identity
    const at = now + Math.ceil(Math.max(0, delayMs)) + Math.ceil(payloadForMs ?? 0)
    return payloadForMs == null || !accepted.has(key) ? [] : [{ key, app, at }]
  })
  await run(insertPayloadEnds, [
    integers(ending.map(({ key }) => key)),
    integers(ending.map(({ app }) => app)),
    integers(ending.map(({ at }) => at)),
  ])
}

/** The endpoints whose deliveries the publish statement queues itself. */
function plainOnes({ endpoints, special }: Publication): string {
  if (!special?.length) return integers(endpoints)
  const others = new Set(special.map(({ endpoint }) => endpoint))
  return integers(endpoints.filter((endpoint) => !others.has(endpoint)))
}

interface AcceptedPlan {
  readonly key: number
  readonly publication: Publication
  readonly wide: boolean
}

function acceptedPlans(
  publications: readonly Publication[],
  identities: readonly Identity[],
  answer: Answer,
): AcceptedPlan[] {
  if (publications.every(isPlain)) return []
  const accepted = new Set(answer.accepted)
  const wide = wideOnes(publications)
  return publications.flatMap((publication, i) => {
    const { key } = identities[i] as Identity
    return accepted.has(key) && !isPlain(publication) ? [{ key, publication, wide: wide[i] === true }] : []
  })
}

/** Queues what the publish statement left out, and stores what it is sent with. */
async function queuePlans(run: Run, plans: readonly AcceptedPlan[], now: number): Promise<WhatCoalesced> {
  await keepVariants(
    run,
    plans.map(({ key, publication }) => ({ key, variants: publication.variants ?? [] })),
  )
  const deliveries = plans.flatMap(({ key, publication, wide }) =>
    (publication.special ?? [])
      .filter(({ orderKey }) => !wide || orderKey !== undefined)
      .map((special) => toPlanned(key, publication, special, now)),
  )
  return whatCoalesced(await enqueuePlanned(run, now, deliveries))
}

function toPlanned(message: number, publication: Publication, special: Special, now: number): PlannedDelivery {
  const { endpoint, ...planned } = special
  const { app, expiresInMs } = publication
  return {
    message,
    app,
    endpoint,
    since: now + Math.max(0, Math.ceil(publication.delayMs)),
    expiresAt: expiresInMs == null ? null : now + Math.floor(expiresInMs),
    planned,
  }
}

/** The endpoints in whose queues something was put that is due when its message is. */
function queuedFor({ endpoints, special }: Publication): readonly number[] {
  if (special === undefined) return endpoints
  const others = new Set<number>()
  for (const { endpoint, drop, coalesce } of special) {
    if (drop !== undefined || coalesce !== undefined) others.add(endpoint)
  }
  return others.size === 0 ? endpoints : endpoints.filter((endpoint) => !others.has(endpoint))
}

/** Tells this process's watcher of rows just committed, and has the lanes that nobody owns woken. */
function announce({ signals, wakes }: Database, { queued, opened, now }: Stored): void {
  const endpoints = new Set<number>()
  const freshOnes = new Set<number>()
  let onlyFresh = opened.length === 0
  // What took another's place is due when that was, and its lane knows.
  for (const { endpoint, since } of opened) {
    wakes.wish([endpoint], since, false)
    endpoints.add(endpoint)
  }
  if (wideOnes(queued).includes(true)) signals.fanOuts()
  for (const publication of queued) {
    // The other lanes are woken when it is expanded.
    const isWide = publication.endpoints.length > queuedAtOnce
    const those = isWide ? queuedInOrder(publication) : queuedFor(publication)
    const isFresh = publication.delayMs <= 0
    if (!isFresh) {
      onlyFresh = false
      wakes.wish(those, now + Math.ceil(publication.delayMs), false)
    }
    for (const endpoint of those) {
      endpoints.add(endpoint)
      if (isFresh) freshOnes.add(endpoint)
    }
  }
  if (endpoints.size === 0) return
  wakes.wish(freshOnes, 0, true)
  signals.rows([...endpoints], onlyFresh ? fresh : undefined)
}
