import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Bench } from './bench.ts'

/** The answer to one request. */
export interface Answer {
  readonly status: number
  readonly afterMs?: number
  readonly headers?: Readonly<Record<string, string>>
}

/** Decides the answer to the n-th request for a path, `ageMs` after its first. */
export type Behaviour = (n: number, ageMs: number) => Answer

/** A receiver in this process that answers as it is asked to and keeps when each message was first delivered and first tried. */
export interface Answering {
  readonly url: string
  behave(path: string, behaviour: Behaviour): void
  /** When the first request for a message came. */
  readonly triedAt: ReadonlyMap<string, number>
  /** When the last message of a path was delivered. */
  readonly lastAt: ReadonlyMap<string, number>
  readonly delivered: ReadonlyMap<string, number>
}

export async function startAnswering(bench: Bench): Promise<Answering> {
  const behaviours = new Map<string, Behaviour>()
  const [triedAt, lastAt, delivered] = [new Map<string, number>(), new Map<string, number>(), new Map<string, number>()]
  const [seen, firstAt] = [new Map<string, number>(), new Map<string, number>()]
  const server = createServer((request, response) => {
    const path = request.url ?? ''
    const now = Date.now()
    const n = seen.get(path) ?? 0
    seen.set(path, n + 1)
    if (!firstAt.has(path)) firstAt.set(path, now)
    const name = `${path} ${idOf(request)}`
    if (!triedAt.has(name)) triedAt.set(name, now)
    request.resume()
    const behaviour: Behaviour = behaviours.get(path) ?? (() => ({ status: 200 }))
    const { status, afterMs = 0, headers = {} } = behaviour(n, now - (firstAt.get(path) ?? now))
    const end = () => {
      if (status < 300) {
        lastAt.set(path, Date.now())
        delivered.set(path, (delivered.get(path) ?? 0) + 1)
      }
      response.writeHead(status, headers).end()
    }
    if (afterMs === 0) end()
    else setTimeout(end, afterMs)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  bench.ends.defer(async () => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    behave: (path, behaviour) => void behaviours.set(path, behaviour),
    triedAt,
    lastAt,
    delivered,
  }
}

function idOf({ headers }: IncomingMessage): string {
  return String(headers['webhook-id'] ?? headers['svix-id'] ?? '')
}
