import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '../../domain/app-error.ts'
import type { Attempt, AttemptHead, Message, MessageHead } from '../../domain/delivery.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import { decodeKey } from '../../domain/ids.ts'
import { isOfClass, meetsFilter } from '../../domain/message-filter.ts'
import type { AttemptBrief, AttemptKey, AttemptRange, DeliveryKey, ListedAttempt, Order } from '../../store/browsing.ts'
import type { HttpContext } from '../context.ts'
import { jsonType, withField, withFields } from '../json-bytes.ts'
import { getApplication, getEndpoint, getMessage, isRef } from '../lookup.ts'
import { numbers, PageQuery, type Walked, walk, writePage } from '../page.ts'
import { messagesAsBytes } from '../payload.ts'
import {
  AttemptedQuery,
  AttemptQuery,
  attemptStatus,
  OneAttemptQuery,
  type Standing,
  toAttemptOut,
  toStandingOut,
} from '../schemas/attempt.ts'
import { toEndpointOut } from '../schemas/endpoint.ts'
import { readTimes } from '../schemas/instant.ts'
import { toMessageFilter } from '../schemas/message-list.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

interface OfMessage {
  Params: { app: string; message: string }
}
interface OfEndpoint {
  Params: { app: string; endpoint: string }
}
interface OfDelivery {
  Params: { app: string; message: string; endpoint: string }
}
interface OfAttempt {
  Params: { app: string; message: string; attempt: string }
}

/** A message that was tried at an endpoint. */
interface Tried extends Standing {
  readonly row: ListedAttempt
  readonly message: MessageHead
}
type Place = NonNullable<AttemptRange['after']>

const pageProblems = compile(PageQuery, 'query')
const attemptProblems = compile(AttemptQuery, 'query')
const attemptedProblems = compile(AttemptedQuery, 'query')
const oneProblems = compile(OneAttemptQuery, 'query')

