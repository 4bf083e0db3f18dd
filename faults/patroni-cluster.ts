import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { eventually } from '../test/e2e/eventually.ts'
import { freePort } from '../test/e2e/free-port.ts'
import { killTree } from '../test/store/postgres-process.ts'

const programs = ['patroni', 'etcd', 'haproxy']
const binaries = globSync('/usr/lib/postgresql/*/bin').at(-1)

/** The programs of the cluster that this machine lacks, in a sentence; undefined where it has all. */
export const patroniMissing: string | undefined = missing()

function missing(): string | undefined {
  const lacking = programs.filter((name) => spawnSync(name, ['--version']).error !== undefined)
  if (binaries === undefined) lacking.push('a Postgres in /usr/lib/postgresql')
  return lacking.length === 0
    ? undefined
    : `${lacking.join(', ')} is not installed (Debian: patroni, etcd-server, haproxy)`
}

/** A member of the cluster: Patroni, and the Postgres that it runs. */
export interface Member {
  readonly name: string
  readonly url: string
  readonly data: string
}

interface Running extends Member {
  /** Where its Patroni answers. */
  readonly rest: string
  readonly config: string
  patroni: ChildProcess | undefined
}

const password = 'postgres'
/** A leader that does not answer for this long loses its place; Patroni takes no shorter time. */
const ttlSeconds = 20
const startMs = 120_000

/**
 * The real thing, as Debian ships it: two Postgres servers that Patroni makes primary and synchronous standby of each other, etcd, which
 * knows the leader, and HAProxy, whose one address leads to the primary.
 */
export class PatroniCluster {
  readonly url: string
  readonly #folder: string
  readonly #ids: { readonly uid?: number; readonly gid?: number }
  readonly #members: Running[] = []
  readonly #others: ChildProcess[] = []
  readonly #end = () => this.#killAll()

