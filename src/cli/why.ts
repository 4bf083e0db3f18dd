import { outcome, statusCode } from './attempts.ts'
import { type Item, pathOf } from './client.ts'
import type { RemoteCommands, Session } from './remote.ts'
import { instant, printable, text } from './show.ts'
import { facts } from './table.ts'

/** `sluice why`: why a message is not delivered to an endpoint yet. */
export function addWhy(commands: RemoteCommands): void {
  commands.add(
    commands.program,
    'why <app> <message> <endpoint>',
    'say why a message is not delivered yet, and when it will move',
    async (session, [app = '', message = '', endpoint = '']) => {
      const path = pathOf('app', app, 'msg', message, 'endpoint', endpoint, 'why')
      session.show(await session.client.get(path), (why) => describe(session, why))
    },
  )
}

function describe({ terminal }: Session, why: Item): string {
  const { reason, detail, nextAt, ahead, isAheadExact, attempts, lastAttempt } = why
  const last = lastAttempt as Item | null
  const colour = reason === 'delivered' ? 'green' : reason === 'dead' || reason === 'cancelled' ? 'red' : 'yellow'
  const about = facts(terminal, [
    ['next move', nextAt == null ? undefined : instant(nextAt)],
    ['ahead of it', ahead === 0 ? undefined : `${text(ahead)}${isAheadExact === false ? ' or more' : ''}`],
    ['attempts', text(attempts)],
    [
      'last attempt',
      last == null ? undefined : `${instant(last.timestamp)}  ${statusCode(last)}  ${printable(outcome(last))}`,
    ],
    ['as of', instant(why.asOf)],
  ])
  return `${terminal.style(['bold', colour], text(reason))}: ${text(detail)}\n${about}`
}
