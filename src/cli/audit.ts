import { pathOf } from './client.ts'
import { exitCode } from './outcome.ts'
import { instantText, limitOption, type RemoteCommands, type Session, showList } from './remote.ts'
import { counted, instant, text } from './show.ts'
import { table } from './table.ts'

/** `sluice audit`: the log of changes. Needs an admin key. */
export function addAudit(commands: RemoteCommands): void {
  const audit = commands.group('audit', 'audit log of changes: list, verify')

  commands
    .add(audit, 'list', 'list changes, newest first', async (session) => {
      const found = await session.client.list('/audit', queryOf(session), session.options.limit as number)
      showList(session, found, 'No changes.', (items) =>
        table(
          session.terminal,
          [
            { title: 'WHEN (UTC)', cell: ({ timestamp }) => instant(timestamp) },
            { title: 'WHO', cell: ({ actor }) => text(actor), flexible: true },
            { title: 'FROM', cell: ({ ip }) => text(ip), flexible: true },
            { title: 'WHAT', cell: ({ action }) => text(action) },
            { title: 'OF', cell: ({ target }) => text(target), flexible: true },
          ],
          items,
        ),
      )
    })
    .option('--actor <KEY>', 'only by this key')
    .option('--action <ACTION>', 'only this kind of change')
    .option('--app <APP>', 'only of this application, by id')
    .option('--after <INSTANT>', 'only after, such as 2026-11-15T09:40:00Z, or 2h for two hours ago')
    .option('--before <INSTANT>', 'only before')
    .addOption(limitOption())

  commands.add(audit, 'verify', 'check that no row of the log was changed or removed', async (session) => {
    const found = await session.client.get(pathOf('audit', 'verify'))
    session.show(found, ({ whole, rows, head, brokenAt }) =>
      whole === true
        ? `The log is intact: ${counted(Number(rows), 'row')}.\nKeep this hash elsewhere, to detect a later cut: ${text(head)}`
        : session.terminal.style('red', `The log was changed at row ${text(brokenAt)}.`),
    )
    return found.whole === true ? exitCode.ok : exitCode.failed
  })
}

function queryOf({ options, world }: Session) {
  const at = (raw: unknown) => (raw === undefined ? undefined : instantText(String(raw), world.clock.now()))
  return {
    actor: options.actor as string | undefined,
    action: options.action as string | undefined,
    app_id: options.app as string | undefined,
    after: at(options.after),
    before: at(options.before),
  }
}
