import type { FastifyInstance } from 'fastify'
import { AppError } from '../../domain/app-error.ts'
import type { DeadHead, MessageHead } from '../../domain/delivery.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import type { DeadFilter } from '../../domain/task.ts'
import type { DeadRange, Order } from '../../store/browsing.ts'
import { toStartedOut } from '../api/background-task.ts'
import type { HttpContext } from '../context.ts'
import { writeLine } from '../dead-line.ts'
import { jsonType } from '../json-bytes.ts'
import { getApplication, getEndpoint, getMessage } from '../lookup.ts'
import { numbers, partsOf, streamOf, writePage, writeParts } from '../page.ts'
import { toAttemptOut } from '../schemas/attempt.ts'
import {
  AnyDeadFilterQuery,
  AnyDeadListQuery,
  AnyDeadReplayIn,
  DeadFilterQuery,
  DeadListQuery,
  DeadReplayIn,
  toDeadOut,
} from '../schemas/dead.ts'
import { readInstants } from '../schemas/instant.ts'
import { Turns } from '../turns.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

/** Whose dead letters: one application's, or with a path that names none, everybody's. */
const scopes = [
  { path: '/app/:app/dead', listQuery: DeadListQuery, filterQuery: DeadFilterQuery, replayIn: DeadReplayIn },
  { path: '/dead', listQuery: AnyDeadListQuery, filterQuery: AnyDeadFilterQuery, replayIn: AnyDeadReplayIn },
]

interface OfScope {
  Params: { app?: string }
}

/** An export looks at this many at a time, and holds no transaction in between. */
const exportRows = 50
/** The store's clock may be ahead of this machine's; what has just died counts. */
const skewMs = 60_000

