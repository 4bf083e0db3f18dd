import type { TestContext } from 'node:test'
import { atEnd } from './at-end.ts'
import { Client } from './client.ts'
import { openPlace, type Place } from './place.ts'
import { longLease, Program } from './program.ts'
import { Receiver } from './receiver.ts'

/** A server with an empty store and the application `acme`, a client of it and a receiver. */
export interface Acme {
  readonly place: Place
  readonly server: Program
  readonly client: Client
  readonly receiver: Receiver
}

/** Starts them; they end with the test. */
export async function serveAcme(
  t: TestContext,
  dialect: Place['dialect'] = 'sqlite',
  env: Record<string, string> = {},
): Promise<Acme> {
  const place = await openPlace(t, dialect)
  const receiver = await Receiver.listen(t)
  const server = await Program.start(t, 'serve', place.store, { ...longLease, ...env })
  const client = new Client(server.api)
  atEnd(t, () => client.close())
  await client.createApplication('acme')
  return { place, server, client, receiver }
}
