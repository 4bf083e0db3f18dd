import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { parseArgs } from 'node:util'
import { apiKey } from '../e2e/program.ts'
import { dialects, Target } from './attack.ts'
import { type Chance, chanceOf } from './chance.ts'
import { type Operation, readOperations } from './operations.ts'

/**
 * Sends requests of every kind to every route and hangs up at any moment, from a seed. By hand:
 *
 *     node test/attack/fuzz-aborts.ts --seconds 600 --store sqlite --seed 7
 */
if (process.argv[1] === import.meta.filename) {
  const { values } = parseArgs({
    options: { seconds: { type: 'string' }, store: { type: 'string' }, seed: { type: 'string' } },
  })
  const dialect = dialects.find((name) => name === (values.store ?? 'sqlite'))
  if (dialect === undefined) throw new Error('--store is sqlite or postgres.')
  const seed = Number(values.seed ?? Date.now() % 1_000_000)
  test(`${dialect}: requests that are aborted at any moment (seed ${seed})`, async (t) => {
    const target = await Target.start(t, dialect)
    const tally = await fuzzAborts(target, { seed, seconds: Number(values.seconds ?? 60) })
    t.diagnostic(JSON.stringify(tally))
  })
}

/** The number of requests by the way that each ended: its status, or the moment at which the client hung up. */
export type Tally = Readonly<Record<string, number>>

const connectionsAtOnce = 16
/** The names of things change while the fuzzer deletes them; it makes new ones after this many requests. */
const renewEvery = 400
/** Half-open connections that are kept waiting for an answer at once. */
const halfOpenAtMost = 64

/**
 * Goes on for so many seconds or requests. Fails when the process ends, a 5xx other than an explained 503 comes, or the
 * log has a stack or a bug.
 */
export async function fuzzAborts(
  target: Target,
  options: { readonly seed: number; readonly seconds?: number; readonly requests?: number },
): Promise<Tally> {
  const { seed, seconds = Infinity, requests = Infinity } = options
  const operations = readOperations(seed)
  const tally: Record<string, number> = {}
  const faults: string[] = []
  const count = (what: string) => {
    tally[what] = (tally[what] ?? 0) + 1
  }
  let world = await makeWorld(target, 0)
  let made = 0
  let sent = 0
  const halfOpen: Socket[] = []

  async function worker(chance: Chance, until: number): Promise<void> {
    while (performance.now() < until && sent < requests && target.program.isRunning && faults.length < 5) {
      if (++sent % renewEvery === 0) world = await makeWorld(target, ++made)
      const request = requestOf(chance, chance.of(operations), world)
      const ending = await play(target.port, chance, request, halfOpen)
      while (halfOpen.length > halfOpenAtMost) halfOpen.shift()?.destroy()
      count(ending.what)
      const status = Number(/^HTTP\/1\.1 ([2-5]\d\d)/m.exec(ending.answer)?.[1] ?? 0)
      const isExplained = status === 503 && /retry-after: \d+/i.test(ending.answer)
      if (status >= 500 && !isExplained)
        faults.push(`${ending.answer.slice(0, 600)}\nto ${request.toString('latin1', 0, 1500)}`)
    }
  }

  await target.measure(
    `aborted requests, seed ${seed}`,
    async () => {
      const until = performance.now() + seconds * 1000
      const workers = Array.from({ length: connectionsAtOnce }, (_, i) => worker(chanceOf(seed * 1000 + i), until))
      await Promise.all(workers)
      for (const socket of halfOpen) socket.destroy()
    },
    { grownMbAtMost: 512 },
  )
  assert.deepEqual(faults, [], `seed ${seed}`)
  assert.equal((await target.call('GET', '/app?limit=1')).status, 200)
  assert.doesNotMatch(target.program.logged, /a bug|"stack"|unhandled/i, `seed ${seed}`)
  return { requests: sent, ...Object.fromEntries(Object.entries(tally).toSorted()) }
}

interface World {
  /** Names of things that exist, by the names of the parameters of paths. */
  readonly names: Readonly<Record<string, readonly string[]>>
  /** Values of the header `authorization`; undefined for none. */
  readonly keys: readonly (string | undefined)[]
}

