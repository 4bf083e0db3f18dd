import type { FastifyInstance } from 'fastify'
import { type AuditHead, auditStart, verifyAudit } from '../../domain/audit.ts'
import { hashText } from '../../store/auditing.ts'
import type { Store } from '../../store/store.ts'
import type { HttpContext } from '../context.ts'
import { paginate } from '../pagination.ts'
import { AuditQuery, toAuditOut } from '../schemas/audit.ts'
import { readInstants } from '../schemas/instant.ts'
import { compile, readQuery, refuseIf } from '../validate.ts'

const queryProblems = compile(AuditQuery, 'query')
const rowsAtOnce = 500

/** The audit log: read it, and check that nobody changed it. */
export function auditRoutes(api: FastifyInstance, { store }: HttpContext): void {
  api.get('/audit', (request) => {
    const query = readQuery(AuditQuery, request.query)
    refuseIf(queryProblems(query))
    const { actor = null, action = null, app_id: app = null, ...times } = query as AuditQuery
    const { before, after } = readInstants('query', { before: times.before, after: times.after })
    const filter = { actor, action, app, since: after ?? null, until: before ?? null }
    return paginate('audit', query as AuditQuery, 'descending', (page) => store.listAudit(page, filter), toAuditOut)
  })

  api.get('/audit/verify', () => verifyAll(store))
}

/** Reads the whole log and checks every hash. `head` is worth keeping elsewhere: it shows a later cut at the end. */
export async function verifyAll(store: Pick<Store, 'listAudit'>) {
  const everything = { actor: null, action: null, app: null, since: null, until: null }
  let head: AuditHead = { n: 0, hash: auditStart }
  for (;;) {
    const page = await store.listAudit({ limit: rowsAtOnce, order: 'ascending', after: head.n }, everything)
    const checked = verifyAudit(head, page.items, hashText)
    if (typeof checked === 'number') return { whole: false, rows: head.n, head: head.hash, brokenAt: checked }
    head = checked
    if (page.done) return { whole: true, rows: head.n, head: head.hash, brokenAt: null }
  }
}