/** What became of messages: attempts, and where each message stands at each endpoint. */
export function attemptRoutes(api: FastifyInstance, { store, clock }: HttpContext): void {
  /** The attempts of one message, all of which are at hand: there are few, unless it went to very many endpoints. */
  async function listByMessage(request: FastifyRequest, reply: FastifyReply, ref: OfMessage['Params'], at?: Endpoint) {
    const filter = readAttemptQuery(request)
    const found = await getMessage(store, ref.app, ref.message)
    const message = { ...found, bytes: found.body.length }
    const { from, until } = readTimes({ after: '1970-01-01T00:00:00Z', ...filter }, clock.now())
    const heads = await store.attemptHeadsOf(message.key)
    const all = heads.sort((a, b) => a.at - b.at || keyOf(a) - keyOf(b) || (a.id < b.id ? -1 : 1))
    const wanted = filter.endpoint_id === undefined ? at : await namedEndpoint(ref.app, filter.endpoint_id)
    const meets = (attempt: AttemptBrief) =>
      attempt.at >= from &&
      attempt.at < until &&
      (wanted === undefined || attempt.endpoint === wanted?.key) &&
      meetsAttempt(attempt, filter) &&
      meetsFilter(message, toMessageFilter(filter))
    return sendAttempts(reply, filter, {
      read: async (after: number | null, order, limit) => {
        if (order === 'ascending') return all.slice(after === null ? 0 : after + 1).slice(0, limit)
        return all
          .slice(0, after ?? all.length)
          .toReversed()
          .slice(0, limit)
      },
      keep: async (rows) => rows.filter(meets).map((row) => ({ row, message })),
      keepsAll: false,
      positionOf: (row) => all.indexOf(row),
      write: (row) => row.id,
      parse: (text) => {
        const place = all.findIndex((attempt) => attempt.id === text)
        return place < 0 ? undefined : place
      },
    })
  }

  api.get<OfMessage>('/app/:app/attempt/msg/:message', (request, reply) => {
    return listByMessage(request, reply, request.params)
  })

  // Svix's older paths for the same.
  api.get<OfMessage>('/app/:app/msg/:message/attempt', (request, reply) => {
    return listByMessage(request, reply, request.params)
  })
  api.get<OfDelivery>('/app/:app/msg/:message/endpoint/:endpoint/attempt', async (request, reply) => {
    const endpoint = await getEndpoint(store, request.params.app, request.params.endpoint)
    return listByMessage(request, reply, request.params, endpoint)
  })

  api.get<OfEndpoint>('/app/:app/attempt/endpoint/:endpoint', async (request, reply) => {
    const filter = readAttemptQuery(request)
    const endpoint = await getEndpoint(store, request.params.app, request.params.endpoint)
    const meets = (attempt: AttemptHead) => meetsAttempt(attempt, filter)
    return sendAttempts(
      reply,
      filter,
      attemptsAt(endpoint, filter, meets, () => true),
    )
  })

  api.get<OfEndpoint>('/app/:app/endpoint/:endpoint/msg', async (request, reply) => {
    const query = readQuery(AttemptedQuery, request.query)
    refuseIf(attemptedProblems(query))
    const filter = query as AttemptedQuery
    const endpoint = await getEndpoint(store, request.params.app, request.params.endpoint)
    const isShown = (standing: Standing) => {
      const { status, expanded_statuses: expanded = false } = filter
      return status === undefined || status === toStandingOut(standing, expanded).status
    }
    const withContent = filter.with_content ?? true
    const list: Walked<ListedAttempt, Tried, Place> = {
      ...attemptsAt(endpoint, filter, (attempt) => attempt.isLatest, isShown),
      bytesOf: ({ message }) => (withContent ? message.bytes : 0),
    }
    reply.type(jsonType)
    return writePage(clock, filter, list, async (items) => {
      const heads = items.map(({ message }) => message)
      const messages = await messagesAsBytes(store, heads, withContent)
      return items.map((standing, i) => {
        return withFields(messages[i] as Buffer, toStandingOut(standing, filter.expanded_statuses ?? false))
      })
    })
  })

  api.get<OfMessage>('/app/:app/msg/:message/endpoint', async (request) => {
    const query = readQuery(PageQuery, request.query)
    refuseIf(pageProblems(query))
    const message = await getMessage(store, request.params.app, request.params.message)
    // There may be very many: only those on the page are looked at closely.
    const keys = [...new Set([...message.endpoints, ...(await store.attemptedEndpoints(message.key))])].sort(byNumber)
    const list = await walk(
      clock,
      { order: 'ascending', ...(query as PageQuery) },
      {
        read: async (after: number | null, order: Order, limit: number) => behind(keys, after, order).slice(0, limit),
        keep: (page) => standingsOf(message, page),
        keepsAll: true,
        positionOf: (key: number) => key,
        write: (key) => `key.${numbers.write(key)}`,
        parse: (text) => (text.startsWith('key.') ? numbers.parse(text.slice('key.'.length), 1)?.[0] : undefined),
      },
    )
    const data = list.data.map(({ endpoint, ...standing }) => ({
      ...toEndpointOut(endpoint),
      ...toStandingOut(standing, false),
    }))
    return { ...list, data }
  })

  api.get<OfAttempt>('/app/:app/msg/:message/attempt/:attempt', async (request) => {
    refuseIf(oneProblems(readQuery(OneAttemptQuery, request.query)))
    const { message, attempt } = await getAttempt(request.params)
    const [endpoint] = await store.loadEndpoints([attempt.endpoint])
    return toAttemptOut(attempt, message, endpoint, true)
  })

  api.delete<OfAttempt>('/app/:app/msg/:message/attempt/:attempt/content', async (request, reply) => {
    const { attempt } = await getAttempt(request.params)
    await store.expungeAttempt(attempt)
    return reply.code(204).send()
  })

  /** Where a message stands at these endpoints, those that still exist. */
  async function standingsOf(message: Message, keys: readonly number[]) {
    const deliveries = keys.map((endpoint) => ({ endpoint, message: message.key }))
    const [endpoints, latest, replaying, dead, coalesced] = await Promise.all([
      store.loadEndpoints(keys),
      store.latestAttempts(deliveries),
      replayingAmong(deliveries),
      deadAmong(deliveries),
      store.findCoalesced(deliveries),
    ])
    const byKey = new Map(endpoints.map((endpoint) => [endpoint.key, endpoint]))
    return keys.flatMap((row, i) => {
      const endpoint = byKey.get(row)
      if (endpoint === undefined) return []
      const pair = pairOf(row, message.key)
      const known = { replaying: replaying.has(pair), dead: dead.has(pair), coalesced: coalesced[i] }
      return [{ row, endpoint, message, latest: latest[i], ...known }]
    })
  }

  async function getAttempt(params: OfAttempt['Params']): Promise<{ message: Message; attempt: Attempt }> {
    const message = await getMessage(store, params.app, params.message)
    const isId = decodeKey('atmpt', params.attempt) !== undefined
    const attempt = isId ? await store.findAttempt(message.key, params.attempt) : undefined
    if (attempt === undefined) throw new AppError('not_found', 'There is no such attempt.')
    return { message, attempt }
  }

  /** An endpoint's attempts with their messages and where those stand. */
  function attemptsAt(
    endpoint: Endpoint,
    filter: AttemptQuery | AttemptedQuery,
    meets: (attempt: ListedAttempt) => boolean,
    isShown: (standing: Standing) => boolean,
  ): Walked<ListedAttempt, Tried, Place> {
    const times = readTimes(filter, clock.now())
    const messageFilter = toMessageFilter(filter)
    return {
      read: (after, order, limit) => {
        return store.listAttempts(endpoint.key, { ...times, after, order, limit })
      },
      keep: async (rows) => {
        const met = rows.filter(meets)
        const heads = await store.loadHeads([...new Set(met.map((row) => row.message))])
        const byKey = new Map(heads.map((head) => [head.key, head]))
        const replaying = await replayingAmong(met)
        const dead = await deadAmong(met)
        return met.flatMap((row) => {
          const message = byKey.get(row.message)
          if (message === undefined || !meetsFilter(message, messageFilter)) return []
          const pair = pairOf(row.endpoint, row.message)
          const standing = { message, latest: row, replaying: replaying.has(pair), dead: dead.has(pair) }
          return isShown(standing) ? [{ row, ...standing }] : []
        })
      },
      keepsAll: false,
      positionOf: (row) => row,
      write: ({ at, message, n }) => numbers.write(at, message, n),
      parse: (text) => {
        const [at, message, n] = numbers.parse(text, 3) ?? []
        return at === undefined || message === undefined || n === undefined ? undefined : { at, message, n }
      },
    }
  }

  /** Which of these deliveries wait to be sent once more on request. */
  async function replayingAmong(deliveries: readonly DeliveryKey[]): Promise<Set<string>> {
    const found = await store.findReplaying(deliveries)
    return new Set(found.map(({ endpoint, message }) => pairOf(endpoint, message)))
  }

  /** Which of these deliveries are dead letters. */
  async function deadAmong(deliveries: readonly DeliveryKey[]): Promise<Set<string>> {
    const found = await store.deadAmong(deliveries)
    return new Set(found.map(({ endpoint, message }) => pairOf(endpoint, message)))
  }

  /** Sends a page of attempts, with their messages if asked. */
  function sendAttempts<Row extends AttemptKey & { readonly bytes: number }, Position>(
    reply: FastifyReply,
    filter: AttemptQuery,
    list: Walked<Row, { readonly row: Row; readonly message: MessageHead }, Position>,
  ) {
    const withContent = filter.with_content ?? true
    const withMessage = filter.with_msg ?? false
    const bytesOf = ({ row, message }: { row: Row; message: MessageHead }) => {
      return withContent ? row.bytes + (withMessage ? message.bytes : 0) : 0
    }
    reply.type(jsonType)
    return writePage(clock, filter, { ...list, bytesOf }, async (items) => {
      const attempts = await store.loadAttempts(items.map(({ row }) => row))
      const endpoints = await store.loadEndpoints([...new Set(items.map(({ row }) => row.endpoint))])
      const byKey = new Map(endpoints.map((endpoint) => [endpoint.key, endpoint]))
      const heads = items.map(({ message }) => message)
      const messages = withMessage ? await messagesAsBytes(store, heads, withContent) : []
      return items.flatMap(({ message }, i) => {
        const attempt = attempts[i]
        if (attempt === undefined) return []
        const out = toAttemptOut(attempt, message, byKey.get(attempt.endpoint), withContent)
        const bytes = Buffer.from(JSON.stringify(out))
        return [withMessage ? withField(bytes, 'msg', messages[i] as Buffer) : bytes]
      })
    })
  }

  /** The endpoint a filter names; null when there is none, of which there are no attempts either. */
  async function namedEndpoint(app: string, ref: string): Promise<Endpoint | null> {
    const { key } = await getApplication(store, app)
    return (isRef(ref) ? await store.findEndpoint(key, ref) : undefined) ?? null
  }
}

function readAttemptQuery(request: FastifyRequest): AttemptQuery {
  const query = readQuery(AttemptQuery, request.query)
  refuseIf(attemptProblems(query))
  return query as AttemptQuery
}

/** Keys behind a position, in the asked order. */
function behind(keys: readonly number[], after: number | null, order: Order): readonly number[] {
  if (order === 'ascending') return after === null ? keys : keys.filter((key) => key > after)
  return (after === null ? keys : keys.filter((key) => key < after)).toReversed()
}

function byNumber(a: number, b: number): number {
  return a - b
}

function pairOf(endpoint: number, message: number): string {
  return `${endpoint}.${message}`
}

function keyOf(attempt: AttemptBrief): number {
  return decodeKey('atmpt', attempt.id) ?? 0
}

function meetsAttempt(
  attempt: Pick<AttemptHead, 'code' | 'status'>,
  { status, status_code_class: statusClass }: AttemptQuery,
): boolean {
  if (status !== undefined && status !== attemptStatus(attempt)) return false
  return statusClass === undefined || isOfClass(attempt, statusClass)
}
