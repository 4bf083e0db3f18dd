import { hash, type KeyObject, sign } from 'node:crypto'
import { encodeId } from '../../domain/ids.ts'
import { deleteFound, lock } from '../../store/sql/dialect.ts'
import { readPage } from '../../store/sql/named-rows.ts'
import type { Methods, Port, Sql, Work } from '../../store/sql/port.ts'
import {
  beyond,
  columnsOf,
  direction,
  inBothOrders,
  snakeCase,
  statement,
  valuesOf,
} from '../../store/sql/statement.ts'
import type { StoreContext } from '../../store/store.ts'
import { openValue, SealError, type SealedPlace, sealValue } from '../../store/vault.ts'
import { privateKeyOf, publicBytesOf } from '../../wire/secret.ts'
import { type AuditEntry, type AuditRow, auditHash, auditStart } from './rules.ts'
import {
  type Auditing,
  hashText,
  type Signature,
  type SignedTrim,
  type Signing,
  type SigningKey,
  signedText,
} from './store.ts'

const columns = 'n, id, at, actor, ip, action, app, target, before, after, hash'

// Rows are appended one after the other, over all processes: each needs the hash of the one before it. The next statement
// sees the row that was committed while this one waited. It is the last lock that a transaction takes, so that no two
// transactions wait for each other.
const lockAudit = statement('lock-audit')`${lock('audit')}`
const selectLast = statement<{ now: number; n: number | null; hash: string | null }>('last-audit')`
  select :now as now, last.n, last.hash
    from (select 1 as one) as always left join (select n, hash from audit order by n desc limit 1) as last on true`
const insertAudit = statement('insert-audit')`
  insert into audit (${columns})
  values (:n, :id, :at, :actor, :ip, :action, :app, :target, :before, :after, :hash)`
// A range of the primary key in its order; the filters are checked row by row.
const selectAudit = inBothOrders<AuditRow>('audit')`
  select ${columns} from audit
   where n ${beyond} :after
     and (cast(:actor as text) is null or actor = :actor) and (cast(:action as text) is null or action = :action)
     and (cast(:app as text) is null or app = :app)
     and (cast(:since as bigint) is null or at > :since) and (cast(:until as bigint) is null or at < :until)
   order by n ${direction} limit :limit`

const checkpointFields = snakeCase('fromN', 'toN', 'previous', 'hash', 'firstAt', 'lastAt', 'at', 'signature')
// One row for each trim that an operator asked for.
const selectCheckpoints = statement<SignedTrim>('audit-checkpoints', { json: ['signature'] })`
  select ${columnsOf<SignedTrim>(checkpointFields)} from audit_checkpoint where from_n > 0 order by from_n`
// Trims follow one another, so the newest one ends last: the primary key finds it.
const newestTrim = '(select to_n from audit_checkpoint where from_n > 0 order by from_n desc limit 1)'
const insertCheckpoint = statement('insert-audit-checkpoint')`
  insert into audit_checkpoint (${Object.values(checkpointFields).join(', ')})
  select :from_n, :to_n, :previous, :hash, :first_at, :last_at, :at, :signature
   where cast(:from_n as bigint) = coalesce(${newestTrim}, 0) + 1
     and exists (select 1 from audit where n > cast(:to_n as bigint))
  on conflict do nothing returning from_n`
// A range of the primary key from its low end.
const deleteTrimmed = statement('delete-trimmed-audit')`
  ${deleteFound('audit', 'n', `where n <= ${newestTrim} order by n limit :limit`)}`

/** The audit log. */
export function auditing(port: Port): Methods<Auditing> {
  return {
    appendAudit: (entry) => port.transaction((sql) => appendAudit(sql, port.context, entry)),

    listAudit: (page, { actor, action, app, since, until }) =>
      readPage(port, selectAudit, { actor, action, app, since, until }, page, (row) => row),

    auditCheckpoints: () => port.all(selectCheckpoints),

    *addAuditCheckpoint(trim) {
      return yield* port.transaction(function* (sql) {
        yield* sql.run(lockAudit)
        return yield* sql.any(insertCheckpoint, valuesOf(trim, checkpointFields))
      })
    },

    removeTrimmed: (limit) => port.relaxed.count(deleteTrimmed, { limit }),
  }
}

/** Appends an entry within the transaction that is open. Nothing may be locked after it. */
export function* appendAudit(sql: Sql, context: Pick<StoreContext, 'randomText'>, entry: AuditEntry): Work<AuditRow> {
  yield* sql.run(lockAudit)
  const last = yield* sql.first(selectLast)
  const n = (last?.n ?? 0) + 1
  const row = { ...entry, n, id: encodeId('audit', n, context.randomText), at: last?.now as number }
  const whole = { ...row, hash: auditHash(row, last?.hash ?? auditStart, hashText) }
  yield* sql.run(insertAudit, { ...whole })
  return whole
}

interface KeyRow extends SigningKey {
  readonly secret: string
}

const keyColumns = 'id, public_key as "publicKey", secret, created_at as "createdAt"'
const selectKeys = statement<KeyRow>('signing-keys')`select ${keyColumns} from signing_key order by created_at desc, id`
const lockSigning = statement('lock-signing')`${lock('signing')}`
const insertKey = statement('insert-signing-key')`
  insert into signing_key (id, public_key, secret, created_at)
  select :id, :public_key, :secret, :now where not exists (select 1 from signing_key)`

/** Base-62 digits from which a seed is made: 380 bits. */
const seedText = 64

/** Signs with the server's key, which is made at the first use and sealed in the store. */
export function signing(port: Port): Methods<Signing> {
  const { vault, randomText } = port.context

  function keyOf({ id, secret }: KeyRow): KeyObject {
    const { seed } = openValue<{ seed: string }>(vault, secret, signingKeyPlace(id))
    return privateKeyOf(Buffer.from(seed, 'base64')) as KeyObject
  }

  function isOwn(row: KeyRow): boolean {
    try {
      return publicBytesOf(keyOf(row)).toString('base64') === row.publicKey
    } catch (error) {
      if (error instanceof SealError) return false
      throw error
    }
  }

  return {
    *sign(purpose, text) {
      let [row] = yield* port.all(selectKeys)
      if (row === undefined) {
        const seed = hash('sha256', randomText(seedText), 'buffer')
        const publicKey = publicBytesOf(privateKeyOf(seed) as KeyObject).toString('base64')
        const id = hash('sha256', publicKey, 'hex').slice(0, 16)
        const secret = sealValue(vault, { seed: seed.toString('base64') }, signingKeyPlace(id)) as string
        yield* port.transaction(function* (sql) {
          // Another process may be making one at the same time.
          yield* sql.run(lockSigning)
          yield* sql.run(insertKey, { id, public_key: publicKey, secret })
        })
        row = (yield* port.all(selectKeys))[0] as KeyRow
      }
      const signature = sign(null, signedText(purpose, text), keyOf(row)).toString('base64')
      return { algorithm: 'ed25519', keyId: row.id, publicKey: row.publicKey, signature } satisfies Signature
    },

    *signingKeys() {
      const own = (yield* port.all(selectKeys)).filter(isOwn)
      return own.map(({ id, publicKey, createdAt }) => ({ id, publicKey, createdAt }))
    },
  }
}

/** No endpoint has this key. */
export function signingKeyPlace(id: string): SealedPlace {
  return { app: 0, endpoint: 0, field: `signing key ${id}` }
}
