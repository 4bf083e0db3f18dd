import { type Static, Type } from 'typebox'
import { type AuditCheckpoint, type AuditRow, auditStart, verifyAudit } from '../../domain/audit.ts'
import { auditFilterFields } from '../../domain/filter-fields.ts'
import { decodeKey } from '../../domain/ids.ts'
import { type AuditFilter, hashText } from '../../store/access.ts'
import type { Store } from '../../store/store.ts'
import { admin } from '../access.ts'
import { inQuery } from '../field-schema.ts'
import { flag, id, instant, iso, listOf, nullable, text, whole } from '../fields.ts'
import { readInstants } from '../instant.ts'
import { lookUp } from '../lookup.ts'
import { PageQuery, paginate } from '../page.ts'
import { type Noun, type Out, route } from '../route.ts'

const rowsAtOnce = 500

const AuditQuery = Type.Object({
  ...PageQuery.properties,
  ...inQuery(auditFilterFields),
})

const AuditOut = Type.Object({
  id,
  number: whole('Number of the row.'),
  timestamp: instant('Time of the event.'),
  actor: text('Id of the key or token that made the change.'),
  ip: nullable(text('Address of the caller.')),
  action: text('Method and path of the route.'),
  appId: nullable(text('Id of the application.')),
  target: nullable(text('Path of the request.')),
  before: Type.Unknown({ description: 'State before the change.' }),
  after: Type.Unknown({ description: 'The request that made the change.' }),
  hash: text('Hash over this row and the hash before it.'),
})

const AuditVerifyOut = Type.Object({
  whole: flag('Whether every hash is right.'),
  rows: whole('Rows that were checked.'),
  head: text('Hash of the last row. Keep it elsewhere to detect a later cut at the end.'),
  brokenAt: nullable(whole('Number of the first wrong row.')),
})

function toAuditOut(row: AuditRow): Out<typeof AuditOut> {
  return {
    id: row.id,
    number: row.n,
    timestamp: iso(row.at),
    actor: row.actor,
    ip: row.ip,
    action: row.action,
    appId: row.app,
    target: row.target,
    before: row.before === null ? null : JSON.parse(row.before),
    after: row.after === null ? null : JSON.parse(row.after),
    hash: row.hash,
  }
}

async function toAuditFilter(
  query: Static<typeof AuditQuery>,
  { findApplication }: Pick<Store, 'findApplication'>,
): Promise<AuditFilter> {
  const { before, after } = readInstants('query', { before: query.before, after: query.after })
  const { actor = null, action = null, app_id: ref } = query
  // The rows of an application outlive it, so its id is taken also when it is gone.
  const isKnown = ref === undefined || decodeKey('app', ref) !== undefined
  const app = isKnown ? (ref ?? null) : (await lookUp('application', ref, findApplication)).id
  return { actor, action, app, since: after ?? null, until: before ?? null }
}

/** Reads the whole log and checks every hash. `head` is worth keeping elsewhere: it shows a later cut at the end. */
async function verifyAll(store: Pick<Store, 'listAudit'>): Promise<Out<typeof AuditVerifyOut>> {
  const everything = { actor: null, action: null, app: null, since: null, until: null }
  let head: AuditCheckpoint = { n: 0, hash: auditStart }
  for (;;) {
    const page = await store.listAudit({ limit: rowsAtOnce, order: 'ascending', after: head.n }, everything)
    const checked = verifyAudit(head, page.items, hashText)
    if (typeof checked === 'number') return { whole: false, rows: head.n, head: head.hash, brokenAt: checked }
    head = checked
    if (page.done) return { whole: true, rows: head.n, head: head.hash, brokenAt: null }
  }
}

export const audit = {
  tag: 'Audit',
  description: 'Changes with their author and time, each row hashed together with the one before.',
  schemas: { AuditOut, AuditVerifyOut },
  routes: [
    route({
      method: 'GET',
      path: '/audit',
      need: admin,
      id: 'v1.audit.list',
      summary: 'List changes and their authors',
      query: AuditQuery,
      answers: { 200: listOf(AuditOut) },
      handle: async ({ query }, { store }) => {
        const filter = await toAuditFilter(query, store)
        return paginate('audit', query, 'descending', (page) => store.listAudit(page, filter), toAuditOut)
      },
    }),
    route({
      method: 'GET',
      path: '/audit/verify',
      need: admin,
      id: 'v1.audit.verify',
      summary: 'Verify the audit log',
      answers: { 200: AuditVerifyOut },
      handle: (_call, { store }) => verifyAll(store),
    }),
  ],
} satisfies Noun
