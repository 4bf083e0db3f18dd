import type { Item } from '../../cli/client.ts'
import type { RemoteCommands } from '../../cli/command.ts'
import { ago, type Column, counted, table, text } from '../../cli/table.ts'
import { CommandError, exitCode } from '../../cli/terminal.ts'

/** `sluice inbox`: rows that other programs insert. */
export function addInbox(commands: RemoteCommands): void {
  const inbox = commands.group('inbox', 'rows that other programs insert: list refused ones, try them again')

  inbox.add('list', 'count the rows that wait, and list those that were refused', async (session) => {
    const { terminal, world } = session
    session.show(await session.client.get('/inbox'), ({ waiting, refused, oldestMs, data }) => {
      const since = oldestMs == null ? '' : `, the oldest for ${Math.round(Number(oldestMs) / 1000)} s`
      const sentence = `${counted(Number(waiting), 'row')} waiting${since}; ${counted(Number(refused), 'row')} refused.`
      const columns: Column<Item>[] = [
        { title: 'REFUSED', cell: ({ refusedAt }) => ago(refusedAt, world.clock.now()) },
        { title: 'ROW', cell: 'row' },
        { title: 'APPLICATION', cell: 'app' },
        { title: 'EVENT TYPE', cell: 'eventType' },
        { title: 'WHY', cell: ({ error }) => text(error).replaceAll('\n', '; '), flexible: true },
      ]
      const rows = data as Item[]
      return rows.length === 0 ? sentence : `${sentence}\n\n${table(terminal, columns, rows, '')}`
    })
  })

  inbox.add('retry [row]', 'try a refused row again, or all of them', async (session, [row]) => {
    if (row !== undefined && !/^[1-9]\d{0,15}$/.test(row)) {
      throw new CommandError(`${JSON.stringify(row)} must be the number of a row.`, exitCode.misused)
    }
    const body = row === undefined ? {} : { rows: [Number(row)] }
    const answer = await session.client.post('/inbox/retry', { body })
    session.show(answer, ({ retried }) => `${counted(Number(retried), 'row')} tried again.`)
  })
}
