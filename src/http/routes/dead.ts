import { Readable } from 'node:stream'
import type { FastifyInstance } from 'fastify'
import { AppError } from '../../domain/app-error.ts'
import type { DeadLetter, MessageHead } from '../../domain/delivery.ts'
import type { Endpoint } from '../../domain/endpoint.ts'
import type { DeadFilter } from '../../domain/task.ts'
import type { DeadRange, Order } from '../../store/browsing.ts'
import type { HttpContext } from '../context.ts'
import { withField } from '../json-bytes.ts'
import { getApplication, getEndpoint, getMessage } from '../lookup.ts'
import { payloadOf } from '../payload.ts'
import { toAttemptOut } from '../schemas/attempt.ts'
import { toStartedOut } from '../schemas/background-task.ts'
import { DeadFilterQuery, DeadListQuery, DeadReplayIn, toDeadOut } from '../schemas/dead.ts'
import { readInstants } from '../schemas/instant.ts'
import { numbers, sift } from '../sift.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

interface OfApp {
  Params: { app: string }
}

const listProblems = compile(DeadListQuery, 'query')
const filterProblems = compile(DeadFilterQuery, 'query')
const replayProblems = compile(DeadReplayIn, 'body')

/** An export reads this many at a time, bodies included, and holds no transaction in between. */
const exportRows = 50
/** The store's clock may be ahead of this machine's; what has just died counts. */
const skewMs = 60_000

