import { createHmac, randomBytes, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { Session } from 'node:inspector/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { openSluice, type Sluice } from '../src/index.ts'

/** A walk lasts at most so long before its files are listed; an attempt is recorded within 15 ms. */
const walkMs = 500
const source = join(import.meta.dirname, '../src')
const adminKey = 'sk_walk_0123456789abcdef'
const encryptionKey = randomBytes(32).toString('base64')

/** A walk ends when the receiver has the event. */
const walks: Readonly<Record<string, (call: Call) => Promise<unknown>>> = {
  publish: (call) => call('/app/a/msg', { eventType: 'x.y', payload: {} }),
  resend: (call) => call('/app/a/msg/first/endpoint/e/resend'),
  schedule: (call) => call('/app/a/schedule/s/run'),
  arrival: (call) => call('/in'),
}

type Call = (path: string, body?: object) => Promise<unknown>

/** Prints the files of `src` that run for one event, from the request to the recorded attempt. */
export async function showWalk(name: string): Promise<void> {
  const walk = walks[name]
  if (walk === undefined) throw new Error(`There is no walk "${name}". Walks: ${Object.keys(walks).join(', ')}.`)
  const receiver = createServer((_request, response) => response.end()).listen(0, '127.0.0.1')
  await once(receiver, 'listening')
  const home = mkdtempSync(join(tmpdir(), 'sluice-walk-'))
  const sluice = await openSluice({
    store: `sqlite:${join(home, 's.db')}`,
    encryptionKey,
    listen: '127.0.0.1:0',
    adminKey,
    allowHttp: true,
    allowNetworks: ['127.0.0.0/8'],
  })
  try {
    const call = await prepare(sluice, (receiver.address() as AddressInfo).port)
    const arrive = async () => {
      const arrived = once(receiver, 'request')
      await walk(call)
      await arrived
      await pause(walkMs)
    }
    await arrive()
    const session = new Session()
    session.connect()
    await session.post('Profiler.enable')
    await session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
    await pause(5 * walkMs)
    const idle = await called(session)
    // The lane was given back meanwhile. The walk is that of a lane which has an owner.
    await arrive()
    await called(session)
    await arrive()
    const ran = [...(await called(session))].filter((place) => !idle.has(place))
    session.disconnect()
    print(name, [...new Set(ran.map((place) => place.split('#')[0] as string))].sort())
  } finally {
    await sluice.close()
    receiver.close().closeAllConnections()
    rmSync(home, { recursive: true })
  }
}

/** An application with an endpoint, a message, a schedule and a source. */
async function prepare(sluice: Sluice, port: number): Promise<Call> {
  await sluice.applications.create({ name: 'A', uid: 'a' })
  await sluice.endpoints.create('a', { uid: 'e', url: `http://127.0.0.1:${port}/` })
  await sluice.publish('a', { eventType: 'x.y', eventId: 'first', payload: {} })
  await sluice.schedules.create('a', { uid: 's', cron: '0 0 1 1 *', eventType: 'x.y', payload: {} })
  const { url } = await sluice.sources.create('a', { provider: 'github', secret: adminKey })
  return async (path, body = {}) => {
    const text = JSON.stringify(body)
    const signature = createHmac('sha256', adminKey).update(text).digest('hex')
    const answer = await fetch(path === '/in' ? (url as string) : `${sluice.url}/api/v1${path}`, {
      method: 'POST',
      headers:
        path === '/in'
          ? {
              'x-github-event': 'push',
              'x-github-delivery': randomUUID(),
              'x-hub-signature-256': `sha256=${signature}`,
            }
          : { authorization: `Bearer ${adminKey}`, 'content-type': 'application/json' },
      body: text,
    })
    if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
    return answer.text()
  }
}

/** The functions that ran since the last call, each as its file and place in it. */
async function called(session: Session): Promise<Set<string>> {
  const { result } = await session.post('Profiler.takePreciseCoverage')
  return new Set(
    result.flatMap(({ url, functions }) => {
      if (!url.startsWith('file:')) return []
      const path = relative(source, fileURLToPath(url))
      if (path.startsWith('..')) return []
      return functions
        .filter(({ ranges: [whole] }) => (whole?.count ?? 0) > 0)
        .map(({ ranges: [whole] }) => `${path}#${whole?.startOffset}`)
    }),
  )
}

function print(name: string, paths: readonly string[]): void {
  console.log(`${name}: ${paths.length} files run, in ${new Set(paths.map((path) => path.split('/')[0])).size} folders`)
  for (const path of paths) console.log(`  ${path}`)
}
