import { Client } from './client.ts'
import type { Options, World } from './command.ts'
import { loadExisting } from './run.ts'

/** A client of a server within this process, and the end of that server. */
export interface OnStore extends AsyncDisposable {
  readonly client: Client
}

/**
 * Serves the API of a store to this process alone, for one command: on a loopback address, with a key that only this process knows.
 * It delivers nothing. A SQLite file may have an owner at the same time, or none.
 */
export async function openOnStore(world: World, options: Options): Promise<OnStore> {
  const store = String(options.store)
  const named = /^\w+:/.test(store) ? store : `sqlite:${store}`
  const key = world.randomText(32)
  const config = { ...loadExisting(world, { store: named }), adminKey: key, logLevel: 'error' as const }
  const parts = await world.openParts(config, world.openLog(config), { role: 'guest' })
  const ends = new AsyncDisposableStack()
  ends.defer(() => parts.store.close())
  try {
    const api = await parts.openApi()
    ends.defer(() => api.close())
    const { port } = await api.listen({ host: '127.0.0.1', port: 0 })
    const { clock, version } = world
    const client = new Client({ url: `http://127.0.0.1:${port}`, key, clock, version })
    return { client, [Symbol.asyncDispose]: () => ends.disposeAsync() }
  } catch (error) {
    await ends.disposeAsync()
    throw error
  }
}
