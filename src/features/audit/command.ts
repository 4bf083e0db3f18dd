import { type Item, pathOf } from '../../cli/client.ts'
import type { RemoteCommands } from '../../cli/command.ts'
import { addFields, queryOf } from '../../cli/field-options.ts'
import { counted, countLimit, instant, namesById, text } from '../../cli/table.ts'
import { exitCode } from '../../cli/terminal.ts'
import { auditFilterFields } from '../../domain/filter-fields.ts'

const verbs: Readonly<Record<string, string>> = {
  GET: 'read',
  POST: 'create',
  PUT: 'replace',
  PATCH: 'update',
  DELETE: 'delete',
}

const things = new Set(['app', 'endpoint', 'schedule', 'region', 'event-type', 'api-key', 'dead'])

/** A route of the audit log in words: `PATCH /app/:app/endpoint/:endpoint` is `update endpoint`. */
function operationOf(action: string): string {
  const [, method = '', path = ''] = /^([A-Z]+) (\/.*)$/.exec(action) ?? []
  const verb = verbs[method]
  if (verb === undefined) return action
  const words = path.split('/').slice(1)
  const named = words.findLastIndex((word) => word.startsWith(':'))
  const rest = words.slice(named + 1)
  const noun = words[named - 1] ?? ''
  if (rest.length === 0) return `${verb} ${noun}`
  // The words after the last name are a noun, or an action on the named object.
  if (rest.length === 1 && things.has(rest[0] as string)) return `${verb} ${rest[0]}`
  return [...(method === 'POST' ? [] : [verb]), ...rest, noun].join(' ').trim()
}

/** The path of a change without the version of the API, with the uid of its application. */
function thingOf(target: string, apps: ReadonlyMap<unknown, string>): string {
  const words = target.replace(/^\/api\/v1\//, '').split('/')
  return words.map((word) => apps.get(word) ?? word).join('/')
}

/** `sluice audit`: the log of changes. Needs an admin key. */
export function addAudit(commands: RemoteCommands): void {
  const audit = commands.group('audit', 'audit log of changes: list, verify, trim')

  const list = audit.list('list', 'list changes, newest first', async (_, session) => {
    const { client, json } = session
    const listed = async (path: string) => (json ? [] : (await client.list(path, {}, countLimit)).items)
    const keys = new Map((await listed('/api-key')).map(({ id, name }) => [id, text(name)]))
    const apps = namesById(await listed('/app'))
    return {
      path: '/audit',
      query: queryOf(session, auditFilterFields),
      empty: 'No changes.',
      columns: [
        { title: 'WHEN', cell: ({ timestamp }) => instant(timestamp) },
        { title: 'WHO', cell: ({ actor }) => keys.get(actor) ?? text(actor), flexible: true },
        { title: 'FROM', cell: 'ip', flexible: true },
        { title: 'WHAT', cell: ({ action }) => operationOf(text(action)) },
        { title: 'OF', cell: ({ target }) => thingOf(text(target), apps), flexible: true },
      ],
    }
  })
  addFields(list, auditFilterFields)

  audit.add('verify', 'check that no row of the log was changed or removed', async (session) => {
    const found = await session.client.get(pathOf('audit', 'verify'))
    session.show(found, ({ whole, rows, trimmed, head, brokenAt }) =>
      whole === true
        ? `The log is intact: ${counted(Number(rows), 'row')}${Number(trimmed) === 0 ? '' : `, ${text(trimmed)} of them trimmed behind a signed checkpoint`}.\nKeep this hash elsewhere, to detect a later cut: ${text(head)}`
        : session.terminal.style('red', `The log was changed at row ${text(brokenAt)}.`),
    )
    return found.whole === true ? exitCode.ok : exitCode.failed
  })

  audit
    .addConfirmed(
      'trim',
      'remove old rows, behind a checkpoint that the server signs',
      ({ options }) => `Remove the rows of the audit log before ${text(options.before)} for good?`,
      async (session) => {
        const body = { before: session.options.before }
        const { trimmed, checkpoint } = await session.client.post(pathOf('audit', 'trim'), { body })
        session.show({ trimmed, checkpoint }, () =>
          checkpoint == null
            ? 'No row is older than that.'
            : `Trimmed ${counted(Number(trimmed), 'row')}. Keep this hash elsewhere: ${text((checkpoint as Item).hash)}`,
        )
      },
    )
    .requiredOption('--before <INSTANT>', 'rows older than this, such as 2026-01-01T00:00:00Z')
}
