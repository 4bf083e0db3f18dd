import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../e2e/free-port.ts'

/** The program, by its path or its name; `TESTS_PGBOUNCER` names another one. */
const program = process.env.TESTS_PGBOUNCER ?? 'pgbouncer'

/** Its version, such as 1.18; undefined where it is not installed. */
export const pgbouncerVersion = /PgBouncer (\d+\.\d+)/.exec(
  spawnSync(program, ['--version'], { encoding: 'utf8' }).stdout ?? '',
)?.[1]

export interface PgBouncer {
  readonly url: string
  close(): Promise<void>
}

/** Starts a PgBouncer in front of the server at a URL, at this port or at a free one. It refuses to run as root. */
export async function startPgBouncer(
  url: string,
  settings: Readonly<Record<string, string>>,
  at?: number,
): Promise<PgBouncer> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-pgbouncer-'))
  chmodSync(folder, 0o711)
  const own = new URL(url)
  const { hostname, port, username, password } = own
  own.port = String(at ?? (await freePort()))
  const lines = {
    listen_addr: '127.0.0.1',
    listen_port: own.port,
    unix_socket_dir: '',
    auth_type: 'any',
    max_client_conn: '500',
    default_pool_size: '20',
    server_login_retry: '0.1',
    ...settings,
  }
  const text = Object.entries(lines).map(([name, value]) => `${name} = ${value}`)
  const servers = `* = host=${hostname} port=${port} user=${username} password=${password}`
  const file = join(folder, 'pgbouncer.ini')
  writeFileSync(file, ['[databases]', servers, '[pgbouncer]', ...text, ''].join('\n'), { mode: 0o644 })
  const isRoot = process.getuid?.() === 0
  const ids = isRoot ? { uid: idOf('-u'), gid: idOf('-g') } : {}
  const child = spawn(program, [file], { ...ids, stdio: ['ignore', 'ignore', 'pipe'] })
  const end = () => void child.kill('SIGKILL')
  process.once('exit', end)
  await isReady(child)
  return {
    url: own.href,
    async close() {
      process.off('exit', end)
      if (child.exitCode === null && child.signalCode === null) {
        const ended = once(child, 'exit')
        child.kill('SIGKILL')
        await ended
      }
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function idOf(flag: string): number {
  return Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
}

function isReady(child: ChildProcess): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let said = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-5000)
    if (/process up/.test(said)) resolve()
  })
  child.once('error', reject)
  child.once('exit', () => reject(new Error(`PgBouncer ended:\n${said}`)))
  return promise
}
