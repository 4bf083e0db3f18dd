import pg from 'pg'
import type { Clock, SteadyMs } from '../../domain/clock.ts'
import { type PostgresAddress, type PostgresHost, readPostgresUrl } from '../../wire/postgres-address.ts'
import { clientConfig } from './client.ts'
import { StandbyError, spoilsConnection, stateOf, UnfitServerError } from './trouble.ts'

export interface ServersOptions {
  /** One server or several, as `readPostgresUrl` has it. */
  readonly url: string
  readonly clock: Clock
  /** Reads the password, in place of that of the URL. It is read again when a server refuses it. */
  readonly readPassword?: (() => Promise<string>) | undefined
}

/** One of the servers, with what was learned about it. */
interface Server {
  readonly host: PostgresHost
  readonly name: string
  isEncrypted: boolean | undefined
}

/** The answer of one server to a look. */
interface Look {
  readonly server: Server
  readonly standing?: Standing
  readonly error?: unknown
}

type Primary = Look & { readonly standing: Standing }

/** A server that does not answer a look in time may be gone; the next look asks it again. */
const lookMs = 1000
/** Callers that come sooner after a look that found no server get its answer. */
const lookAgainMs = 100

/** The servers of one store, of which one takes writes: the primary. Every client is made here, and leads to it. */
export class Servers {
  readonly #address: PostgresAddress
  readonly #clock: Clock
  readonly #readPassword: ServersOptions['readPassword']
  readonly #servers: readonly Server[]
  /** The clients that are open, each with its server. */
  readonly #open = new Map<pg.Client, Server>()
  #primary: Server | undefined
  /** The primary, or the one that it was before. */
  #latest: Server
  /** Of the primary. */
  #timeline = ''
  #looking: Promise<Primary> | undefined
  #vain: { readonly at: SteadyMs; readonly error: unknown } | undefined
  #password: string | undefined

  constructor({ url, clock, readPassword }: ServersOptions) {
    this.#address = readPostgresUrl(url)
    this.#clock = clock
    this.#readPassword = readPassword
    const { hosts, sslMode } = this.#address
    const isEncrypted = sslMode === undefined ? undefined : sslMode !== 'disable' && sslMode !== 'allow'
    this.#servers = hosts.map((host) => ({ host, name: nameOf(host), isEncrypted }))
    this.#latest = this.#servers[0] as Server
    if (!this.areSeveral) this.#primary = this.#latest
  }

  get areSeveral(): boolean {
    return this.#servers.length > 1
  }

  /** A client of the server that takes writes, as far as this process knows. Call it within `connect`. */
  newClient(settings: pg.ClientConfig = {}): pg.Client {
    const server = this.#primary ?? this.#latest
    const client = this.#clientOf(server, settings)
    this.#open.set(client, server)
    client.once('end', () => this.#open.delete(client))
    return client
  }

  /**
   * Connects, after finding out where to if that is not known. A server that refuses the password, or the encryption, or
   * that takes no writes any more, is a reason to find out once more and to try again.
   */
  async connect<T>(attempt: () => Promise<T>): Promise<T> {
    const tried = new Set<string>()
    for (;;) {
      await this.#find()
      const server = this.#latest
      try {
        return await attempt()
      } catch (error) {
        const remedy = await this.#remedyOf(error, server)
        if (remedy === undefined || tried.has(remedy)) throw error
        tried.add(remedy)
      }
    }
  }

  /** A connection was lost: of several servers, another one may take writes now. */
  doubt(): void {
    if (this.areSeveral) this.#primary = undefined
  }

  /**
   * Asks the other servers whether one of them has become the primary, while the one in use does not answer. If one has, the
   * connections to all others are cut.
   */
  async lookElsewhere(): Promise<void> {
    const found = primaryOf(await this.#lookAtAll())
    if (found !== undefined) this.#moveTo(found)
  }

  async #find(): Promise<void> {
    if (this.#primary !== undefined) {
      await this.#ensurePassword()
      return
    }
    const { at, error } = this.#vain ?? { at: Number.NEGATIVE_INFINITY }
    if (this.#clock.steady() - at < lookAgainMs) throw error
    this.#looking ??= this.#lookAround().finally(() => {
      this.#looking = undefined
    })
    this.#moveTo(await this.#looking)
  }

  #moveTo({ server, standing }: Primary): void {
    this.#primary = server
    this.#latest = server
    this.#timeline = standing.timeline ?? ''
    for (const [client, at] of this.#open) if (at !== server) client.connection.stream.destroy()
  }

