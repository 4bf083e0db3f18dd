import { type AddressInfo, createServer, type Socket } from 'node:net'
import { answer } from './child.ts'
import { FrameReader, header } from './http-frames.ts'
import { machineNow } from './machine-clock.ts'
import { type Span, sliceMs } from './steady-rate.ts'

/**
 * The receiving end, a process of its own. It is a bare `net` server that reads just enough HTTP to count, because it
 * must not be what is measured: 62,000 requests/s on one core where node:http did 58,000.
 */

/** How requests for a path are met: answered 200, at once or after a while, left open for ever, cut off, or answered with a status. */
export type Behaviour = 'ok' | 'hang' | 'reset' | { readonly status: number } | { readonly okAfterMs: number }

/** `stamps` keeps when each request for a path came, `ids` also which message it was. */
export type Recording = 'counts' | 'stamps' | 'ids'

/**
 * The requests for one path; only requests that were answered 200 are kept. `ids[i]` was read at `stamps[i]` and answered at
 * `answered[i]`, and with the recording `stamps` it is known not to have come before `notBefore[i]`.
 */
export interface PathRecord {
  readonly path: string
  readonly requests: number
  readonly stamps: Float64Array
  readonly answered: Float64Array
  readonly notBefore: Float64Array
  readonly ids: readonly string[]
}

export type ReceiverCommands = typeof commands

interface Route {
  behaviour: Behaviour
  requests: number
  stamps: number[]
  answered: number[]
  notBefore: number[]
  ids: string[]
}

const ok = Buffer.from('HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nok')
const timelineSlices = Math.ceil(300_000 / sliceMs)
/** A shorter time without a request is no pause: the two ends of a drain share the cores. */
const pauseMs = 10

const routes = new Map<string, Route>()
const seen = new Set<string>()
let recording: Recording = 'counts'
let timeline = new Uint32Array(timelineSlices)
let startedAt = machineNow()
let delivered = 0
let duplicates = 0
let firstAt = 0
let lastAt = 0
let connections = 0
let peakConnections = 0
let lookedAt = 0
let lookedBeforeAt = 0
let looking: NodeJS.Timeout | undefined
let pauses: Span[] = []
let goal: { readonly delivered: number; reach(): void } | undefined

const commands = {
  /** Listens on that many ports of 127.0.0.1, so that each endpoint is an origin of its own, as in life. */
  async listen(ports: number): Promise<number[]> {
    const listening = Array.from({ length: ports }, () => {
      const server = createServer({ noDelay: true }, serveConnection)
      return new Promise<number>((resolve, reject) => {
        server.once('error', reject)
        server.listen({ host: '127.0.0.1', port: 0, backlog: 1024 }, () =>
          resolve((server.address() as AddressInfo).port),
        )
      })
    })
    return Promise.all(listening)
  },

  /** Forgets everything that came; behaviours stay. */
  reset(mode: Recording): void {
    recording = mode
    for (const route of routes.values()) Object.assign(route, { requests: 0, ...nothing() })
    seen.clear()
    timeline = new Uint32Array(timelineSlices)
    startedAt = machineNow()
    delivered = 0
    duplicates = 0
    firstAt = 0
    lastAt = 0
    pauses = []
    peakConnections = connections
    clearInterval(looking)
    if (mode === 'stamps') looking = setInterval(look, 1)
  },

  behave({ paths, behaviour }: { paths: readonly string[]; behaviour: Behaviour }): void {
    for (const path of paths) routeOf(path).behaviour = behaviour
  },

  /** Answers when that many were delivered, or when none came for `quietMs`; the number is how many were. */
  async until({ count, quietMs }: { count: number; quietMs: number }): Promise<number> {
    if (delivered >= count) return delivered
    const { promise, resolve } = Promise.withResolvers<void>()
    goal = { delivered: count, reach: resolve }
    const askedAt = machineNow()
    const watch = setInterval(() => {
      if (machineNow() - Math.max(lastAt, askedAt) > quietMs) resolve()
    }, 50)
    await promise
    clearInterval(watch)
    goal = undefined
    return delivered
  },

  delivered(): number {
    return delivered
  },

  /** The pauses between deliveries that ended since this was last asked. */
  pauses(): readonly Span[] {
    const ended = pauses
    pauses = []
    return ended
  },

  /** With `ids`, `delivered` counts each message once per path, and `duplicates` the rest. */
  totals() {
    return { delivered, duplicates, startedAt, firstAt, lastAt, peakConnections, timeline }
  },

  records(): PathRecord[] {
    return [...routes].map(([path, { requests, stamps, answered, notBefore, ids }]) => ({
      path,
      requests,
      stamps: Float64Array.from(stamps),
      answered: Float64Array.from(answered),
      notBefore: Float64Array.from(notBefore),
      ids,
    }))
  },
}