/** Dead letters: looking at them, sending them again, throwing them away, taking them elsewhere. */
export function deadRoutes(api: FastifyInstance, { store, clock }: HttpContext): void {
  api.get<OfApp>('/app/:app/dead', async (request) => {
    const query = readQuery(DeadListQuery, request.query)
    refuseIf(listProblems(query))
    const asked = query as DeadListQuery
    const { app, filter } = await filterOf(request.params.app, namesOf(asked), 'query')
    const list = await sift(asked, {
      read: (after: DeadRange['after'], order: Order, limit) =>
        store.listDead(app, rangeOf(filter, after, order, limit)),
      keep: async (rows) => (await described(rows)).filter((one) => meets(one, filter)),
      keepsAll: filter.reason === null && filter.eventTypes === null,
      positionOf: (row: DeadLetter) => row,
      write: ({ diedAt, endpoint, message }) => numbers.write(diedAt, endpoint, message),
      parse: (text) => {
        const [diedAt, endpoint, message] = numbers.parse(text, 3) ?? []
        return diedAt === undefined || endpoint === undefined || message === undefined
          ? undefined
          : { diedAt, endpoint, message }
      },
    })
    return { ...list, data: list.data.map(({ row, message, endpoint }) => toDeadOut(row, message, endpoint)) }
  })

  api.get<{ Params: { app: string; message: string; endpoint: string } }>(
    '/app/:app/dead/:message/:endpoint',
    async ({ params }) => {
      const message = await getMessage(store, params.app, params.message)
      const endpoint = await getEndpoint(store, params.app, params.endpoint)
      const letter = await store.findDead(endpoint.key, message.key)
      if (letter === undefined) throw new AppError('not_found', 'There is no such dead letter.')
      const attempts = (await store.attemptsOf(message.key)).filter((attempt) => attempt.endpoint === endpoint.key)
      const trail = attempts.map((attempt) => toAttemptOut(attempt, message, endpoint, true))
      return { ...toDeadOut(letter, message, endpoint), trail }
    },
  )

  api.post<OfApp>('/app/:app/dead/replay', async (request, reply) => {
    refuseIf(replayProblems(request.body))
    const { app, filter } = await filterOf(request.params.app, request.body as DeadReplayIn, 'body')
    const work = { type: 'dead.replay', input: filter } as const
    const task = await store.createTask({ app, work, data: { scanned: 0, replayed: 0 } })
    return reply.code(202).send(toStartedOut(task))
  })

  api.delete<OfApp>('/app/:app/dead', async (request, reply) => {
    const query = readQuery(DeadFilterQuery, request.query)
    refuseIf(filterProblems(query))
    const { app, filter } = await filterOf(request.params.app, namesOf(query as DeadFilterQuery), 'query')
    const work = { type: 'dead.purge', input: filter } as const
    const task = await store.createTask({ app, work, data: { scanned: 0, purged: 0 } })
    return reply.code(202).send(toStartedOut(task))
  })

  api.get<OfApp>('/app/:app/dead/export', async (request, reply) => {
    const query = readQuery(DeadFilterQuery, request.query)
    refuseIf(filterProblems(query))
    const { app, filter } = await filterOf(request.params.app, namesOf(query as DeadFilterQuery), 'query')
    return reply.type('application/jsonl; charset=utf-8').send(Readable.from(linesOf(app, filter)))
  })

  /** One JSON object a line, oldest first, each with its payload. */
  async function* linesOf(app: number, filter: DeadFilter): AsyncGenerator<Buffer> {
    for (let after: DeadLetter | null = null; ; ) {
      const letters: DeadLetter[] = await store.listDead(app, rangeOf(filter, after, 'ascending', exportRows))
      const kept = (await described(letters)).filter((one) => meets(one, filter))
      const messages = await store.loadMessages([...new Set(kept.map(({ row }) => row.message))])
      const bodies = new Map(messages.map(({ key, body }) => [key, body]))
      for (const { row, message, endpoint } of kept) {
        const line = Buffer.from(JSON.stringify(toDeadOut(row, message, endpoint)))
        if (message === undefined) yield Buffer.concat([line, newLine])
        else {
          const payload = Buffer.from(payloadOf(message, bodies.get(row.message)))
          yield Buffer.concat([withField(line, 'payload', oneLine(payload)), newLine])
        }
      }
      if (letters.length < exportRows) return
      after = letters.at(-1) ?? null
    }
  }

  /** Dead letters with what they are about. */
  async function described(letters: readonly DeadLetter[]): Promise<Described[]> {
    const [heads, endpoints] = await Promise.all([
      store.loadHeads([...new Set(letters.map(({ message }) => message))]),
      store.loadEndpoints([...new Set(letters.map(({ endpoint }) => endpoint))]),
    ])
    const messageOf = new Map(heads.map((head) => [head.key, head]))
    const endpointOf = new Map(endpoints.map((endpoint) => [endpoint.key, endpoint]))
    return letters.map((row) => ({ row, message: messageOf.get(row.message), endpoint: endpointOf.get(row.endpoint) }))
  }

  /** The application and what is meant of its dead letters; AppError `not_found` when a name names nothing of it. */
  async function filterOf(appRef: string, names: DeadReplayIn, part: 'body' | 'query') {
    const app = await getApplication(store, appRef)
    const { before, after } = readInstants(part, { before: names.before, after: names.after })
    const endpoint = names.endpointId == null ? null : await getEndpoint(store, appRef, names.endpointId)
    const message = names.msgId == null ? null : await getMessage(store, appRef, names.msgId)
    const filter: DeadFilter = {
      endpoint: endpoint?.key ?? null,
      message: message?.key ?? null,
      eventTypes: names.eventTypes ?? null,
      reason: names.reason ?? null,
      after: after === undefined ? 0 : after + 1,
      // What dies while a task runs is not what was meant.
      before: before ?? clock.now() + skewMs,
    }
    return { app: app.key, filter }
  }
}

interface Described {
  readonly row: DeadLetter
  readonly message: MessageHead | undefined
  readonly endpoint: Endpoint | undefined
}

const newLine = Buffer.from('\n')

/** JSON without line breaks: outside of strings they are mere space, and inside of them JSON has none. */
function oneLine(json: Buffer): Buffer {
  return json.includes(0x0a) || json.includes(0x0d)
    ? Buffer.from(json.toString('latin1').replaceAll(/[\r\n]/g, ' '), 'latin1')
    : json
}

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