async function makeWorld(target: Target, n: number): Promise<World> {
  const make = async (path: string, body: unknown) => {
    const { status, text } = await target.call('POST', path, { body })
    return status < 300 ? JSON.parse(text) : {}
  }
  const [mine, theirs] = [`mine-${n}`, `theirs-${n}`]
  const app = (await make('/app', { name: mine, uid: mine })).id ?? mine
  await make('/app', { name: theirs, uid: theirs })
  const endpoint = await make(`/app/${mine}/endpoint`, { url: 'http://127.0.0.1:9/', uid: 'ep', filter: 'true' })
  const message = await make(`/app/${mine}/msg`, { eventType: 'video.trending', payload: { n } })
  const schedule = await make(`/app/${mine}/schedule`, { cron: '0 7 * * *', eventType: 'video.trending', payload: {} })
  const operational = await make('/operational-webhook/endpoint', { url: 'http://127.0.0.1:9/' })
  const task = await make(`/app/${mine}/dead/replay`, {})
  const key = await make('/api-key', { name: 'bound', scopes: ['admin'], app: mine })
  const reader = await make('/api-key', { name: 'reader', scopes: ['read'] })
  const portal = await make(`/auth/app-portal-access/${mine}`, {})
  const present = (...names: unknown[]) => names.filter((name) => typeof name === 'string') as string[]
  return {
    names: {
      app_id: present(app, mine, mine, mine, theirs),
      endpoint_id: present(endpoint.id, 'ep', operational.id),
      msg_id: present(message.id),
      schedule_id: present(schedule.id),
      task_id: present(task.id),
      key_id: present(key.id),
      event_type_name: ['video.trending', 'made.up'],
    },
    keys: [
      ...Array.from({ length: 6 }, () => `Bearer ${apiKey}`),
      ...present(key.token, key.token, portal.token, portal.token, reader.token).map((token) => `Bearer ${token}`),
      ...['Bearer 1', 'Bearer ', 'Basic YTpi', `Bearer sk_${'x'.repeat(36)}`, undefined],
    ],
  }
}

const junkNames = [
  'x',
  '%00',
  '%zz',
  '%ff',
  '..',
  '%2e%2e',
  'a'.repeat(300),
  '%F0%9F%92%A9',
  "'",
  '-1',
  'app_0',
  '%2F',
  '',
]
const junkQueries = [
  'limit=250',
  'limit=-1',
  'limit=1e9',
  'iterator=zzz',
  'with_content=false',
  'before=x',
  '&&=&',
  'a=%zz',
]

/** The bytes of one request. Most are nearly right, so that they get far. */
function requestOf(chance: Chance, operation: Operation, { names, keys }: World): Buffer {
  const path = operation.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const known = names[name]
    return known === undefined || known.length === 0 || chance.once(8) ? chance.of(junkNames) : chance.of(known)
  })
  const query = [...operation.query, ...(chance.once(3) ? [chance.of(junkQueries)] : [])].join('&')
  const key = chance.of(keys)
  const body = operation.takesBody || chance.once(20) ? bodyOf(chance, operation) : undefined
  const type = chance.once(20) ? chance.of(['text/plain', 'application/json; charset=latin1', '///']) : operation.type
  const isChunked = body !== undefined && chance.once(5)
  const wrongBy = chance.once(20) ? chance.below(50) - 25 : 0
  const head = [
    `${operation.method} ${chance.once(30) ? '//' : '/'}${path.slice(1)}${query === '' ? '' : `?${query}`} HTTP/1.1`,
    'host: sluice',
    ...(key === undefined ? [] : [`authorization: ${key}`]),
    ...(chance.once(6) ? [`idempotency-key: k${chance.below(20)}`] : []),
    ...(chance.once(50) ? [`expect: ${chance.of(['100-continue', 'gold'])}`] : []),
    ...(chance.once(50) ? ['connection: upgrade', 'upgrade: websocket'] : []),
    ...(body === undefined ? [] : [`content-type: ${type}`]),
    ...(isChunked ? ['transfer-encoding: chunked'] : []),
    ...(body === undefined || isChunked ? [] : [`content-length: ${Math.max(0, body.length + wrongBy)}`]),
  ].join('\r\n')
  const sent = body === undefined ? Buffer.alloc(0) : isChunked ? chunked(chance, body) : body
  return Buffer.concat([Buffer.from(`${head}\r\n\r\n`, 'latin1'), sent])
}