  private constructor(folder: string, port: number) {
    this.#folder = folder
    this.url = urlAt(port)
    this.#ids = process.getuid?.() === 0 ? { uid: idOf('-u'), gid: idOf('-g') } : {}
    process.once('exit', this.#end)
  }

  /** Starts all programs, with their files below `folder`, and waits until a standby follows the primary. */
  static async start(folder: string): Promise<PatroniCluster> {
    const port = await freePort()
    const cluster = new PatroniCluster(folder, port)
    const etcd = await cluster.#startEtcd()
    const checks: string[] = []
    for (const name of ['one', 'two']) checks.push(await cluster.#addMember(name, etcd))
    for (const member of cluster.#members) cluster.#startPatroni(member)
    await cluster.whole()
    await cluster.#startProxy(port, checks)
    return cluster
  }

  /** The members that take writes. */
  async primaries(): Promise<Member[]> {
    const answers = await Promise.all(
      this.#members.map((each) => this.#ask(each, 'select pg_is_in_recovery() as follows')),
    )
    return this.#members.filter((_, i) => answers[i]?.[0]?.follows === false)
  }

  /** Resolves with the primary once it has a synchronous standby. */
  async whole(): Promise<Member> {
    return eventually(
      'Patroni has a primary with a synchronous standby',
      async () => {
        const [primary, another] = await this.primaries()
        if (primary === undefined || another !== undefined) return undefined
        return (await this.#hasStandbyInStep(primary)) ? primary : undefined
      },
      startMs,
    )
  }

  /** Whether Patroni would promote the standby: it notes that later than Postgres says so. */
  async #hasStandbyInStep({ name }: Member): Promise<boolean> {
    const { rest } = this.#members.find((each) => each.name === name) as Running
    const cluster = await fetch(`${rest}/cluster`).then(
      (answer) => answer.json() as Promise<{ members: { role: string }[] }>,
      () => ({ members: [] }),
    )
    return cluster.members.some(({ role }) => role === 'sync_standby')
  }

  /** Ends the Postgres of a member within a moment, and its Patroni with it, if the machine fails. */
  async kill({ name }: Member, what: 'server' | 'machine'): Promise<void> {
    const member = this.#members.find((each) => each.name === name) as Running
    if (what === 'machine') await this.#endPatroni(member)
    killServerOf(member)
  }

  /** Starts the Patroni of each member that has none. */
  startAgain(): void {
    for (const member of this.#members) if (member.patroni === undefined) this.#startPatroni(member)
  }

  async close(): Promise<void> {
    process.off('exit', this.#end)
    for (const member of this.#members) await this.#endPatroni(member)
    this.#killAll()
  }

  #killAll(): void {
    for (const member of this.#members) {
      member.patroni?.kill('SIGKILL')
      killServerOf(member)
    }
    for (const child of this.#others) child.kill('SIGKILL')
  }

  async #endPatroni(member: Running): Promise<void> {
    const { patroni } = member
    member.patroni = undefined
    if (patroni === undefined || patroni.exitCode !== null || patroni.signalCode !== null) return
    const ended = once(patroni, 'exit')
    patroni.kill('SIGKILL')
    await ended
  }

  async #startEtcd(): Promise<number> {
    const [port, peers] = [await freePort(), await freePort()]
    const [at, peersAt] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${peers}`]
    const flags = {
      'data-dir': this.#place('etcd'),
      'listen-client-urls': at,
      'advertise-client-urls': at,
      'listen-peer-urls': peersAt,
      'initial-advertise-peer-urls': peersAt,
      'initial-cluster': `default=${peersAt}`,
      // A busy disk is no reason to elect the only member again.
      'election-timeout': '5000',
      'heartbeat-interval': '500',
    }
    this.#others.push(
      this.#spawn(
        'etcd',
        Object.entries(flags).map(([name, value]) => `--${name}=${value}`),
      ),
    )
    await eventually('etcd answers', () => isOk(`${at}/health`), startMs)
    return port
  }

  /** Answers the port at which the member's Patroni says whether it is the primary. */
  async #addMember(name: string, etcd: number): Promise<string> {
    const [port, rest] = [await freePort(), await freePort()]
    const data = join(this.#place(name), 'data')
    const config = join(this.#folder, `${name}.json`)
    const user = (username: string) => ({ username, password })
    const settings = {
      scope: 'sluice',
      name,
      restapi: { listen: `127.0.0.1:${rest}`, connect_address: `127.0.0.1:${rest}` },
      etcd3: { host: `127.0.0.1:${etcd}` },
      bootstrap: {
        dcs: {
          ...{ ttl: ttlSeconds, loop_wait: 1, retry_timeout: 5, synchronous_mode: true },
          // A primary that crashes is not started again, but replaced.
          ...{ primary_start_timeout: 0, master_start_timeout: 0 },
          postgresql: {
            use_pg_rewind: true,
            parameters: { max_connections: 100, shared_buffers: '32MB', wal_log_hints: 'on', wal_keep_size: '256MB' },
          },
        },
        initdb: [{ encoding: 'UTF8' }, { locale: 'C' }, 'data-checksums'],
        pg_hba: ['host all all 127.0.0.1/32 scram-sha-256', 'host replication all 127.0.0.1/32 scram-sha-256'],
      },
      postgresql: {
        ...{ listen: `127.0.0.1:${port}`, connect_address: `127.0.0.1:${port}`, data_dir: data, bin_dir: binaries },
        pgpass: join(this.#folder, name, 'pgpass'),
        parameters: { unix_socket_directories: join(this.#folder, name), password_encryption: 'scram-sha-256' },
        authentication: { superuser: user('postgres'), replication: user('replicator'), rewind: user('postgres') },
      },
    }
    // JSON is YAML, too.
    writeFileSync(config, JSON.stringify(settings), { mode: 0o644 })
    this.#members.push({ name, url: urlAt(port), rest: `http://127.0.0.1:${rest}`, data, config, patroni: undefined })
    return `server ${name} 127.0.0.1:${port} check port ${rest}`
  }

  #startPatroni(member: Running): void {
    member.patroni = this.#spawn('patroni', [member.config])
  }

  /** HAProxy as Patroni's own pages set it up, with a shorter look. */
  async #startProxy(port: number, servers: readonly string[]): Promise<void> {
    const lines = [
      'defaults',
      '  mode tcp',
      '  timeout connect 4s',
      '  timeout client 30m',
      '  timeout server 30m',
      'listen primary',
      `  bind 127.0.0.1:${port}`,
      '  option httpchk OPTIONS /primary',
      '  http-check expect status 200',
      '  default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions',
      ...servers.map((each) => `  ${each}`),
      '',
    ]
    const file = join(this.#folder, 'haproxy.cfg')
    writeFileSync(file, lines.join('\n'), { mode: 0o644 })
    this.#others.push(this.#spawn('haproxy', ['-db', '-f', file]))
    await eventually(
      'HAProxy leads to the primary',
      async () => (await askAt(this.url, 'select 1')) !== undefined,
      startMs,
    )
  }

  #spawn(program: string, args: readonly string[]): ChildProcess {
    return spawn(program, args, { ...this.#ids, cwd: this.#folder, stdio: 'ignore' })
  }

  /** A folder of the user that runs the programs: Postgres refuses root. */
  #place(name: string): string {
    const place = join(this.#folder, name)
    mkdirSync(place, { mode: 0o700 })
    const { uid, gid } = this.#ids
    if (uid !== undefined && gid !== undefined) chownSync(place, uid, gid)
    return place
  }

  #ask({ url }: Member, sql: string): Promise<Record<string, unknown>[] | undefined> {
    return askAt(url, sql)
  }
}

function urlAt(port: number): string {
  return `postgres://postgres:${password}@127.0.0.1:${port}/postgres`
}

/** The rows, or undefined when the server does not answer. */
async function askAt(connectionString: string, sql: string): Promise<Record<string, unknown>[] | undefined> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 1000, query_timeout: 1000 })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.query(sql)).rows
  } catch {
    return undefined
  } finally {
    client.end().catch(() => {})
  }
}

function isOk(url: string): Promise<boolean> {
  return fetch(url).then(
    ({ ok }) => ok,
    () => false,
  )
}

function killServerOf({ data }: Member): void {
  const file = join(data, 'postmaster.pid')
  if (!existsSync(file)) return
  const pid = Number(readFileSync(file, 'utf8').split('\n')[0])
  if (pid > 1) killTree(pid)
}

function idOf(flag: string): number {
  return Number(execFileSync('id', [flag, 'nobody'], { encoding: 'utf8' }))
}