  async #lookAround(): Promise<Primary> {
    await this.#ensurePassword()
    const looks = await this.#lookAtAll()
    const found = primaryOf(looks)
    if (found === undefined) {
      const error = new StandbyError(`None of the Postgres servers takes writes: ${looks.map(describe).join('; ')}`)
      this.#vain = { at: this.#clock.steady(), error }
      throw error
    }
    return found
  }

  /** The answers of all servers; only of some, if one was promoted since the last look that found the primary. */
  #lookAtAll(): Promise<readonly Look[]> {
    const { promise, resolve } = Promise.withResolvers<readonly Look[]>()
    const looks: Look[] = []
    const isNew = (look: Look) => this.#timeline !== '' && (look.standing?.timeline ?? '') > this.#timeline
    for (const server of this.#servers) {
      void this.#lookAt(server).then((look) => {
        looks.push(look)
        if (looks.length === this.#servers.length || isNew(look)) resolve(looks)
      })
    }
    return promise
  }

  /** Never rejects. */
  async #lookAt(server: Server): Promise<Look> {
    const tried = new Set<string>()
    for (;;) {
      const client = this.#clientOf(server, { connectionTimeoutMillis: lookMs, query_timeout: lookMs })
      client.on('error', () => {})
      try {
        await client.connect()
        return { server, standing: await standingOf(client) }
      } catch (error) {
        const remedy = await this.#remedyOfLogin(error, server).catch(() => undefined)
        if (remedy === undefined || tried.has(remedy)) return { server, error }
        tried.add(remedy)
      } finally {
        client.end().catch(() => {})
      }
    }
  }

  #clientOf({ host, isEncrypted }: Server, settings: pg.ClientConfig): pg.Client {
    const password = this.#password ?? this.#address.password
    return new pg.Client({ ...clientConfig({ address: this.#address, host, isEncrypted, password }), ...settings })
  }

  async #remedyOf(error: unknown, server: Server): Promise<string | undefined> {
    const remedy = await this.#remedyOfLogin(error, server)
    if (remedy !== undefined || !this.areSeveral || !isAnswerOfAnother(error)) return remedy
    if (this.#primary === server) this.#primary = undefined
    return 'server'
  }

  /** The change that makes the next try to log in another one, if there is any. */
  async #remedyOfLogin(error: unknown, server: Server): Promise<string | undefined> {
    const { sslMode } = this.#address
    const isRefused = stateOf(error)?.startsWith('28') ?? false
    if (sslMode === 'allow' && isRefused && !server.isEncrypted) {
      server.isEncrypted = true
      return 'encryption'
    }
    if (sslMode === 'prefer' && server.isEncrypted && (isRefused || hasNoEncryption(error))) {
      server.isEncrypted = false
      return 'encryption'
    }
    return isRefused && (await this.#renewPassword()) ? 'password' : undefined
  }

  async #ensurePassword(): Promise<void> {
    if (this.#readPassword !== undefined && this.#password === undefined) await this.#renewPassword()
  }

  /** Whether the password is another one than before. */
  async #renewPassword(): Promise<boolean> {
    if (this.#readPassword === undefined) return false
    const before = this.#password
    this.#password = await this.#readPassword()
    return this.#password !== before
  }
}

/** The part that a server plays. */
export interface Standing {
  /** Whether it follows another server, and takes no writes. */
  readonly isStandby: boolean
  /** Whether its transactions are read-only unless they ask otherwise. */
  readonly isReadOnly: boolean
  /** It grows with each promotion; null on a standby. */
  readonly timeline: string | null
}

export const standingColumns = `
  pg_is_in_recovery() as "isStandby", current_setting('transaction_read_only') = 'on' as "isReadOnly",
  case when not pg_is_in_recovery() then substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) end as timeline`

async function standingOf(client: pg.Client): Promise<Standing> {
  const { rows } = await client.query<Standing>(`select ${standingColumns}`)
  return rows[0] as Standing
}

/** The server that takes writes; of two, the one that was promoted last. */
function primaryOf(looks: readonly Look[]): Primary | undefined {
  const rank = ({ standing }: Primary) => `${standing.isReadOnly ? 0 : 1}${standing.timeline}`
  const primaries = looks.filter((look): look is Primary => look.standing?.isStandby === false)
  return primaries.toSorted((a, b) => (rank(a) < rank(b) ? 1 : -1))[0]
}

function describe({ server: { name }, standing, error }: Look): string {
  return `${name} ${standing === undefined ? `does not answer (${(error as Error).message})` : 'is a standby'}`
}

function nameOf({ host, port }: PostgresHost): string {
  const name = host ?? 'the default host'
  return port === undefined ? name : name.includes(':') ? `[${name}]:${port}` : `${name}:${port}`
}

/** Whether a connection failed such that another server may take writes: it was lost or refused, or leads to a standby. */
function isAnswerOfAnother(error: unknown): boolean {
  if (error instanceof UnfitServerError) return error instanceof StandbyError
  // All connections of the process are in use.
  return spoilsConnection(error) && !/timeout exceeded when trying/.test((error as Error).message)
}

function hasNoEncryption(error: unknown): boolean {
  return /does not support SSL/i.test((error as Error).message)
}
