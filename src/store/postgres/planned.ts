import type { EpochMs } from '../../domain/clock.ts'
import { fresh, timed } from '../../domain/delivery.ts'
import type { Planned } from '../plan.ts'
import type { Variant } from '../store.ts'
import { untried } from '../untried.ts'
import { integers, packed, texts } from './arrays.ts'
import type { Run, Statement } from './sessions.ts'

export const queuePlanned: Statement = {
  name: 'queue-planned',
  text: `
    insert into pending
           (endpoint, class, due_at, message, since, attempts, prior_attempts, order_key, expires_at, variant)
    select p.endpoint, p.class, p.due_at, p.message, p.since, 0, 0, p.order_key, p.expires_at, p.variant
      from unnest($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                  $8::smallint[])
             as p (endpoint, class, due_at, message, since, order_key, expires_at, variant)`,
}

export const dropPlanned: Statement = {
  name: 'drop-planned',
  text: `
    insert into dead (endpoint, message, app, reason, attempts, died_at, since, status, code, error, response)
    select p.endpoint, p.message, p.app, p.reason, 0, p.died_at, p.since, ${untried.status}, '${untried.code}', null, null
      from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[])
             as p (endpoint, message, app, reason, died_at, since)`,
}

export const insertVariants: Statement = {
  name: 'insert-variants',
  text: `
    insert into variant (message, n, body, signature)
    select v.message, v.n, substring($5::bytea from v.start for v.length), v.signature
      from unnest($1::bigint[], $2::smallint[], $3::integer[], $4::integer[], $6::text[])
             as v (message, n, start, length, signature)`,
}

/** A delivery about to be queued as it was planned. */
export interface PlannedDelivery {
  readonly message: number
  readonly app: number
  readonly endpoint: number
  readonly since: EpochMs
  readonly expiresAt: EpochMs | null
  readonly planned: Planned
}

/** Queues deliveries that are more than a row in a queue, as part of the caller's transaction. Answers those that wait. */
export async function enqueuePlanned(
  run: Run,
  now: EpochMs,
  deliveries: readonly PlannedDelivery[],
): Promise<readonly PlannedDelivery[]> {
  const dropped = deliveries.filter(({ planned }) => planned.drop !== undefined)
  const waiting = deliveries.filter(({ planned }) => planned.drop === undefined)
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
  return waiting
}

/** Stores the bodies and signatures of messages that differ from their own. */
export async function keepVariants(
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