const deep = Buffer.from('['.repeat(100_000))
const large = Buffer.alloc(1_500_000, 'x')

function bodyOf(chance: Chance, { bodies, spoiled }: Operation): Buffer {
  if (chance.once(100))
    return chance.of([deep, large, Buffer.from(`{"payload":"${'y'.repeat(900_000)}","eventType":"a"}`)])
  if (chance.once(10))
    return Buffer.from(chance.of(['', '{', 'null', '[]', '"x"', '{"a":1,"a":2}', '\ufeff{}', '{"__proto__":1}']))
  const text = chance.of(chance.once(3) ? spoiled : bodies)
  if (!chance.once(10)) return Buffer.from(text)
  const at = chance.below(text.length + 1)
  return Buffer.from(text.slice(0, at) + chance.of(['"', '}', '\u0000', '\\', ',']) + text.slice(at + 1))
}

function chunked(chance: Chance, body: Buffer): Buffer {
  const at = chance.below(body.length + 1)
  const parts = [body.subarray(0, at), body.subarray(at)].filter((part) => part.length > 0)
  const chunks = parts.flatMap((part) => [Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')])
  return Buffer.concat([...chunks, Buffer.from(chance.once(10) ? 'zz\r\n' : '0\r\n\r\n')])
}

/** Sends a request and hangs up at some moment, or reads the answer. Never rejects. */
async function play(
  port: number,
  chance: Chance,
  request: Buffer,
  halfOpen: Socket[],
): Promise<{ readonly what: string; readonly answer: string }> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  let answer = ''
  socket.on('error', () => {})
  socket.on('data', (bytes) => {
    if (answer.length < 4096) answer += bytes.toString('latin1')
  })
  const headEnd = request.indexOf('\r\n\r\n') + 4
  const moment = chance.of([
    'before the headers end',
    'in the body',
    'after the body',
    'in the answer',
    ...finish,
  ] as const)
  const cut =
    moment === 'before the headers end'
      ? chance.below(headEnd)
      : moment === 'in the body'
        ? headEnd + chance.below(request.length - headEnd + 1)
        : request.length
  await once(socket, 'connect').catch(() => {})
  await new Promise((resolve) => socket.write(request.subarray(0, cut), resolve))
  if (moment === 'the answer') {
    await ended(socket, () => /^HTTP\/1\.1 [2-5]/m.test(answer) && answer.includes('\r\n\r\n'))
    socket.destroy()
    return { what: /^HTTP\/1\.1 ([2-5]\d\d)/m.exec(answer)?.[1] ?? 'no answer', answer }
  }
  if (moment === 'in the answer') await ended(socket, () => answer.length > 0)
  else if (chance.once(2)) await new Promise((resolve) => setTimeout(resolve, chance.below(6)))
  const manner = chance.of(['reset', 'reset', 'close', 'half-open', 'stalled'] as const)
  if (manner === 'reset') socket.resetAndDestroy()
  else if (manner === 'close') socket.destroy()
  else {
    if (manner === 'half-open') socket.end()
    else socket.pause()
    halfOpen.push(socket)
  }
  return { what: `${manner} ${moment}`, answer }
}

const finish = ['the answer', 'the answer'] as const

/** Resolves when there is enough of the answer, the server closed, or 5 s have gone by without either. */
function ended(socket: Socket, isEnough: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    const limit = setTimeout(resolve, 5000)
    const done = () => {
      clearTimeout(limit)
      resolve()
    }
    const look = () => isEnough() && done()
    socket.on('data', look)
    for (const event of ['end', 'close', 'error']) socket.on(event, done)
    if (socket.destroyed || isEnough()) done()
  })
}
