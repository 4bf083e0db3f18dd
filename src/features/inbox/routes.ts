import { Type } from 'typebox'
import { admin } from '../../operations/access.ts'
import { closed, instant, iso, maybe, nullable, text, whole } from '../../operations/fields.ts'
import { type Noun, type Out, route } from '../../operations/route.ts'
import type { RefusedRow } from './store.ts'

/** Rows that the answer lists, and rows that are counted. */
const listed = 200
const counted = 100_000

const RefusedRowOut = Type.Object({
  row: whole('Number of the row in `sluice_inbox`.'),
  app: text('Application, as the row names it.'),
  eventType: text('Event type.'),
  code: text('Code of the error.'),
  error: text('Why the row cannot be published, and each field that is wrong.'),
  createdAt: instant('Time at which the row was inserted.'),
  refusedAt: instant('Time at which it was refused.'),
})

const InboxOut = Type.Object({
  waiting: whole('Rows that are to be published, counted up to 100,000.'),
  oldestMs: nullable(whole('How long the oldest of them has waited, in milliseconds; null when none waits.')),
  refused: whole('Rows that cannot be published, counted up to 100,000. They are removed after seven days.'),
  data: Type.Array(RefusedRowOut, { description: 'Those rows, the newest first, up to 200.' }),
})

const InboxRetryIn = Type.Object(
  {
    rows: maybe(
      Type.Array(Type.Integer({ minimum: 1 }), { maxItems: 1000, description: 'Numbers of rows; without it, all.' }),
    ),
  },
  closed,
)

const InboxRetryOut = Type.Object({ retried: whole('Rows that are tried again.') })

export const inbox = {
  tag: 'Inbox',
  description: 'Messages that other programs insert into the database in transactions of their own.',
  schemas: { InboxOut, RefusedRowOut, InboxRetryIn, InboxRetryOut },
  routes: [
    route('GET /inbox', admin, {
      id: 'v1.inbox.get',
      summary: 'Show the rows that wait, and those that were refused',
      answers: { 200: InboxOut },
      async handle(_, { store }) {
        const counts = await store.countInbox(counted)
        return { ...counts, data: (await store.refusedRows(listed)).map(toOut) }
      },
    }),
    route('POST /inbox/retry', admin, {
      id: 'v1.inbox.retry',
      summary: 'Try refused rows again',
      description: 'They take the places that their numbers have among the rows of their application.',
      body: InboxRetryIn,
      answers: { 200: InboxRetryOut },
      handle: async ({ body: { rows = null } }, { store }) => ({ retried: await store.retryInbox(rows) }),
    }),
  ],
} satisfies Noun

function toOut({ id, createdAt, refusedAt, ...row }: RefusedRow): Out<typeof RefusedRowOut> {
  return { row: id, ...row, createdAt: iso(createdAt), refusedAt: iso(refusedAt) }
}
