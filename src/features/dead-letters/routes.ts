import { noSuch } from '../../domain/app-error.ts'
import type { DeadLetterSummary } from '../../domain/delivery.ts'
import { Turns } from '../../domain/turns.ts'
import { admin, attempt, type Need, read, view } from '../../operations/access.ts'
import { listOf } from '../../operations/fields.ts'
import { itemBytes, numbers, splitByBytes, streamOf, writePage, writeParts } from '../../operations/page.ts'
import { type Noun, route } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import type { Order } from '../../store/messages.ts'
import type { Application } from '../applications/noun.ts'
import { toAttemptOut } from '../attempts/schemas.ts'
import { writeLine } from '../dead-lines/service.ts'
import { type DeadFilter, packLetters } from '../tasks/rules.ts'
import { perSecond, startTask, TaskStartedOut } from '../tasks/schemas.ts'
import { countDead, DeadCountOut, type Described, describedLetters, isMeant, rangeOf } from './reading-service.ts'
import {
  DeadImportOut,
  DeadLetterLine,
  DeadLetterOut,
  DeadLetterTrailOut,
  DeadLineIn,
  filterBody,
  filterQuery,
  Letters,
  namesIn,
  toDeadFilter,
  toDeadOut,
  toLetters,
  type Whose,
} from './schemas.ts'
import type { DeadRange } from './store.ts'

export const DeadReplayIn = filterBody('one', { letters: Letters, perSecond })
const AnyDeadReplayIn = filterBody('all', { letters: Letters, perSecond })

/** An export looks at this many at a time, and holds no transaction in between. */
const exportRows = 50
const newLine = Buffer.from('\n')

/** Dead letters of one application, or with a path that names none, of all. */
interface DeadScope {
  readonly path: '/app/:app/dead' | '/dead'
  readonly whose: Whose
  readonly needs: { readonly view: Need; readonly replay: Need }
  readonly ids: '' | '-all'
  readonly summaries: Readonly<Record<'list' | 'count' | 'replay' | 'purge' | 'export', string>>
  readonly replayIn: typeof DeadReplayIn
  readonly replayed: string
}

const onlyOnce =
  'With `before` from a count, and an Idempotency-Key, a request that is repeated after a failure sends nothing twice.'

const inApplication: DeadScope = {
  path: '/app/:app/dead',
  whose: 'one',
  needs: { view, replay: attempt },
  ids: '',
  summaries: {
    list: 'List dead letters',
    count: 'Count dead letters',
    replay: 'Send dead letters again',
    purge: 'Delete dead letters',
    export: 'Export dead letters with their payloads, one per line',
  },
  replayIn: DeadReplayIn,
  replayed: `All dead letters that match every field; without fields, all of the application. ${onlyOnce}`,
}

const inAll: DeadScope = {
  path: '/dead',
  whose: 'all',
  needs: { view: read, replay: admin },
  ids: '-all',
  summaries: {
    list: 'List the dead letters of all applications',
    count: 'Count the dead letters of all applications',
    replay: 'Send dead letters of all applications again',
    purge: 'Delete dead letters of all applications',
    export: 'Export the dead letters of all applications, one per line',
  },
  replayIn: AnyDeadReplayIn,
  replayed: `All dead letters that match every field. ${onlyOnce}`,
}

function listRoute({ path, whose, needs, ids, summaries }: DeadScope) {
  return route(`GET ${path}`, needs.view, {
    id: `v1.dead.list${ids}`,
    summary: summaries.list,
    query: filterQuery(whose, 'list'),
    answers: { 200: listOf(DeadLetterOut) },
    handle: async (call, services) => {
      const { store, clock } = services
      const app = appOf(call)
      const filter = await toDeadFilter(services, app, namesIn(call.query), 'query')
      const list = {
        read: (after: DeadRange['after'], order: Order, limit: number) =>
          store.listDead(app?.key ?? null, rangeOf(filter, after, order, limit)),
        keep: async (rows: DeadLetterSummary[]) => (await describedLetters(store, rows)).filter(isMeant(filter)),
        keepsAll: filter.reason === null && filter.eventTypes === null,
        bytesOf: ({ row }: Described) => itemBytes + row.bytes,
        positionOf: (row: DeadLetterSummary) => row,
        write: ({ diedAt, endpoint, message }: DeadLetterSummary) => numbers.write(diedAt, endpoint, message),
        parse: (text: string) => {
          const [diedAt, endpoint, message] = numbers.parse(text, 3) ?? []
          return diedAt === undefined || endpoint === undefined || message === undefined
            ? undefined
            : { diedAt, endpoint, message }
        },
      }
      return writePage(clock, call.query, list, async (items) => {
        const rows = items.map(({ row }) => row)
        const [apps, letters] = [await store.applicationRefs(rows.map(({ app }) => app)), await store.loadDead(rows)]
        return items.flatMap(({ message, endpoint }, i) => {
          const letter = letters[i]
          if (letter === undefined) return []
          return [Buffer.from(JSON.stringify(toDeadOut(letter, message, endpoint, apps.get(letter.app)?.id ?? '')))]
        })
      })
    },
  })
}

function countRoute({ path, whose, needs, ids, summaries }: DeadScope) {
  return route(`GET ${path}/count`, needs.view, {
    id: `v1.dead.count${ids}`,
    summary: summaries.count,
    query: filterQuery(whose, 'count'),
    answers: { 200: DeadCountOut },
    handle: async (call, services) => {
      const app = appOf(call)
      return countDead(services, app?.key ?? null, await toDeadFilter(services, app, namesIn(call.query), 'query'))
    },
  })
}

