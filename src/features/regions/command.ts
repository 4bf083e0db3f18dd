import { pathOf } from '../../cli/client.ts'
import type { RemoteCommands } from '../../cli/command.ts'
import { facts, instant, text } from '../../cli/table.ts'

/** `sluice region`: the secrets behind pseudonyms. */
export function addRegion(commands: RemoteCommands): void {
  const region = commands.group('region', "an application's secrets for pseudonyms, by region: list, create, delete")

  region.list('list <app>', 'list the regions that an application has a secret of', ([app]) => ({
    path: pathOf('app', app, 'region'),
    empty: `No regions. Create one: sluice region create ${app} NAME`,
    columns: [
      { title: 'NAME', cell: 'name', flexible: true },
      { title: 'CREATED', cell: ({ createdAt }) => instant(createdAt) },
    ],
  }))

  region
    .add('create <app> <name>', 'create the secret of a region', async (session, [app, name]) => {
      const body = { name, secret: session.options.secret }
      const created = await session.client.post(pathOf('app', app, 'region'), { body })
      session.show(created, (item) =>
        facts(session.terminal, [
          ['name', text(item.name)],
          ['secret', item.secret === undefined ? undefined : `${text(item.secret)} (not shown again)`],
          ['created', instant(item.createdAt)],
        ]),
      )
    })
    .option('--secret <SECRET>', 'its secret, 16 to 256 characters (default: a random one)')

  region.addConfirmed(
    'delete <app> <name>',
    'delete the secret of a region that no endpoint gets pseudonyms of',
    (_, [app, name]) => `Delete the secret of region ${name} of ${app}? Its pseudonyms cannot be computed again.`,
    async (session, [app, name]) => {
      await session.client.delete(pathOf('app', app, 'region', name))
      session.show(
        { deleted: name },
        () => `Deleted the secret of region ${name}. Its pseudonyms cannot be computed again.`,
      )
    },
  )
}
