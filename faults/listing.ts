import { eventually } from '../test/e2e/eventually.ts'
import type { Program } from '../test/e2e/program.ts'
import type { Sent, State } from './histories.ts'

interface Page {
  readonly data: readonly Record<string, unknown>[]
  readonly iterator: string | null
  readonly done: boolean
}

/** An endpoint, with the id that the server gave it. */
export interface Listed {
  readonly app: string
  readonly path: string
  readonly id: string
}

/** The server's own record of all attempts and ends, by its public API. */
export async function listAll(
  server: Program,
  endpoints: readonly Listed[],
): Promise<{ sent: Sent[]; states: State[] }> {
  const sent: Sent[] = []
  const states: State[] = []
  for (const { app, path, id } of endpoints) {
    for await (const { msgId, code } of items(server, `/app/${app}/attempt/endpoint/${id}`)) {
      sent.push({ path, id: String(msgId), code: String(code) })
    }
    for await (const each of items(server, `/app/${app}/endpoint/${id}/msg`)) {
      states.push({ path, id: String(each.id), state: String(each.statusText) })
    }
  }
  return { sent, states }
}

async function* items(server: Program, path: string): AsyncGenerator<Record<string, unknown>> {
  let iterator: string | null = null
  for (;;) {
    const from: string = iterator === null ? '' : `&iterator=${encodeURIComponent(iterator)}`
    const page: Page = await eventually(`GET ${path}`, () =>
      server.ask('GET', `${path}?limit=250&with_content=false${from}`).catch(() => undefined),
    )
    yield* page.data
    if (page.done || page.iterator === null) return
    iterator = page.iterator
  }
}
