import { randomUUID } from 'node:crypto'
import { answer } from './child.ts'
import { publishBody, videoId } from './event.ts'
import { connect, type HttpConnection } from './http-connection.ts'
import { machineNow } from './machine-clock.ts'
import { latencyFigures } from './percentile.ts'

/** The publisher, a process of its own: keep-alive connections with one request under way on each. */

export interface LoadTarget {
  /** Where to publish; of several addresses, each in turn. */
  readonly url: string | readonly string[]
  readonly key: string
  readonly connections: number
  /** Gives each request an Idempotency-Key of its own, as every SDK does. */
  readonly keyed?: boolean
  /** How many different videos the events are about, in turn; 1 by default, 100 at most. */
  readonly subjects?: number
}

/** The fates of the requests. Times are the machine's clock; `ids[i]` was due at `sentAt[i]`, accepted at `acceptedAt[i]`. */
export interface LoadReport {
  readonly accepted: number
  /** Answers other than 202, counted by status. */
  readonly refused: Readonly<Record<number, number>>
  readonly startedAt: number
  readonly endedAt: number
  readonly latency: ReturnType<typeof latencyFigures>
  readonly ids: readonly string[]
  readonly sentAt: Float64Array
  readonly acceptedAt: Float64Array
}

export type LoadCommands = typeof commands

const commands = {
  /** Each connection sends its next request as soon as the last one is answered, until the time or the count is up. */
  async closedLoop(input: LoadTarget & { readonly seconds: number; readonly count?: number }): Promise<LoadReport> {
    const log = new Log()
    const request = requestFor(input)
    const open = await openConnections(input)
    const deadline = machineNow() + input.seconds * 1000
    let left = input.count ?? Number.POSITIVE_INFINITY
    const runs = open.map(
      (connection) =>
        new Promise<void>((resolve, reject) => {
          const next = (): void => {
            const now = machineNow()
            if (left <= 0 || now >= deadline) return resolve()
            left--
            connection.send(request(), reject, (status, body) => {
              log.add(now, machineNow(), status, body)
              next()
            })
          }
          next()
        }),
    )
    return finish(log, open, runs)
  },

  /**
   * Sends `rate` requests per second whatever the answers do, so that a slow server cannot slow down its own test: a
   * request that finds every connection busy waits, and counts from when it was due.
   */
  async openLoop(input: LoadTarget & { readonly seconds: number; readonly rate: number }): Promise<LoadReport> {
    const log = new Log()
    const request = requestFor(input)
    const open = await openConnections(input)
    const free = [...open]
    const waiting: number[] = []
    const total = Math.round(input.rate * input.seconds)
    const startedAt = machineNow()
    const run = new Promise<void>((resolve, reject) => {
      let due = 0
      let answered = 0
      const start = (connection: HttpConnection, dueAt: number): void => {
        connection.send(request(), reject, (status, body) => {
          log.add(dueAt, machineNow(), status, body)
          const next = waiting.shift()
          if (next === undefined) free.push(connection)
          else start(connection, next)
          if (++answered === total) resolve()
        })
      }
      const tick = (): void => {
        for (; due < total; due++) {
          const dueAt = startedAt + (due * 1000) / input.rate
          if (dueAt > machineNow()) break
          // In turn: a server ends connections that send nothing for ten seconds.
          const connection = free.shift()
          if (connection) start(connection, dueAt)
          else waiting.push(dueAt)
        }
        if (due < total) setTimeout(tick, 1)
      }
      tick()
    })
    return finish(log, open, [run])
  },
}

class Log {
  readonly startedAt = machineNow()
  readonly #ids: string[] = []
  readonly #sentAt: number[] = []
  readonly #acceptedAt: number[] = []
  readonly #refused: Record<number, number> = {}

  add(sentAt: number, answeredAt: number, status: number, body: Buffer): void {
    if (status !== 202) {
      this.#refused[status] = (this.#refused[status] ?? 0) + 1
      return
    }
    const from = body.indexOf('"id":"') + 6
    this.#ids.push(body.toString('latin1', from, body.indexOf('"', from)))
    this.#sentAt.push(sentAt)
    this.#acceptedAt.push(answeredAt)
  }

  report(): LoadReport {
    return {
      accepted: this.#ids.length,
      refused: this.#refused,
      startedAt: this.startedAt,
      endedAt: machineNow(),
      latency: latencyFigures(this.#acceptedAt.map((at, i) => at - (this.#sentAt[i] as number))),
      ids: this.#ids,
      sentAt: Float64Array.from(this.#sentAt),
      acceptedAt: Float64Array.from(this.#acceptedAt),
    }
  }
}

async function finish(log: Log, open: HttpConnection[], runs: readonly Promise<void>[]): Promise<LoadReport> {
  try {
    await Promise.all(runs)
    return log.report()
  } finally {
    for (const connection of open) connection.close()
  }
}

/**
 * Connections that the server has taken up: each has had an answer. A server takes up one per turn of its event loop, and
 * the first requests of a storm would wait for that.
 */
async function openConnections({ url, connections }: LoadTarget): Promise<HttpConnection[]> {
  const [server = ''] = [url].flat()
  const greeting = Buffer.from(`GET /api/v1/health HTTP/1.1\r\nhost: ${new URL(server).host}\r\n\r\n`)
  const open = await Promise.all(Array.from({ length: connections }, () => connect(server)))
  const greet = (connection: HttpConnection) =>
    new Promise<void>((resolve, reject) => connection.send(greeting, reject, () => resolve()))
  await Promise.all(open.map(greet))
  return open
}

/** The maker of the next request: always the same bytes, but for the address, the key and the video. */
function requestFor(target: LoadTarget): () => Buffer {
  const { url } = target
  if (typeof url === 'string') return requestTo({ ...target, url })
  const makers = url.map((each) => requestTo({ ...target, url: each }))
  let count = 0
  return () => (makers[count++ % makers.length] as () => Buffer)()
}

type OneTarget = LoadTarget & { readonly url: string }

function requestTo(target: OneTarget): () => Buffer {
  const { subjects = 1 } = target
  const next = requestAboutOne(target)
  if (subjects === 1) return next
  let count = 0
  return () => {
    const request = Buffer.from(next())
    const video = String(count++ % subjects).padStart(2, '0')
    request.write(video, request.indexOf(videoId) + videoId.length - video.length, 'latin1')
    return request
  }
}

function requestAboutOne({ url, key, keyed = false }: OneTarget): () => Buffer {
  const { host, pathname } = new URL(url)
  const head = [
    `POST ${pathname} HTTP/1.1`,
    `host: ${host}`,
    `authorization: Bearer ${key}`,
    'content-type: application/json',
    `content-length: ${Buffer.byteLength(publishBody)}`,
    ...(keyed ? [`idempotency-key: auto_${randomUUID()}${'0'.repeat(digits)}`] : []),
  ]
  const request = Buffer.from(`${head.join('\r\n')}\r\n\r\n${publishBody}`)
  if (!keyed) return () => request
  const at = request.indexOf('\r\n\r\n') - digits
  let count = 0
  return () => {
    const next = Buffer.from(request)
    next.write(String(++count).padStart(digits, '0'), at, 'latin1')
    return next
  }
}

const digits = 9

answer(commands)
