import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { after } from 'node:test'
import { createClient } from '@redis/client'
import { freePort } from '../e2e/free-port.ts'

/** Whether Redis is installed. The tests of its store are skipped without it. */
export const hasRedis = spawnSync('redis-server', ['--version']).status === 0

let started: Promise<{ readonly url: string; readonly server: ChildProcess }> | undefined

after(async () => {
  const server = (await started)?.server
  if (server === undefined) return
  const exited = once(server, 'exit')
  server.kill('SIGKILL')
  await exited
})

/** The URL of a server of this test process, which keeps nothing on disk. */
export async function redisUrl(): Promise<string> {
  started ??= start()
  return (await started).url
}

export async function redisClient(url: string) {
  const client = createClient({ url })
  client.on('error', () => {})
  await client.connect()
  return client
}

async function start() {
  const port = await freePort()
  const server = spawn(
    'redis-server',
    ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  let said = ''
  for await (const text of server.stdout.setEncoding('utf8')) {
    said += text
    if (said.includes('Ready to accept connections')) break
  }
  return { url: `redis://127.0.0.1:${port}`, server }
}