function serveConnection(socket: Socket): void {
  const frames = new FrameReader()
  const onFrame = (head: string): void => meet(socket, head)
  peakConnections = Math.max(peakConnections, ++connections)
  socket.on('data', (chunk) => frames.read(chunk, onFrame))
  socket.on('close', () => connections--)
  socket.on('error', () => socket.destroy()) // The peer was killed or gave up: expected here.
}

function meet(socket: Socket, head: string): void {
  const now = machineNow()
  const from = head.indexOf(' ') + 1
  const route = routeOf(head.slice(from, head.indexOf(' ', from)))
  route.requests++
  if (route.behaviour === 'ok') {
    socket.write(ok)
    record(route, head, now)
  } else if (typeof route.behaviour === 'object' && 'okAfterMs' in route.behaviour) {
    const { answered } = route
    const at = answered.length
    record(route, head, now)
    setTimeout(() => {
      socket.write(ok)
      if (answered.length > at) answered[at] = machineNow()
    }, route.behaviour.okAfterMs)
  } else if (route.behaviour === 'reset') {
    socket.resetAndDestroy()
  } else if (route.behaviour !== 'hang') {
    socket.write(`HTTP/1.1 ${route.behaviour.status} Unwell\r\ncontent-length: 0\r\n\r\n`)
  }
}

function record(route: Route, head: string, now: number): void {
  if (lastAt > 0 && now - lastAt > pauseMs) pauses.push({ fromAt: lastAt, toAt: now })
  if (firstAt === 0) firstAt = now
  lastAt = now
  const slice = Math.min(timelineSlices - 1, Math.floor((now - startedAt) / sliceMs))
  timeline[slice] = (timeline[slice] ?? 0) + 1
  if (recording === 'counts') delivered++
  else recordStamp(route, head, now)
  if (goal && delivered >= goal.delivered) goal.reach()
}

function recordStamp(route: Route, head: string, now: number): void {
  route.stamps.push(now)
  route.answered.push(now)
  if (recording === 'stamps') {
    route.notBefore.push(lookedBeforeAt)
    delivered++
    return
  }
  const id = header(head, 'webhook-id') ?? ''
  route.ids.push(id)
  const from = head.indexOf(' ') + 1
  const key = `${head.slice(from, head.indexOf(' ', from))} ${id}`
  if (seen.has(key)) duplicates++
  else {
    seen.add(key)
    delivered++
  }
}

/**
 * Notes every millisecond that this process is awake. The bytes that waited at one look are read by the next, so a
 * request came after the last look but one: a receiver that did not get to run for 100 ms cannot take what piled up
 * meanwhile for a burst.
 */
function look(): void {
  lookedBeforeAt = lookedAt
  lookedAt = machineNow()
}

function nothing(): Pick<Route, 'stamps' | 'answered' | 'notBefore' | 'ids'> {
  return { stamps: [], answered: [], notBefore: [], ids: [] }
}

function routeOf(path: string): Route {
  const known = routes.get(path)
  if (known) return known
  const route: Route = { behaviour: 'ok', requests: 0, ...nothing() }
  routes.set(path, route)
  return route
}

answer(commands)
