import type { Application } from '../../domain/endpoint.ts'
import type { MessageWeight } from '../../domain/erasure.ts'
import { isSame } from '../../domain/field.ts'
import type { StoreContext } from '../store.ts'
import { type SubjectMessage, type SubjectRules, type Subjects, unindexedSubject } from '../subjects.ts'
import { openValue, SealError, type SealedPlace, sealValue } from '../vault.ts'
import { waitingMessages } from './erasing.ts'
import { answerBytes, inSpan, spanOfKeys } from './message-rows.ts'
import type { Methods, Port, Sql, Work } from './port.ts'
import { statement } from './statement.ts'
import { variantOwners } from './subject-erasing.ts'

const selectIndexing = statement<{ pointers: string | null; secret: string | null; since: number | null }>(
  'subject-indexing',
  `select coalesce(a.settings, '{}') ->> 'subjectPointers' as pointers, k.secret, k.since
     from application as a left join subject_key as k on k.app = a.key
    where a.key = :app and a.deleted_at is null`,
)
const upsertKey = statement(
  'set-subject-key',
  `insert into subject_key (app, secret, since) values (:app, :secret, :now)
   on conflict (app) do update set since = excluded.since`,
)
// Two ranges of the primary key.
const ofHash = (hash: string) => `
  select message from subject
   where app = :app and hash = ${hash} and message > :after and message < :until order by message limit :limit`
const selectMessages = statement<SubjectMessage>(
  'subject-messages',
  `select message, max(indexed) = 1 as indexed
     from (select message, 1 as indexed from (${ofHash(':hash')}) as named
           union all
           select message, 0 as indexed from (${ofHash(`'${unindexedSubject}'`)}) as unread) as found
    group by message order by message limit :limit`,
  { flags: ['indexed'] },
)

// Neither database reads a body or an answer to tell its length.
const ofMessage = (table: string) =>
  `from ${table} where ${table}.message = message.key and ${inSpan(`${table}.message`)}`
const weighAll = statement<MessageWeight>(
  'weigh-messages',
  ({ among, lengthOf }) => `
    select key as message, ${lengthOf('endpoints')} as endpoints, (select count(*) ${ofMessage('attempt')}) as attempts,
           cast(length(body) + coalesce((select sum(length(body)) ${ofMessage('variant')}), 0) as bigint) as "bodyBytes",
           cast(coalesce((select sum(${answerBytes}) ${ofMessage('attempt')}), 0) as bigint) as "answerBytes"
      from message where ${among('key', ':messages', 'bigint')} and ${inSpan('key')} order by key`,
)

const secretLength = 43

/** Finds messages by their data subjects. */
export function subjects(port: Port): Methods<Omit<Subjects, 'scrubErased'>> {
  return {
    *findSubjectIndex(app) {
      const row = yield* port.first(selectIndexing, { app })
      const rules = row && subjectRules(row.pointers, row.secret, app, port.context)
      return rules && { ...rules, since: row?.since ?? 0 }
    },

    *listSubjectMessages(app, hash, { after, until, limit }) {
      return yield* port.all(selectMessages, { app, hash, after, until, limit })
    },

    *weighMessages(messages) {
      return messages.length === 0 ? [] : yield* port.all(weighAll, { messages, ...spanOfKeys(messages) })
    },

    *waitingAmong(messages) {
      return yield* waitingMessages(port, messages)
    },

    *listVariants(message) {
      return yield* variantOwners(port, message)
    },
  }
}

/** Notes since when new pointers index messages, and makes the secret of an application that has none yet. */
export function* followPointers(
  sql: Sql,
  { vault, randomText }: StoreContext,
  { key: app, settings }: Application,
  before?: Application,
): Work<void> {
  const { subjectPointers } = settings
  if (subjectPointers === undefined || isSame(subjectPointers, before?.settings.subjectPointers)) return
  // The secret of an application that has one stays: hashes that are stored keep their meaning.
  const secret = sealValue(vault, { secret: randomText(secretLength) }, subjectKeyPlace(app)) as string
  yield* sql.all(upsertKey, { app, secret })
}

/** The rules in stored columns. A secret that does not open is null, and leaves a line in the log. */
export function subjectRules(
  pointers: string | null,
  stored: string | null,
  app: number,
  { vault, log }: Pick<StoreContext, 'vault' | 'log'>,
): SubjectRules | undefined {
  if (pointers === null) return undefined
  const list: string[] = JSON.parse(pointers)
  try {
    if (stored === null) return { pointers: list, secret: null }
    return { pointers: list, secret: openValue<{ secret: string }>(vault, stored, subjectKeyPlace(app)).secret }
  } catch (error) {
    if (!(error instanceof SealError)) throw error
    log?.(`messages cannot be indexed by their data subjects: ${error.message}`)
    return { pointers: list, secret: null }
  }
}

/** No endpoint has this key. */
export function subjectKeyPlace(app: number): SealedPlace {
  return { app, endpoint: 0, field: 'subject key' }
}
