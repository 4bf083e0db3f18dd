import { pathOf } from './client.ts'
import type { RemoteCommands } from './remote.ts'

/** `sluice circuit`: an operator's word on whether anything is sent to an endpoint. */
export function addCircuit(commands: RemoteCommands): void {
  const circuit = commands.group('circuit', "an endpoint's circuit: open, close, reset")
  for (const [action, summary, done] of [
    [
      'open',
      'send nothing to an endpoint until its circuit is closed',
      (names: string) => `is open: what is published waits until \`sluice circuit close ${names}\``,
    ],
    [
      'close',
      'send again, at a rate that climbs to the usual one',
      () => 'is closed: what waits is sent at a rate that climbs',
    ],
    ['reset', 'send again at once, and forget that it ever failed', () => 'is closed, and its failures are forgotten'],
  ] as const) {
    commands.add(circuit, `${action} <app> <endpoint>`, summary, async (session, [app = '', ref = '']) => {
      const path = pathOf('app', app, 'endpoint', ref, 'circuit', action)
      const endpoint = await session.client.post(path, { body: {} })
      session.show(endpoint, () => `The circuit of ${ref} ${done(`${app} ${ref}`)}.`)
    })
  }
}
