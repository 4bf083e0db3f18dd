import type { Item } from './client.ts'
import type { RemoteCommands } from './command.ts'
import { ago, instant, table, text } from './table.ts'

/** `sluice workers`: the processes that deliver. */
export function addWorkers(commands: RemoteCommands): void {
  commands
    .add(
      'workers',
      'list the workers: version, host, regions, lanes, attempts under way, last sign of life',
      async (session) => {
        const { client, terminal, world, options } = session
        const answer = await client.get('/worker', { ended: options.all === true })
        const workers = answer.data as Item[]
        const now = world.clock.now()
        session.show(answer, () =>
          workers.length === 0
            ? 'No worker is alive: start `sluice serve` or `sluice worker`.'
            : table(
                terminal,
                [
                  { title: 'WORKER', cell: 'id', align: 'right' },
                  { title: 'NAME', cell: 'name', flexible: true },
                  { title: 'VERSION', cell: 'version' },
                  { title: 'REGIONS', cell: ({ regions }) => (Array.isArray(regions) ? regions.join(',') : 'all') },
                  { title: 'STARTED', cell: ({ startedAt }) => instant(startedAt) },
                  { title: 'LAST SEEN', cell: ({ lastSeenAt }) => ago(lastSeenAt, now) },
                  { title: 'LANES', cell: 'lanes', align: 'right' },
                  { title: 'IN FLIGHT', cell: ({ inFlight }) => text(inFlight), align: 'right' },
                  { title: 'STATE', cell: stateOf, colour: ({ state }) => (state === 'alive' ? 'green' : 'red') },
                ],
                workers,
              ),
        )
      },
    )
    .option('--all', 'also those that left or died in the last week')
}

function stateOf({ state, isLeader }: Item): string {
  return isLeader === true ? `${text(state)}, leader` : text(state)
}
