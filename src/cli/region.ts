import { pathOf } from './client.ts'
import { limitOption, type RemoteCommands, showList } from './remote.ts'
import { instant, text } from './show.ts'
import { facts, table } from './table.ts'

/** `sluice region`: the secrets behind pseudonyms. */
export function addRegion(commands: RemoteCommands): void {
  const region = commands.group('region', 'secrets for pseudonyms: list, create, delete')

  commands
    .add(region, 'list <app>', "list an application's regions", async (session, [app = '']) => {
      const found = await session.client.list(pathOf('app', app, 'region'), {}, session.options.limit as number)
      showList(session, found, `No regions. Create one: sluice region create ${app} NAME`, (items) =>
        table(
          session.terminal,
          [
            { title: 'NAME', cell: ({ name }) => text(name), flexible: true },
            { title: 'CREATED (UTC)', cell: ({ createdAt }) => instant(createdAt) },
          ],
          items,
        ),
      )
    })
    .addOption(limitOption())

  commands
    .add(region, 'create <app> <name>', 'create a region', async (session, [app = '', name = '']) => {
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

  commands.add(
    region,
    'delete <app> <name>',
    'delete a region that no endpoint uses',
    async (session, [app = '', name = '']) => {
      await session.client.delete(pathOf('app', app, 'region', name))
      session.show({ deleted: name }, () => `Deleted region ${name}. Its pseudonyms cannot be computed again.`)
    },
  )
}
