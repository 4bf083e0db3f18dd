import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { apiRoot } from '../domain/api.ts'
import type { Clock } from '../domain/clock.ts'
import type { Exposed } from '../metrics/exposition.ts'
import { createServer } from '../wire/network.ts'
import { ConnectionLimit } from './connection-limit.ts'
import { Pipelining } from './pipelining.ts'

/** Metrics as the server offers them. */
export interface MetricsPage {
  /** Whether the API answers them without a key. */
  readonly isPublic: boolean
  /** The metrics in the form that an Accept header prefers. */
  write(accept: string | undefined): Promise<Exposed>
}

const path = '/metrics'
/** The paths of the API, so that one probe fits every process. It asks neither the store nor the metrics. */
const livePaths: readonly string[] = ['/livez', `${apiRoot}/health/ping`]
/** Connections and time that scrapers may take. */
const limits = { connections: 100, headersMs: 10_000, keepAliveMs: 75_000 }

/** A server that answers `/metrics` and whether the process lives, without a key. It does not listen yet. */
export function metricsServer(
  metrics: Pick<MetricsPage, 'write'>,
  clock: Clock,
  onBug: (error: unknown) => void,
): Server {
  const options = {
    headersTimeout: limits.headersMs,
    requestTimeout: limits.headersMs,
    keepAliveTimeout: limits.keepAliveMs,
    connectionsCheckingInterval: 1000,
  }
  const server = createServer(options, (request, response) => void answer(request, response))
  new Pipelining(server, clock, new ConnectionLimit(server, limits.connections, clock))

  /** Never rejects. */
  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    // A scrape has no body. A body that comes is not kept.
    request.resume()
    if (livePaths.includes(request.url ?? ''))
      return void response.writeHead(204, { 'cache-control': 'no-store' }).end()
    const { status, type, text, ...headers } = await answerTo(request)
    response.writeHead(status, {
      ...headers,
      'content-type': type,
      'content-length': Buffer.byteLength(text),
      'x-content-type-options': 'nosniff',
      'cache-control': 'no-store',
    })
    response.end(request.method === 'HEAD' ? undefined : text)
  }

  async function answerTo({ method, url = '', headers }: IncomingMessage) {
    const type = 'text/plain; charset=utf-8'
    if (url.split('?', 1)[0] !== path) return { status: 404, type, text: `Metrics are at ${path}.\n` }
    if (method !== 'GET' && method !== 'HEAD') {
      return { status: 405, type, text: 'Metrics are read with GET.\n', allow: 'GET, HEAD' }
    }
    try {
      return { status: 200, ...(await metrics.write(headers.accept)) }
    } catch (error) {
      onBug(error)
      return { status: 500, type, text: 'Metrics could not be written; the log has the reason.\n' }
    }
  }

  return server
}
