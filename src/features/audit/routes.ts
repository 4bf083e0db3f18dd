import { type Static, Type } from 'typebox'
import { AppError } from '../../domain/app-error.ts'
import type { EpochMs } from '../../domain/clock.ts'
import { auditFilterFields } from '../../domain/filter-fields.ts'
import { decodeKey } from '../../domain/ids.ts'
import { admin } from '../../operations/access.ts'
import {
  appId,
  closed,
  described,
  flag,
  id,
  inQuery,
  instant,
  iso,
  listOf,
  nullable,
  text,
  whole,
} from '../../operations/fields.ts'
import { lookUp } from '../../operations/lookup.ts'
import { byId, PageQuery, paginate } from '../../operations/page.ts'
import { type Noun, type Out, route } from '../../operations/route.ts'
import { readInstants } from '../../operations/validate.ts'
import type { PageRequest, Store } from '../../store/store.ts'
import {
  type AuditCheckpoint,
  type AuditRow,
  auditStart,
  trimPurpose,
  trimText,
  verifyAudit,
  verifyTrimmed,
} from './rules.ts'
import { type AuditFilter, hashText, isSigned, type SignedTrim } from './store.ts'

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
  appId: nullable(appId),
  target: nullable(text('Path of the request.')),
  before: Type.Unknown({ description: 'State before the change.' }),
  after: Type.Unknown({ description: 'The request that made the change.' }),
  hash: text('Hash over this row and the hash before it.'),
})

const AuditCheckpointOut = Type.Object({
  fromNumber: whole('Number of the first row that was trimmed.'),
  toNumber: whole('Number of the last row that was trimmed.'),
  rows: whole('Rows that were trimmed.'),
  firstAt: instant('Time of the first row.'),
  lastAt: instant('Time of the last row.'),
  previousHash: text('Hash before the first row.'),
  hash: text('Hash of the last row; it covers all rows before it.'),
  createdAt: instant('Time of the trim.'),
  signature: text("ed25519 signature of the server's key, in base64."),
  publicKey: text('Public key, 32 bytes in base64.'),
})

const AuditTrimIn = Type.Object(
  {
    before: described(Type.String({ format: 'date-time' }), 'Rows older than this are removed; the newest row stays.'),
  },
  closed,
)

const AuditTrimOut = Type.Object({
  trimmed: whole('Rows that no longer count; the leader removes them within seconds.'),
  checkpoint: nullable(AuditCheckpointOut),
})

const AuditVerifyOut = Type.Object({
  whole: flag('Whether every hash, and every checkpoint of trimmed rows, is right.'),
  rows: whole('Rows that were checked, and those that a checkpoint stands for.'),
  trimmed: whole('Rows that were trimmed, whose number and hash a signed checkpoint proves.'),
  head: text('Hash of the last row. Keep it elsewhere to detect a later cut at the end.'),
  brokenAt: nullable(whole('Number of the first wrong row.')),
})

