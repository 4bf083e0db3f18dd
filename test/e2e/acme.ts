import type { TestContext } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { openPlace, type Place } from './place.ts'
import { longLease } from './program.ts'
import { Receiver } from './receiver.ts'
import { type Server, startHere } from './server-here.ts'

/** A server with an empty store and the application `acme`, a client of it and a receiver. */
export interface Acme<S> {
  readonly place: Place
  readonly server: S
  readonly client: Client
  readonly receiver: Receiver
}

/** Starts them, the server within this process; they end with the test. */
export function serveAcme(t: TestContext, dialect: Place['dialect'] = 'sqlite', env = {}): Promise<Acme<Server>> {
  return serveAcmeBy(startHere, t, dialect, env)
}

/** The same, with a server that is started in the given way. */
export async function serveAcmeBy<S extends Server>(
  start: (t: TestContext, command: 'serve', store: string, env: Record<string, string>) => Promise<S>,
  t: TestContext,
  dialect: Place['dialect'],
  env: Record<string, string>,
): Promise<Acme<S>> {
  const place = await openPlace(t, dialect)
  const receiver = await Receiver.listen(t)
  const server = await start(t, 'serve', place.store, { ...longLease, ...env })
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
  return { place, server, client, receiver }
}
