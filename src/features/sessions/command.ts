import { pathOf } from '../../cli/client.ts'
import type { RemoteCommands } from '../../cli/command.ts'
import { ago, instant, text } from '../../cli/table.ts'
import { CommandError, exitCode } from '../../cli/terminal.ts'

/** `sluice dashboard`: a link that signs a browser in once, with the key of the command. */
export function addDashboard(commands: RemoteCommands): void {
  commands.add('dashboard', 'print a link that opens the dashboard, signed in', async (session) => {
    session.show(await session.client.post('/auth/sign-in-link'), ({ url, expiresAt }) =>
      [text(url), '', `It signs in once, until ${instant(expiresAt)}.`].join('\n'),
    )
  })
}

/** `sluice session`: browsers that are signed in. */
export function addSession(commands: RemoteCommands): void {
  const group = commands.group('session', 'browsers that are signed in: list, end')

  group.list('list', 'list sessions; an admin key sees all', (_, { world }) => {
    const now = world.clock.now()
    return {
      path: '/auth/session',
      empty: 'No sessions.',
      columns: [
        { title: 'ID', cell: 'id' },
        { title: 'KIND', cell: 'kind' },
        { title: 'KEY', cell: ({ name, keyId }) => text(name ?? keyId ?? 'admin key of the settings'), flexible: true },
        { title: 'ADDRESS', cell: 'address' },
        { title: 'BROWSER', cell: 'userAgent', flexible: true },
        { title: 'LAST USED', cell: ({ lastUsedAt }) => ago(lastUsedAt, now) },
        { title: 'ENDS', cell: ({ expiresAt }) => instant(expiresAt) },
      ],
    }
  })

  group
    .add('end [id]', 'end a session, or all with --all', async (session, [id]) => {
      const all = session.options.all === true
      if (all === (id !== undefined)) {
        throw new CommandError('Give the id of one session, or --all.', exitCode.misused)
      }
      if (id === undefined) await session.client.post('/auth/session/end-all')
      else await session.client.delete(pathOf('auth', 'session', id))
      session.show({ ended: id ?? 'all' }, () => (id === undefined ? 'Ended all sessions.' : `Ended ${id}.`))
    })
    .option('--all', 'end all sessions that the list shows')
}