/** Dead letters: looking at them, sending them again, throwing them away, taking them elsewhere. */
export function deadRoutes(api: FastifyInstance, { store, clock, scanner }: HttpContext): void {
  for (const { path, listQuery, filterQuery, replayIn } of scopes) {
    const listProblems = compile(listQuery, 'query')
    const filterProblems = compile(filterQuery, 'query')
    const replayProblems = compile(replayIn, 'body')

    api.get<OfScope>(path, async (request, reply) => {
      const query = readQuery(listQuery, request.query)
      refuseIf(listProblems(query))
      const asked = query as DeadListQuery
      const { app, filter } = await filterOf(request.params.app, namesOf(asked), 'query')
      const list = {
        read: (after: DeadRange['after'], order: Order, limit: number) =>
          store.listDead(app, rangeOf(filter, after, order, limit)),
        keep: async (rows: DeadHead[]) => (await described(rows)).filter((one) => meets(one, filter)),
        keepsAll: filter.reason === null && filter.eventTypes === null,
        bytesOf: ({ row }: Described) => row.bytes,
        positionOf: (row: DeadHead) => row,
        write: ({ diedAt, endpoint, message }: DeadHead) => numbers.write(diedAt, endpoint, message),
        parse: (text: string) => {
          const [diedAt, endpoint, message] = numbers.parse(text, 3) ?? []
          return diedAt === undefined || endpoint === undefined || message === undefined
            ? undefined
            : { diedAt, endpoint, message }
        },
      }
      reply.type(jsonType)
      return writePage(clock, asked, list, async (items) => {
        const heads = items.map(({ row }) => row)
        const [ids, letters] = [await applicationIds(heads), await store.loadDead(heads)]
        return items.flatMap(({ message, endpoint }, i) => {
          const letter = letters[i]
          if (letter === undefined) return []
          return [Buffer.from(JSON.stringify(toDeadOut(letter, message, endpoint, ids.get(letter.app) ?? '')))]
        })
      })
    })

    api.post<OfScope>(`${path}/replay`, async (request, reply) => {
      refuseIf(replayProblems(request.body))
      const body = request.body as DeadReplayIn
      const { app, filter } = await filterOf(request.params.app, body, 'body')
      const work = { type: 'dead.replay', input: { ...filter, perSecond: body.perSecond ?? null } } as const
      const task = await store.createTask({ app, work, data: { scanned: 0, replayed: 0 } })
      return reply.code(202).send(toStartedOut(task))
    })

    api.delete<OfScope>(path, async (request, reply) => {
      const query = readQuery(filterQuery, request.query)
      refuseIf(filterProblems(query))
      const { app, filter } = await filterOf(request.params.app, namesOf(query as DeadFilterQuery), 'query')
      const work = { type: 'dead.purge', input: filter } as const
      const task = await store.createTask({ app, work, data: { scanned: 0, purged: 0 } })
      return reply.code(202).send(toStartedOut(task))
    })

    api.get<OfScope>(`${path}/export`, async (request, reply) => {
      const query = readQuery(filterQuery, request.query)
      refuseIf(filterProblems(query))
      const { app, filter } = await filterOf(request.params.app, namesOf(query as DeadFilterQuery), 'query')
      return reply.type('application/jsonl; charset=utf-8').send(streamOf(linesOf(app, filter)))
    })
  }

  api.get<{ Params: { app: string; message: string; endpoint: string } }>(
    '/app/:app/dead/:message/:endpoint',
    async ({ params }, reply) => {
      const app = await getApplication(store, params.app)
      const message = await getMessage(store, params.app, params.message)
      const endpoint = await getEndpoint(store, params.app, params.endpoint)
      const letter = await store.findDead(endpoint.key, message.key)
      if (letter === undefined) throw new AppError('not_found', 'There is no such dead letter.')
      const attempts = (await store.attemptHeadsOf(message.key)).filter((attempt) => attempt.endpoint === endpoint.key)
      const out = JSON.stringify(toDeadOut(letter, message, endpoint, app.id))
      const parts = partsOf(attempts, ({ bytes }) => bytes)
      reply.type(jsonType)
      return writeParts(
        clock,
        `${out.slice(0, -1)},"trail":[`,
        parts,
        async (part) => {
          const trail = (await store.loadAttempts(part)).filter((attempt) => attempt !== undefined)
          return trail.map((attempt) => Buffer.from(JSON.stringify(toAttemptOut(attempt, message, endpoint, true))))
        },
        ']}',
      )
    },
  )

  /** One JSON object a line, oldest first, each with its payload. */
  async function* linesOf(app: number | null, filter: DeadFilter): AsyncGenerator<Buffer> {
    for (let after: DeadHead | null = null; ; ) {
      const rows: DeadHead[] = await store.listDead(app, rangeOf(filter, after, 'ascending', exportRows))
      const kept = (await described(rows)).filter((one) => meets(one, filter))
      const ids = await applicationIds(kept.map(({ row }) => row))
      // A delivery may have a body of its own, which is about as large as the message's.
      for (const part of partsOf(kept, ({ row, message }) => row.bytes + 2 * (message?.bytes ?? 0))) {
        const heads = part.map(({ row }) => row)
        const [letters, contents] = [await store.loadDead(heads), await store.loadContents(heads)]
        for (const [i, { endpoint }] of part.entries()) {
          const letter = letters[i]
          if (letter === undefined) continue
          await Turns.by(clock).next()
          yield Buffer.concat([writeLine(scanner, ids.get(letter.app) ?? '', letter, endpoint, contents[i]), newLine])
        }
      }
      if (rows.length < exportRows) return
      after = rows.at(-1) ?? null
    }
  }

  /** Dead letters with what they are about. */
  async function described(letters: readonly DeadHead[]): Promise<Described[]> {
    const [heads, endpoints] = await Promise.all([
      store.loadHeads([...new Set(letters.map(({ message }) => message))]),
      store.loadEndpoints([...new Set(letters.map(({ endpoint }) => endpoint))]),
    ])
    const messageOf = new Map(heads.map((head) => [head.key, head]))
    const endpointOf = new Map(endpoints.map((endpoint) => [endpoint.key, endpoint]))
    return letters.map((row) => ({ row, message: messageOf.get(row.message), endpoint: endpointOf.get(row.endpoint) }))
  }

  /** The ids of the applications whose dead letters these are. */
  async function applicationIds(letters: readonly DeadHead[]): Promise<Map<number, string>> {
    const ids = new Map<number, string>()
    for (const key of new Set(letters.map(({ app }) => app))) {
      const { items } = await store.listApplications({ after: key - 1, order: 'ascending', limit: 1 })
      for (const { key: found, id } of items) if (found === key) ids.set(key, id)
    }
    return ids
  }

  /** The application and what is meant of its dead letters; AppError `not_found` when a name names nothing of it. */
  async function filterOf(appRef: string | undefined, names: DeadReplayIn, part: 'body' | 'query') {
    const app = appRef === undefined ? null : await getApplication(store, appRef)
    const { before, after } = readInstants(part, { before: names.before, after: names.after })
    const { endpointId, msgId } = names
    const endpoint = appRef === undefined || endpointId == null ? null : await getEndpoint(store, appRef, endpointId)
    const message = appRef === undefined || msgId == null ? null : await getMessage(store, appRef, msgId)
    const filter: DeadFilter = {
      endpoint: endpoint?.key ?? null,
      message: message?.key ?? null,
      eventTypes: names.eventTypes ?? null,
      reason: names.reason ?? null,
      after: after === undefined ? 0 : after + 1,
      // What dies while a task runs is not what was meant.
      before: before ?? clock.now() + skewMs,
    }
    return { app: app?.key ?? null, filter }
  }
}

interface Described {
  readonly row: DeadHead
  readonly message: MessageHead | undefined
  readonly endpoint: Endpoint | undefined
}

const newLine = Buffer.from('\n')

function meets({ row, message }: Described, { message: key, reason, eventTypes }: DeadFilter): boolean {
  if (key !== null && row.message !== key) return false
  if (reason !== null && row.reason !== reason) return false
  return eventTypes === null || eventTypes.includes(message?.eventType ?? '')
}

function rangeOf(filter: DeadFilter, after: DeadRange['after'], order: Order, limit: number): DeadRange {
  return { endpoint: filter.endpoint, from: filter.after, until: filter.before, after, order, limit }
}

/** A query's names for what a body calls differently. */
function namesOf(query: DeadListQuery & { readonly msg_id?: string }): DeadReplayIn {
  return {
    msgId: query.msg_id ?? null,
    endpointId: query.endpoint_id ?? null,
    eventTypes: query.event_types?.split(',') ?? null,
    reason: query.reason ?? null,
    before: query.before ?? null,
    after: query.after ?? null,
  }
}
