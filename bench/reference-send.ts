import { createHmac } from 'node:crypto'
import { type Dispatcher, Pool } from 'undici'
import { answer } from './child.ts'
import { payload } from './event.ts'
import { machineNow } from './machine-clock.ts'

/**
 * The reference for delivering: undici's low-level dispatch in a loop, with everything that can be
 * prepared prepared, storing nothing, deciding nothing, allocating one handler per connection and none per request.
 */

export type SendCommands = typeof commands

const commands = {
  /** Sends to every URL over that many connections each, for that long. */
  async run(input: {
    urls: readonly string[]
    connectionsEach: number
    seconds: number
  }): Promise<{ answered: number }> {
    const deadline = machineNow() + input.seconds * 1000
    const body = Buffer.from(payload)
    const pools: Pool[] = []
    const loops = input.urls.flatMap((url) => {
      const { origin, pathname } = new URL(url)
      const pool = new Pool(origin, { connections: input.connectionsEach, pipelining: 1, allowH2: false })
      pools.push(pool)
      return Array.from({ length: input.connectionsEach }, () => loop(pool, pathname, body, deadline))
    })
    const counts = await Promise.all(loops)
    await Promise.all(pools.map((pool) => pool.close()))
    return { answered: counts.reduce((sum, count) => sum + count, 0) }
  },
}

function loop(pool: Pool, path: string, body: Buffer, deadline: number): Promise<number> {
  const options: Dispatcher.DispatchOptions = { path, method: 'POST', headers: headers(body), body }
  return new Promise((resolve, reject) => {
    let answered = 0
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart() {},
      onResponseStart() {},
      onResponseData() {},
      onResponseEnd() {
        answered++
        if (machineNow() < deadline) pool.dispatch(options, handler)
        else resolve(answered)
      },
      onResponseError(_controller, error) {
        reject(error)
      },
    }
    pool.dispatch(options, handler)
  })
}

function headers(body: Buffer): string[] {
  const id = 'msg_0123456789abcdefghijklmnopq'
  const timestamp = String(Math.floor(Date.now() / 1000))
  const mac = createHmac('sha256', 'a secret').update(`${id}.${timestamp}.`).update(body).digest('base64')
  return [
    ...['webhook-id', id],
    ...['webhook-timestamp', timestamp],
    ...['webhook-signature', `v1,${mac}`],
    ...['content-type', 'application/json'],
    ...['user-agent', 'Reference/1'],
    ...['accept-encoding', 'identity'],
  ]
}

answer(commands)