function replayRoute({ path, needs, ids, summaries, replayIn, replayed }: DeadScope) {
  return route(`POST ${path}/replay`, needs.replay, {
    id: `v1.dead.replay${ids}`,
    summary: summaries.replay,
    description: replayed,
    body: replayIn,
    needsBody: true,
    answers: { 202: TaskStartedOut },
    handle: async (call, services) => {
      const app = appOf(call)
      const { perSecond = null } = call.body
      const letters = toLetters(call.body)
      const filter = await toDeadFilter(services, app, call.body, 'body')
      const chosen = letters === null ? {} : { letters: packLetters(letters) }
      const work = { type: 'dead.replay', input: { ...filter, ...chosen, perSecond } } as const
      const total = letters === null ? {} : { total: letters.length }
      return startTask(services.store, app?.key ?? null, work, { scanned: 0, replayed: 0, ...total })
    },
  })
}

function purgeRoute({ path, whose, ids, summaries }: DeadScope) {
  return route(`DELETE ${path}`, admin, {
    id: `v1.dead.purge${ids}`,
    summary: summaries.purge,
    query: filterQuery(whose, 'all'),
    answers: { 202: TaskStartedOut },
    handle: async (call, services) => {
      const app = appOf(call)
      const filter = await toDeadFilter(services, app, namesIn(call.query), 'query')
      const work = { type: 'dead.purge', input: filter } as const
      return startTask(services.store, app?.key ?? null, work, { scanned: 0, purged: 0 })
    },
  })
}

function exportRoute({ path, whose, needs, ids, summaries }: DeadScope) {
  return route(`GET ${path}/export`, needs.view, {
    id: `v1.dead.export${ids}`,
    summary: summaries.export,
    query: filterQuery(whose, 'all'),
    answers: { 200: { lines: DeadLetterLine } },
    handle: async (call, services) => {
      const app = appOf(call)
      const filter = await toDeadFilter(services, app, namesIn(call.query), 'query')
      return streamOf(linesOf(services, app?.key ?? null, filter))
    },
  })
}

export const deadLetters = {
  tag: 'Dead Letter',
  description: 'A delivery that used up its attempts or its time, with the last error and answer.',
  schemas: {
    AnyDeadReplayIn,
    DeadReplayIn,
    DeadCountOut,
    DeadLetterOut,
    DeadLetterTrailOut,
    DeadLetterLine,
    DeadLineIn,
    DeadImportOut,
  },
  routes: [
    listRoute(inApplication),
    countRoute(inApplication),
    route('GET /app/:app/dead/:message/:endpoint', view, {
      id: 'v1.dead.get',
      summary: 'Get a dead letter with every attempt',
      answers: { 200: DeadLetterTrailOut },
      handle: async ({ app, message, endpoint }, { store, clock }) => {
        const letter = await store.findDead(endpoint.key, message.key)
        if (letter === undefined) throw noSuch('dead letter', message.id)
        const attempts = (await store.attemptBriefsOf(message.key)).filter((brief) => brief.endpoint === endpoint.key)
        const out = JSON.stringify(toDeadOut(letter, message, endpoint, app.id))
        return writeParts(
          clock,
          `${out.slice(0, -1)},"trail":[`,
          splitByBytes(attempts, ({ bytes }) => bytes),
          async (part) => {
            const trail = (await store.loadAttempts(part)).filter((each) => each !== undefined)
            return trail.map((each) => Buffer.from(JSON.stringify(toAttemptOut(each, message, endpoint, true))))
          },
          ']}',
        )
      },
    }),
    replayRoute(inApplication),
    purgeRoute(inApplication),
    exportRoute(inApplication),
    listRoute(inAll),
    countRoute(inAll),
    replayRoute(inAll),
    purgeRoute(inAll),
    exportRoute(inAll),
  ],
} satisfies Noun

/** The application in the path; undefined where it names none. */
function appOf({ app }: { readonly params: object; readonly app?: Application }): Application | undefined {
  return app
}

/** One JSON object a line, oldest first, each with its payload. */
async function* linesOf(
  { store, clock, scanner }: Services,
  app: number | null,
  filter: DeadFilter,
): AsyncGenerator<Buffer> {
  for (let after: DeadLetterSummary | null = null; ; ) {
    const rows: DeadLetterSummary[] = await store.listDead(app, rangeOf(filter, after, 'ascending', exportRows))
    const kept = (await describedLetters(store, rows)).filter(isMeant(filter))
    const apps = await store.applicationRefs(kept.map(({ row }) => row.app))
    // A delivery may have a body of its own, which is about as large as the message's.
    for (const part of splitByBytes(kept, ({ row, message }) => row.bytes + 2 * (message?.bytes ?? 0))) {
      const rows = part.map(({ row }) => row)
      const [letters, contents] = [await store.loadDead(rows), await store.loadContents(rows)]
      for (const [i, { endpoint }] of part.entries()) {
        const letter = letters[i]
        if (letter === undefined) continue
        await Turns.by(clock).next()
        yield Buffer.concat([
          writeLine(scanner, apps.get(letter.app) ?? { id: '', uid: null }, letter, endpoint, contents[i]),
          newLine,
        ])
      }
    }
    if (rows.length < exportRows) return
    after = rows.at(-1) ?? null
  }
}