function toAuditOut(row: AuditRow): Out<typeof AuditOut> {
  const { id, n, at, actor, ip, action, app, target, before, after, hash } = row
  const parsed = (json: string | null) => (json === null ? null : JSON.parse(json))
  const place = { id, number: n, timestamp: iso(at), actor, ip, action, appId: app, target }
  return { ...place, before: parsed(before), after: parsed(after), hash }
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

function toCheckpointOut(trim: SignedTrim): Out<typeof AuditCheckpointOut> {
  const { fromN, toN, previous, hash, firstAt, lastAt, at, signature } = trim
  return {
    fromNumber: fromN,
    toNumber: toN,
    rows: toN - fromN + 1,
    firstAt: iso(firstAt),
    lastAt: iso(lastAt),
    previousHash: previous,
    hash,
    createdAt: iso(at),
    signature: signature.signature,
    publicKey: signature.publicKey,
  }
}

/** Where the rows begin that were not trimmed, or the first row that a missing or wrong checkpoint stands for. */
async function verifyCheckpoints(store: AuditStore): Promise<AuditCheckpoint | number> {
  const keys = new Set((await store.signingKeys()).map(({ publicKey }) => publicKey))
  const isOurs = ({ signature, ...trim }: SignedTrim) =>
    keys.has(signature.publicKey) && isSigned(trimPurpose, trimText(trim), signature)
  return verifyTrimmed(await store.auditCheckpoints(), isOurs)
}

const everything = { actor: null, action: null, app: null, since: null, until: null }

/**
 * Trims rows that are older than an instant off the beginning of the log. They are checked first: a checkpoint must not
 * stand for rows that were changed.
 */
async function trimBefore(store: AuditStore, before: EpochMs, now: EpochMs): Promise<Out<typeof AuditTrimOut>> {
  const start = await verifyCheckpoints(store)
  if (typeof start === 'number') throw broken(start)
  let head = start
  let [firstAt, lastAt] = [0, 0]
  for (;;) {
    const page = await store.listAudit({ limit: rowsAtOnce, order: 'ascending', after: head.n }, everything)
    const old = page.items.slice(0, page.done ? -1 : undefined)
    const end = old.findIndex(({ at }) => at >= before)
    const rows = end < 0 ? old : old.slice(0, end)
    const checked = verifyAudit(head, rows, hashText)
    if (typeof checked === 'number') throw broken(checked)
    if (head.n === start.n) firstAt = rows[0]?.at ?? 0
    lastAt = rows.at(-1)?.at ?? lastAt
    head = checked
    if (page.done || end >= 0) break
  }
  if (head.n === start.n) return { trimmed: 0, checkpoint: null }
  const trim = { fromN: start.n + 1, toN: head.n, previous: start.hash, hash: head.hash, firstAt, lastAt, at: now }
  const signed = { ...trim, signature: await store.sign(trimPurpose, trimText(trim)) }
  if (!(await store.addAuditCheckpoint(signed))) throw new AppError('conflict', 'The log was trimmed meanwhile.')
  return { trimmed: head.n - start.n, checkpoint: toCheckpointOut(signed) }
}

function broken(n: number): AppError {
  return new AppError(
    'conflict',
    `The audit log was changed at row ${n}, and is not trimmed. Ask for its verification.`,
  )
}

type AuditStore = Pick<Store, 'listAudit' | 'auditCheckpoints' | 'addAuditCheckpoint' | 'sign' | 'signingKeys'>

/** Reads the whole log and checks every hash. `head` is worth keeping elsewhere: it shows a later cut at the end. */
async function verifyAll(store: AuditStore): Promise<Out<typeof AuditVerifyOut>> {
  const start = await verifyCheckpoints(store)
  if (typeof start === 'number') return { whole: false, rows: 0, trimmed: 0, head: auditStart, brokenAt: start }
  const { n: trimmed } = start
  let head = start
  for (;;) {
    const page = await store.listAudit({ limit: rowsAtOnce, order: 'ascending', after: head.n }, everything)
    const checked = verifyAudit(head, page.items, hashText)
    if (typeof checked === 'number') return { whole: false, rows: head.n, trimmed, head: head.hash, brokenAt: checked }
    head = checked
    if (page.done) return { whole: true, rows: head.n, trimmed, head: head.hash, brokenAt: null }
  }
}

export const audit = {
  tag: 'Audit',
  description: 'Changes with their author and time, each row hashed together with the one before.',
  schemas: { AuditOut, AuditVerifyOut, AuditCheckpointOut, AuditTrimIn, AuditTrimOut },
  routes: [
    route('GET /audit', admin, {
      id: 'v1.audit.list',
      summary: 'List changes and their authors',
      query: AuditQuery,
      answers: { 200: listOf(AuditOut) },
      handle: async ({ query }, { store, clock }) => {
        const filter = await toAuditFilter(query, store)
        const list = (page: PageRequest) => store.listAudit(page, filter)
        return paginate(clock, query, { ...byId('audit'), list, toOut: toAuditOut })
      },
    }),
    route('GET /audit/verify', admin, {
      id: 'v1.audit.verify',
      summary: 'Verify the audit log',
      answers: { 200: AuditVerifyOut },
      handle: (_call, { store }) => verifyAll(store),
    }),
    route('GET /audit/checkpoint', admin, {
      id: 'v1.audit.checkpoint.list',
      summary: 'List the checkpoints of rows that were trimmed off the audit log',
      answers: { 200: Type.Object({ data: Type.Array(AuditCheckpointOut, { description: 'The oldest first.' }) }) },
      handle: async (_call, { store }) => ({ data: (await store.auditCheckpoints()).map(toCheckpointOut) }),
    }),
    route('POST /audit/trim', admin, {
      id: 'v1.audit.trim',
      summary: 'Trim old rows off the audit log',
      description:
        'Checks the rows, signs a checkpoint with their number and hash, and removes them. The rest of the log is verified against the checkpoint. Refused when a row was changed.',
      body: AuditTrimIn,
      answers: { 200: AuditTrimOut },
      handle: ({ body }, { store, clock }) => {
        const { before = 0 } = readInstants('body', { before: body.before })
        return trimBefore(store, before, clock.now())
      },
    }),
  ],
} satisfies Noun
