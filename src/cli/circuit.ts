import { pathOf } from './client.ts'
import type { RemoteCommands } from './remote.ts'

/** `sluice circuit`: opens and closes an endpoint's circuit by hand. */
export function addCircuit(commands: RemoteCommands): void {
  const circuit = commands.group('circuit', "an endpoint's circuit: open, close, reset")
  for (const [action, summary, done] of [
    [
      'open',
      'send nothing to an endpoint until its circuit is closed',
      (names: string) => `is open. Deliveries wait until \`sluice circuit close ${names}\``,
    ],
    [
      'close',
      'send again, at a rate that climbs back to normal',
      () => 'is closed. Waiting deliveries are sent at a climbing rate',
    ],
    ['reset', 'send again at full rate, and clear its failures', () => 'is closed, and its failures are cleared'],
  ] as const) {
    commands.add(circuit, `${action} <app> <endpoint>`, summary, async (session, [app = '', ref = '']) => {
      const path = pathOf('app', app, 'endpoint', ref, 'circuit', action)
      const endpoint = await session.client.post(path, { body: {} })
      session.show(endpoint, () => `The circuit of ${ref} ${done(`${app} ${ref}`)}.`)
    })
  }
}
