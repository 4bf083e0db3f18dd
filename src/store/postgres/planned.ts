import type { EpochMs } from '../../domain/clock.ts'
import { fresh, timed } from '../../domain/delivery.ts'
import type { Identity } from '../../domain/ids.ts'
import { untried } from '../delivering.ts'
import { delayOf, isPlain, type Plan, type Planned, plainly } from '../plan.ts'
import { type Expansion, nothingExpanded, type Publication, type Special, type Variant } from '../publishing.ts'
import { letterColumns } from '../sql/message-rows.ts'
import { joinAll } from './coalescing.ts'
import { type Database, withClock } from './database.ts'
import { integers, packed, postgresStatement, type Run, texts } from './sessions.ts'

/**
 * An ordered delivery goes behind all that were accepted before, also by another process, in the same millisecond or before
 * a clock was set back. Messages that were answered before this statement began are visible to it, and so in front; of
 * messages that are stored at the same moment, none was first. Leans on pending's primary key, read backwards.
 */
const behindOthers = `
  case when p.order_key is null or p.class <> ${fresh} then p.due_at else greatest(p.due_at, coalesce((
    select due_at + case when message < (select min(m) from unnest($4::bigint[]) as m) then 0 else 1 end
      from pending where endpoint = p.endpoint and class = ${fresh} order by due_at desc, message desc limit 1
  ), 0)) end`

const queuePlanned = postgresStatement('queue-planned')`
  insert into pending
         (endpoint, class, due_at, message, since, attempts, prior_attempts, order_key, expires_at, variant)
  select p.endpoint, p.class, ${behindOthers}, p.message, p.since, 0, 0, p.order_key, p.expires_at, p.variant
    from unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                $8::smallint[])
           as p (endpoint, class, due_at, message, since, order_key, expires_at, variant)`

const dropPlanned = postgresStatement('drop-planned')`
  insert into dead (${letterColumns})
  select p.endpoint, p.message, p.app, p.reason, 0, p.died_at, p.since, ${untried.status}, '${untried.code}', null, null
    from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[])
           as p (endpoint, message, app, reason, died_at, since)`

const insertVariants = postgresStatement('insert-variants')`
  insert into variant (message, n, body, signature)
  select v.message, v.n, substring($5::bytea from v.start for v.length), v.signature
    from unnest($1::bigint[], $2::smallint[], $3::integer[], $4::integer[], $6::text[])
           as v (message, n, start, length, signature)`

/** A delivery to be queued by its plan. */
export interface PlannedDelivery {
  readonly message: number
  readonly app: number
  readonly endpoint: number
  readonly since: EpochMs
  readonly expiresAt: EpochMs | null
  readonly planned: Planned
}

/** The outcome of planned deliveries. */
interface Enqueued {
  /** Deliveries that were queued. */
  readonly waiting: readonly PlannedDelivery[]
  /** Deliveries by which no queue grew: each replaced another, or was replaced at once. */
  readonly merged: readonly PlannedDelivery[]
}

/**
 * Queues deliveries that are not plain, inside the caller's transaction. Late deliveries are queued some time after their
 * messages were accepted.
 */
export async function enqueuePlanned(
  run: Run,
  now: EpochMs,
  deliveries: readonly PlannedDelivery[],
  areLate = false,
): Promise<Enqueued> {
  const dropped = deliveries.filter(({ planned }) => planned.drop !== undefined)
  const { waiting, merged } = await coalesce(
    run,
    deliveries.filter(({ planned }) => planned.drop === undefined),
    areLate,
  )
  if (dropped.length > 0) {
    await run(dropPlanned, [
      integers(dropped.map((d) => d.endpoint)),
      integers(dropped.map((d) => d.message)),
      integers(dropped.map((d) => d.app)),
      texts(dropped.map((d) => d.planned.drop as string)),
      integers(dropped.map(() => now)),
      integers(dropped.map((d) => d.since)),
    ])
  }
  if (waiting.length > 0) {
    await run(queuePlanned, [
      integers(waiting.map((d) => d.endpoint)),
      integers(waiting.map((d) => (d.since > now ? timed : fresh))),
      integers(waiting.map((d) => Math.max(d.since, now))),
      integers(waiting.map((d) => d.message)),
      integers(waiting.map((d) => d.since)),
      integers(waiting.map((d) => d.planned.orderKey ?? null)),
      integers(waiting.map((d) => d.expiresAt)),
      integers(waiting.map((d) => d.planned.variant ?? null)),
    ])
  }
  return { waiting, merged }
}

