import { keyTime } from '../../domain/ids.ts'
import type { Variant } from '../intake.ts'
import type { Plan, Planned } from '../plan.ts'
import { toJson } from '../sql/json.ts'
import { type Brought, type BroughtLetter, type Contents, placesOf, type Transferring } from '../transferring.ts'
import type { Connection, Synchronous } from './connection.ts'
import { queueSearch } from './replaying.ts'
import { fromJson, type MessageRow, toMessage } from './rows.ts'

const selectMessage = 'select * from message where key = ?'
const selectVariant = 'select body, signature from variant where message = ? and n = ?'
const selectPlace = 'select id, app, endpoints, plan from message where key = ?'
const insertMessage = `
  insert into message
    (key, id, app, event_type, event_id, channels, content_type, endpoints, body, tags, headers, deliver_at, expires_at,
     ordering_key, plan)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
// Whoever has the event id by now keeps it.
const insertEventId = 'insert into event_id (app, event_id, message) values (?, ?, ?) on conflict do nothing'
const widenMessage = 'update message set endpoints = ?2, plan = ?3 where key = ?1'
const insertVariant = `
  insert into variant (message, n, body, signature)
  select ?1, coalesce(max(n) + 1, 0), ?2, ?3 from variant where message = ?1 returning n`
const selectLater = 'select 1 from attempt where message = ? and endpoint = ? and at > ? limit 1'
const insertDead = `
  insert into dead (endpoint, message, app, reason, attempts, died_at, since, status, code, error, response)
  values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict do nothing`

interface Place {
  readonly id: string
  readonly app: number
  readonly endpoints: string
  readonly plan: string | null
}

/** Taking dead letters out, and bringing them back. */
export function transferring(connection: Connection): Synchronous<Transferring> {
  const message = connection.prepare<MessageRow & { readonly plan: string | null }>(selectMessage)
  const variant = connection.prepare<Variant>(selectVariant)
  const placeAt = connection.prepare<Place>(selectPlace)
  const addMessage = connection.prepare(insertMessage)
  const addEventId = connection.prepare(insertEventId)
  const widen = connection.prepare(widenMessage)
  const addVariant = connection.prepare<{ n: number }>(insertVariant)
  const later = connection.prepare<unknown>(selectLater)
  const addDead = connection.prepare(insertDead)
  const search = queueSearch(connection)

  /** What is planned for a delivery that comes with something of its own; null when it is plain. */
  function planFor(key: number, letter: BroughtLetter): Planned | null {
    const { orderKey, variant: its } = letter
    if (orderKey === null && its === null) return null
    const n = its === null ? undefined : addVariant.get(key, its.body, its.signature)?.n
    return { ...(orderKey === null ? {} : { orderKey }), ...(n === undefined ? {} : { variant: n }) }
  }

  function addOne(app: number, place: { readonly key: number; readonly id: string }, letter: BroughtLetter): void {
    const { message: its, endpoint, body } = letter
    const { key, id } = place
    const planned = planFor(key, letter)
    const head = [key, id, app, its.eventType, its.eventId, toJson(its.channels), its.contentType] as const
    const rest = [toJson(its.tags), toJson(its.headers), its.deliverAt, its.expiresAt, its.orderingKey] as const
    addMessage.run(...head, JSON.stringify([endpoint]), body, ...rest, toJson(planned && { [endpoint]: planned }))
    if (its.eventId !== null) addEventId.run(app, its.eventId, key)
  }

  /** A message that is here may have been accepted elsewhere for an endpoint that it was not accepted for here. */
  function addEndpoint(key: number, found: Place, letter: BroughtLetter): void {
    const endpoints: number[] = JSON.parse(found.endpoints)
    if (endpoints.includes(letter.endpoint)) return
    const planned = planFor(key, letter)
    const plan = planned === null ? found.plan : toJson({ ...fromJson<Plan>(found.plan), [letter.endpoint]: planned })
    widen.run(key, JSON.stringify([...endpoints, letter.endpoint]), plan)
  }

  /** Whether the delivery waits, or was tried again since it died. */
  function hasGoneOn(key: number, { endpoints }: Place, { endpoint, diedAt }: BroughtLetter): boolean {
    if (later.get(key, endpoint, diedAt) !== undefined) return true
    return search({ endpoint, message: key }, () => JSON.parse(endpoints).includes(endpoint)) !== undefined
  }

  function bring(app: number, letter: BroughtLetter): Brought {
    for (const place of placesOf(letter.message)) {
      const { key } = place
      const found = placeAt.get(key)
      if (found !== undefined && (found.id !== place.id || found.app !== app)) continue
      if (found === undefined && letter.body === null) return 'missing'
      if (found === undefined) addOne(app, place, letter)
      else if (hasGoneOn(key, found, letter)) return 'unchanged'
      else addEndpoint(key, found, letter)
      const { endpoint, reason, attempts, diedAt, status, code, error, response } = letter
      const last = [status, code, error, response] as const
      const added = addDead.run(endpoint, key, app, reason, attempts, diedAt, keyTime(key), ...last)
      return added.changes > 0 ? 'imported' : 'unchanged'
    }
    return 'missing'
  }

  return {
    loadContents(deliveries): (Contents | undefined)[] {
      return deliveries.map(({ endpoint, message: key }) => {
        const row = message.get(key)
        if (row === undefined) return undefined
        const { orderKey = null, variant: n } = fromJson<Plan>(row.plan)?.[endpoint] ?? {}
        const its = n === undefined ? undefined : variant.get(key, n)
        return { message: toMessage(row), orderKey, variant: its === undefined ? null : { ...its } }
      })
    },

    importDead(app, letters): Brought[] {
      return connection.transaction(() => letters.map((letter) => bring(app, letter)))
    },
  }
}
