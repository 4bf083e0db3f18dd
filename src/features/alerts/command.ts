import { type Item, pathOf } from '../../cli/client.ts'
import { option, type RemoteCommands } from '../../cli/command.ts'
import { ago, type Column, instant, table, text } from '../../cli/table.ts'
import { CommandError, exitCode } from '../../cli/terminal.ts'
import { ConfigError } from '../../runtime/config.ts'
import { duration } from '../../runtime/setting-kinds.ts'

const month = 30 * 24 * 60 * 60 * 1000

/** `sluice alert`: alerts, silences, and the alerts file. */
export function addAlert(commands: RemoteCommands): void {
  const group = commands.group('alert', 'alerts: list, silence, unsilence, test, check')

  group
    .add('list', 'list alerts that are pending or fire, and silences', async (session) => {
      const all = session.options.all === true
      const now = session.world.clock.now()
      session.show(await session.client.get('/alert'), ({ alerts, silences }) => {
        const shown = (alerts as Item[]).filter(({ phase }) => all || phase !== 'resolved')
        const fired = table(session.terminal, alertColumns(now), shown, 'No alerts.')
        if ((silences as Item[]).length === 0) return fired
        return [fired, '', table(session.terminal, silenceColumns, silences as Item[])].join('\n')
      })
    })
    .option('--all', 'also those that resolved within a week')

  group
    .add('silence [rule]', 'do not announce alerts for some time', async (session, [rule]) => {
      const { subject, reason, for: forMs, in: inMs } = session.options
      const seconds = Math.ceil(Number(forMs) / 1000)
      const startsInSeconds = inMs === undefined ? undefined : Math.round(Number(inMs) / 1000)
      const body = { rule, subject, reason, seconds, startsInSeconds }
      const made = await session.client.post('/alert/silence', { body })
      session.show(
        made,
        ({ id, until }) => `Silenced until ${instant(until)}. End it with: sluice alert unsilence ${text(id)}`,
      )
    })
    .option('--subject <ID>', 'only of this endpoint id, or worker such as "worker 7"')
    .addOption(option('--for <DURATION>', 'length of the silence', duration(1000, month)).default(3_600_000, '1h'))
    .addOption(option('--in <DURATION>', 'time until it begins', duration(0, month)))
    .option('--reason <TEXT>', 'a note for other operators')

  group.add('unsilence <id>', 'end a silence', async (session, [id]) => {
    await session.client.delete(pathOf('alert', 'silence', id))
    session.show({ ended: id }, () => `Ended ${id}.`)
  })

  group.add('test', 'announce a test to every receiver', async (session) => {
    session.show(
      await session.client.post('/alert/test'),
      () => 'Announced. It resolves within ten seconds; every receiver hears both.',
    )
  })

  group.add('check <file>', 'check an alerts file without a server', async (session, [file]) => {
    const { loadAlertFile } = await import('./file.ts')
    const { rules, receivers } = orMistakes(() => loadAlertFile(file))
    const names = { rules: rules.map(({ name }) => name), receivers: receivers.map(({ name }) => name) }
    session.show(names, () =>
      [`Rules: ${names.rules.join(', ') || 'none'}.`, `Receivers: ${names.receivers.join(', ') || 'none'}.`].join('\n'),
    )
  })
}

/** Runs a check, and names the mistakes of the file alone: the settings of a server have no part in it. */
function orMistakes<T>(check: () => T): T {
  try {
    return check()
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const lines = error.problems.map((problem) => `  - ${problem}`)
    throw new CommandError(['The alerts file is wrong:', ...lines].join('\n'), exitCode.misused, { cause: error })
  }
}

function alertColumns(now: number): readonly Column<Item>[] {
  return [
    { title: 'RULE', cell: 'rule' },
    { title: 'PHASE', cell: 'phase' },
    { title: 'SEVERITY', cell: 'severity' },
    { title: 'SINCE', cell: ({ since }) => ago(since, now) },
    { title: 'SUBJECT', cell: ({ subject }) => text(subject ?? '') },
    { title: 'DETAILS', cell: 'sentence', flexible: true },
  ]
}

const silenceColumns: readonly Column<Item>[] = [
  { title: 'SILENCE', cell: 'id' },
  { title: 'RULE', cell: ({ rule }) => text(rule ?? 'all') },
  { title: 'SUBJECT', cell: ({ subject }) => text(subject ?? 'all') },
  { title: 'FROM', cell: ({ from }) => instant(from) },
  { title: 'UNTIL', cell: ({ until }) => instant(until) },
  { title: 'REASON', cell: 'reason', flexible: true },
]