/** Deliveries that coalesce join their windows: each waits for the end of its window, or is replaced. */
async function coalesce(run: Run, deliveries: readonly PlannedDelivery[], areLate: boolean): Promise<Enqueued> {
  const joining = deliveries.flatMap((delivery) => {
    const { endpoint, message, planned } = delivery
    return planned.coalesce === undefined ? [] : [{ delivery, endpoint, message, ...planned.coalesce }]
  })
  if (joining.length === 0) return { waiting: deliveries, merged: [] }
  const joined = await joinAll(run, joining, areLate)
  const windows = new Map(joining.map(({ delivery }, i) => [delivery, joined[i]]))
  const waiting = deliveries.flatMap((delivery) => {
    if (delivery.planned.coalesce === undefined) return [delivery]
    const window = windows.get(delivery)
    return window === undefined ? [] : [{ ...delivery, since: window.dueAt }]
  })
  const merged = joining.flatMap(({ delivery }) => (windows.get(delivery)?.replaces === false ? [] : [delivery]))
  return { waiting, merged }
}

/** The outcome of coalescing a group's deliveries. */
interface CoalescedGroup {
  /** The endpoints, by message, whose queues did not grow. */
  readonly merged: ReadonlyMap<number, readonly number[]>
  /** Deliveries that wait for the end of a window they opened. */
  readonly opened: readonly PlannedDelivery[]
}

export const nothingCoalesced: CoalescedGroup = { merged: new Map(), opened: [] }

function coalescedGroup({ waiting, merged }: Enqueued): CoalescedGroup {
  const mergedAt = new Map<number, Set<number>>()
  for (const { message, endpoint } of merged) {
    const endpoints = mergedAt.get(message)
    if (endpoints) endpoints.add(endpoint)
    else mergedAt.set(message, new Set([endpoint]))
  }
  return {
    merged: new Map([...mergedAt].map(([message, endpoints]) => [message, [...endpoints]])),
    opened: waiting.filter(({ message, endpoint, planned }) => {
      return planned.coalesce !== undefined && !mergedAt.get(message)?.has(endpoint)
    }),
  }
}

/** Stores the variants of messages. */
async function keepVariants(
  run: Run,
  messages: readonly { readonly key: number; readonly variants: readonly Variant[] }[],
): Promise<void> {
  const list = messages.flatMap(({ key, variants }) => variants.map((variant, n) => ({ key, n, variant })))
  if (list.length === 0) return
  const bodies = packed(list.map(({ variant }) => variant.body))
  await run(insertVariants, [
    integers(list.map(({ key }) => key)),
    integers(list.map(({ n }) => n)),
    bodies.starts,
    bodies.lengths,
    bodies.bytes,
    texts(list.map(({ variant }) => variant.signature)),
  ])
}

/** An accepted publication that is not plain, and its key. */
interface AcceptedPlan {
  readonly key: number
  readonly publication: Publication
  readonly wide: boolean
}

/** The accepted publications that are not plain. */
export function acceptedPlans(
  publications: readonly Publication[],
  identities: readonly Identity[],
  wide: readonly boolean[],
  keys: readonly number[] | null,
): AcceptedPlan[] {
  if (publications.every(isPlain)) return []
  const accepted = new Set(keys)
  return publications.flatMap((publication, i) => {
    const { key } = identities[i] as Identity
    return accepted.has(key) && !isPlain(publication) ? [{ key, publication, wide: wide[i] === true }] : []
  })
}

/** Queues the deliveries that the publish statement left out, and stores their variants. */
export async function queuePlans(run: Run, plans: readonly AcceptedPlan[], now: number): Promise<CoalescedGroup> {
  await keepVariants(
    run,
    plans.map(({ key, publication }) => ({ key, variants: publication.variants ?? [] })),
  )
  const deliveries = plans.flatMap(({ key, publication, wide }) =>
    (publication.special ?? [])
      .filter(({ orderKey }) => !wide || orderKey !== undefined)
      .map((special) => toPlanned(key, publication, special, now)),
  )
  return coalescedGroup(await enqueuePlanned(run, now, deliveries))
}

function toPlanned(message: number, publication: Publication, special: Special, now: number): PlannedDelivery {
  const { endpoint, ...planned } = special
  const { app, expiresInMs } = publication
  return {
    message,
    app,
    endpoint,
    since: now + delayOf(publication),
    expiresAt: expiresInMs == null ? null : now + Math.floor(expiresInMs),
    planned,
  }
}

