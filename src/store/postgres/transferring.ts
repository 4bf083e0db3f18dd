import { keyTime } from '../../domain/ids.ts'
import type { Plan, Planned } from '../plan.ts'
import { type MessageRow, toMessage } from '../rows/message.ts'
import { toJson } from '../sql/json.ts'
import { type Brought, type BroughtLetter, type Contents, placesOf, type Transferring } from '../transferring.ts'
import { integers } from './arrays.ts'
import type { Database } from './database.ts'
import { findQueuedRow } from './replaying.ts'
import { type Run, statement } from './sessions.ts'

export const selectContents = statement(
  'contents',
  `
    select m.*, v.body as variant_body, v.signature, v.n is not null as has_variant,
           m.plan -> w.endpoint::text ->> 'orderKey' as order_key, w.place
      from unnest($1::bigint[], $2::bigint[]) with ordinality as w (endpoint, message, place)
     cross join lateral (select * from message where key = w.message limit 1) as m
      left join lateral (
             select n, body, signature from variant
              where message = w.message and n = (m.plan -> w.endpoint::text ->> 'variant')::smallint limit 1
           ) as v on true`,
)
const selectPlace = statement('message-place', 'select id, app, endpoints, plan from message where key = $1 for update')
const insertMessage = statement(
  'bring-message',
  `
    insert into message
           (key, id, app, event_type, event_id, channels, content_type, endpoints, body, tags, headers, deliver_at,
            expires_at, ordering_key, plan)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
    on conflict do nothing
    returning key`,
)
// Whoever has the event id by now keeps it.
const insertEventId = statement(
  'bring-event-id',
  'insert into event_id (app, event_id, message) values ($1, $2, $3) on conflict do nothing',
)
const widenMessage = statement('widen-message', 'update message set endpoints = $2, plan = $3 where key = $1')
const insertVariant = statement(
  'bring-variant',
  `
    insert into variant (message, n, body, signature)
    select $1::bigint, coalesce(max(n) + 1, 0), $2::bytea, $3::text from variant where message = $1 returning n`,
)
const selectLater = statement(
  'later-attempt',
  'select 1 from attempt where message = $1 and endpoint = $2 and at > $3 limit 1',
)
const insertDead = statement(
  'bring-dead',
  `
    insert into dead (endpoint, message, app, reason, attempts, died_at, since, status, code, error, response)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
    on conflict do nothing
    returning 1`,
)

interface ContentsRow extends MessageRow {
  readonly place: number
  readonly order_key: string | null
  readonly has_variant: boolean
  readonly variant_body: Uint8Array | null
  readonly signature: string | null
}

interface Place {
  readonly id: string
  readonly app: number
  readonly endpoints: number[]
  readonly plan: Plan | null
}

interface Identity {
  readonly key: number
  readonly id: string
}

/** Taking dead letters out, and bringing them back. */
export function transferring({ durable }: Database): Transferring {
  return {
    async loadContents(deliveries) {
      if (deliveries.length === 0) return []
      const values = [integers(deliveries.map((d) => d.endpoint)), integers(deliveries.map((d) => d.message))]
      const rows = await durable.run<ContentsRow>(selectContents, values)
      const found = new Map(rows.map((row) => [row.place, toContents(row)]))
      return deliveries.map((_, i) => found.get(i + 1))
    },

    importDead(app, letters) {
      return durable.transaction(async (run) => {
        const brought: Brought[] = []
        for (const letter of letters) brought.push(await bring(run, app, letter))
        return brought
      })
    },
  }
}

function toContents(row: ContentsRow): Contents {
  return {
    message: toMessage(row),
    orderKey: row.order_key === null ? null : Number(row.order_key),
    variant: row.has_variant ? { body: row.variant_body, signature: row.signature } : null,
  }
}

async function bring(run: Run, app: number, letter: BroughtLetter): Promise<Brought> {
  for (const place of placesOf(letter.message)) {
    const { key } = place
    let [found] = await run<Place>(selectPlace, [key])
    if (found === undefined) {
      if (letter.body === null) return 'missing'
      // Somebody else may have brought it at this very moment, and is waited for here.
      const added = await addMessage(run, app, place, letter)
      if (!added) [found] = await run<Place>(selectPlace, [key])
    }
    if (found !== undefined) {
      if (found.id !== place.id || found.app !== app) continue
      if (await hasGoneOn(run, key, letter)) return 'unchanged'
      await addEndpoint(run, key, found, letter)
    }
    const { endpoint, reason, attempts, diedAt, status, code, error, response } = letter
    const last = [status, code, error, bytes(response)]
    const added = await run(insertDead, [endpoint, key, app, reason, attempts, diedAt, keyTime(key), ...last])
    return added.length > 0 ? 'imported' : 'unchanged'
  }
  return 'missing'
}

/** Answers whether it was added: nobody has its key. */
async function addMessage(run: Run, app: number, { key, id }: Identity, letter: BroughtLetter): Promise<boolean> {
  const { message, endpoint, body } = letter
  const { eventType, eventId, channels, contentType, tags, headers, deliverAt, expiresAt, orderingKey } = message
  const head = [key, id, app, eventType, eventId, toJson(channels), contentType, [endpoint], bytes(body)]
  const rest = [toJson(tags), toJson(headers), deliverAt, expiresAt, orderingKey, null]
  if ((await run(insertMessage, [...head, ...rest])).length === 0) return false
  const planned = await planFor(run, key, letter)
  if (planned !== null) await run(widenMessage, [key, [endpoint], toJson({ [endpoint]: planned })])
  if (eventId !== null) await run(insertEventId, [app, eventId, key])
  return true
}

/** What is planned for a delivery that comes with something of its own; null when it is plain. */
async function planFor(run: Run, key: number, { orderKey, variant }: BroughtLetter): Promise<Planned | null> {
  if (orderKey === null && variant === null) return null
  const [row] =
    variant === null ? [] : await run<{ n: number }>(insertVariant, [key, bytes(variant.body), variant.signature])
  return { ...(orderKey === null ? {} : { orderKey }), ...(row === undefined ? {} : { variant: row.n }) }
}

/** A message that is here may have been accepted elsewhere for an endpoint that it was not accepted for here. */
async function addEndpoint(run: Run, key: number, found: Place, letter: BroughtLetter): Promise<void> {
  if (found.endpoints.includes(letter.endpoint)) return
  const planned = await planFor(run, key, letter)
  const plan = planned === null ? found.plan : { ...found.plan, [letter.endpoint]: planned }
  await run(widenMessage, [key, [...found.endpoints, letter.endpoint], toJson(plan)])
}

/** Whether the delivery waits, or was tried again since it died. */
async function hasGoneOn(run: Run, key: number, { endpoint, diedAt }: BroughtLetter): Promise<boolean> {
  if ((await run(selectLater, [key, endpoint, diedAt])).length > 0) return true
  const values = [integers([endpoint]), integers([key]), integers([keyTime(key)])]
  return (await run(findQueuedRow, values)).length > 0
}

function bytes(value: Uint8Array | null): Buffer | null {
  return value === null ? null : Buffer.from(value)
}
