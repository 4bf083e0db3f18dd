import type { EpochMs } from '../../domain/clock.ts'
import { fresh, timed } from '../../domain/delivery.ts'
import type { Identity } from '../../domain/ids.ts'
import { untried } from '../delivering.ts'
import { delayOf, isPlain, type Planned } from '../plan.ts'
import type { Publication, Special, Variant } from '../publishing.ts'
import { keepForFile, letterColumns } from '../sql/dead-filing.ts'
import { integers, packed, texts } from './arrays.ts'
import { joinAll } from './coalescing.ts'
import { postgresStatement, type Run } from './sessions.ts'

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

const queuePlanned = postgresStatement(
  'queue-planned',
  `
    insert into pending
           (endpoint, class, due_at, message, since, attempts, prior_attempts, order_key, expires_at, variant)
    select p.endpoint, p.class, ${behindOthers}, p.message, p.since, 0, 0, p.order_key, p.expires_at, p.variant
      from unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                  $8::smallint[])
             as p (endpoint, class, due_at, message, since, order_key, expires_at, variant)`,
)

const dropPlanned = postgresStatement(
  'drop-planned',
  `
    with dead as (
      insert into dead (${letterColumns})
      select p.endpoint, p.message, p.app, p.reason, 0, p.died_at, p.since, ${untried.status}, '${untried.code}', null, null
        from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[])
               as p (endpoint, message, app, reason, died_at, since)
      returning ${letterColumns}
    )
    ${keepForFile('dead where true')}`,
)

const insertVariants = postgresStatement(
  'insert-variants',
  `
    insert into variant (message, n, body, signature)
    select v.message, v.n, substring($5::bytea from v.start for v.length), v.signature
      from unnest($1::bigint[], $2::smallint[], $3::integer[], $4::integer[], $6::text[])
             as v (message, n, start, length, signature)`,
)

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
export interface Enqueued {
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
export interface CoalescedGroup {
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
export interface AcceptedPlan {
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