/**
 * Queues the next deliveries of the oldest wide message that no other transaction expands. The rows and the cursor behind
 * them are one statement, so that a crash between two chunks leaves neither a gap nor a row twice. The endpoints of the
 * message were chosen when it was accepted; those deleted since then are left out. An expunged message is expanded no
 * further. A message with a plan is left alone unless $2 is true: then the chunk is answered with its plan, and the same
 * transaction queues it. (The plan may be megabytes, and looking up each endpoint here would parse it every time.)
 */
const expandOldest = postgresStatement('expand')`
  ${withClock}, wide as materialized (
    select message, since, next from fan_out order by message limit 1 for update skip locked
  ), listed as materialized (
    select wide.*, m.app, m.endpoints, m.expires_at, m.plan
      from wide left join lateral (
             select app, endpoints, expires_at, plan from message
              where key = wide.message and expunged_at is null limit 1
           ) as m on true
     where m.plan is null or $2
  ), chunk as materialized (
    select c.endpoint
      from listed
     cross join lateral unnest(endpoints[next + 1 : next + $1::integer]) as c (endpoint)
     cross join lateral (select from endpoint where key = c.endpoint and deleted_at is null limit 1) as live
  ), queued as (
    insert into pending (endpoint, class, due_at, message, since, attempts, prior_attempts, expires_at)
    select endpoint, case when since > now then ${timed} else ${fresh} end, greatest(since, now), message, since, 0, 0,
           expires_at
      from clock, listed, chunk
     where plan is null
    returning endpoint
  ), done as (
    delete from fan_out
     where message = (select message from listed where next + $1::integer >= coalesce(cardinality(endpoints), 0))
    returning 1
  ), moved as (
    update fan_out set next = next + $1::integer
     where message = (select message from listed where next + $1::integer < coalesce(cardinality(endpoints), 0))
    returning 1
  )
  select now, (select since from wide) as since, (select array_agg(endpoint) from queued) as endpoints,
         (select count(*) from done) as done, (select count(*) from fan_out) as left_over, listed.message, listed.app,
         listed.expires_at, listed.message is null as left_alone, listed.plan,
         case when listed.plan is not null then (select array_agg(endpoint) from chunk) end as chunk
    from clock left join listed on true`

interface Expanded {
  readonly now: number
  /** Null when there was nothing to expand, or other transactions expand all of it. */
  readonly since: number | null
  readonly endpoints: number[] | null
  readonly done: number
  /** Wide messages that were not expanded yet, this one included. */
  readonly left_over: number
  readonly left_alone: boolean
  readonly message: number
  readonly app: number
  readonly expires_at: number | null
  readonly plan: Plan | null
  /** The next endpoints, when there is a plan for them. */
  readonly chunk: number[] | null
  /** Endpoints at which a delivery replaced a waiting one, or was replaced. */
  readonly merged?: readonly number[]
}

/** Makes the function that expands wide messages. Not waiting for the disk is safe: lost rows are queued again. */
export function fanOut({ relaxed, signals, wakes }: Database): (limit: number) => Promise<Expansion> {
  async function expandPlanned(run: Run, limit: number): Promise<Expanded> {
    const [row] = await run<Expanded>(expandOldest, [limit, true])
    const expanded = row as Expanded
    const { now, since, message, app, expires_at: expiresAt, plan, chunk } = expanded
    if (since === null || plan === null || chunk === null) return expanded
    const { waiting, merged } = await enqueuePlanned(
      run,
      now,
      chunk
        .map((endpoint) => ({ message, app, endpoint, since, expiresAt, planned: plan[endpoint] ?? plainly }))
        .filter(({ planned }) => planned.orderKey === undefined),
      true,
    )
    const endpoints = [...(expanded.endpoints ?? []), ...waiting.map(({ endpoint }) => endpoint)]
    return { ...expanded, endpoints, merged: merged.map(({ endpoint }) => endpoint) }
  }

  return async (limit) => {
    let [row] = await relaxed.run<Expanded>(expandOldest, [limit, false])
    if (row?.since === null) return nothingExpanded
    if (row?.left_alone) row = await relaxed.transaction((run) => expandPlanned(run, limit))
    const { now, since, endpoints, done, left_over: leftOver, app, merged = [] } = row as Expanded
    if (since === null) return nothingExpanded
    if (endpoints !== null) {
      const isFresh = since <= now
      wakes.request(endpoints, isFresh ? 0 : since, isFresh)
      signals.rows(endpoints, isFresh ? fresh : undefined)
    }
    return { more: leftOver > done, merged: merged.length === 0 ? [] : [{ app, endpoints: merged }] }
  }
}
