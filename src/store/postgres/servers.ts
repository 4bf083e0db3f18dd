import pg from 'pg'
import type { Clock, SteadyMs } from '../../domain/clock.ts'
import { type PostgresAddress, type PostgresHost, readPostgresUrl } from '../../wire/postgres-address.ts'
import { clientConfig } from './client.ts'
import { cut, type Standing, Succession, standingOf } from './succession.ts'
import {
  ElsewhereError,
  NoPrimaryError,
  PasswordError,
  spoilsConnection,
  stateOf,
  UnfitServerError,
} from './trouble.ts'

export interface ServersOptions {
  /** One server or several, as `readPostgresUrl` has it. */
  readonly url: string
  readonly clock: Clock
  /** The primaries that the process has used, where other URLs of it lead to the same ones. */
  readonly succession?: Succession
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
/** A wrong password is not read more often: it may be the output of a command. */
const passwordAgainMs = 1000

/** The servers of one store, of which one takes writes: the primary. Every client is made here, and leads to it. */
export class Servers {
  readonly #address: PostgresAddress
  readonly #clock: Clock
  readonly #succession: Succession
  readonly #readPassword: ServersOptions['readPassword']
  readonly #servers: readonly Server[]
  /** The clients that are open, each with its server. */
  readonly #open = new Map<pg.Client, Server>()
  #primary: Server | undefined
  /** The primary, or the one that it was before. */
  #latest: Server
  #looking: Promise<Primary> | undefined
  #vain: { readonly at: SteadyMs; readonly error: unknown } | undefined
  #password: string | undefined
  #readingPassword: Promise<string> | undefined
  #passwordReadAt: SteadyMs = Number.NEGATIVE_INFINITY

  constructor({ url, clock, succession = new Succession(), readPassword }: ServersOptions) {
    this.#address = readPostgresUrl(url)
    this.#clock = clock
    this.#succession = succession
    this.#readPassword = readPassword
    const { hosts, sslMode } = this.#address
    const isEncrypted = sslMode === undefined ? undefined : sslMode !== 'disable' && sslMode !== 'allow'
    this.#servers = hosts.map((host) => ({ host, name: nameOf(host), isEncrypted }))
    this.#latest = this.#servers[0] as Server
    if (!this.areSeveral) this.#primary = this.#latest
  }

  get count(): number {
    return this.#servers.length
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
      const password = this.#password
      try {
        return await attempt()
      } catch (error) {
        const remedy = await this.#remedyOf(error, server, password)
        if (remedy === undefined || tried.has(remedy)) throw error
        tried.add(remedy)
      }
    }
  }

  /** A connection was lost: of several servers, another one may take writes now. */
  doubt(): void {
    if (this.areSeveral) this.#primary = undefined
  }

  /** Takes a new connection in. Throws unless it leads to the primary. */
  admit(client: pg.ClientBase, standing: Standing): void {
    this.#succession.admit(client, standing)
  }

  /**
   * Asks the other servers whether one of them has become the primary. If one has, the connections to all others are cut. The
   * one in use may still take writes while others no longer follow it: then only a later primary takes its place.
   */
  async lookElsewhere(answers: boolean): Promise<void> {
    const found = this.#primaryOf(await this.#lookAt(this.#servers.filter((server) => server !== this.#primary)))
    if (found !== undefined && (!answers || this.#succession.isLater(found.standing))) this.#moveTo(found)
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
    this.#succession.follow(standing)
    for (const [client, at] of this.#open) if (at !== server) cut(client)
  }

  async #lookAround(): Promise<Primary> {
    await this.#ensurePassword()
    const looks = await this.#lookAt(this.#servers)
    const found = this.#primaryOf(looks)
    if (found === undefined) {
      const error = new NoPrimaryError(looks.map(describeServer).join('; '))
      this.#vain = { at: this.#clock.steady(), error }
      throw error
    }
    return found
  }

  /** The answers of these servers; only of some, if one was promoted after the primary that was used last. */
  #lookAt(servers: readonly Server[]): Promise<readonly Look[]> {
    const { promise, resolve } = Promise.withResolvers<readonly Look[]>()
    const looks: Look[] = []
    for (const server of servers) {
      void this.#lookAtOne(server).then((look) => {
        looks.push(look)
        const isLater = look.standing !== undefined && this.#succession.isLater(look.standing)
        if (looks.length === servers.length || isLater) resolve(looks)
      })
    }
    return promise
  }

  /** The server that takes writes; of two, the one that was promoted last, or the one in use. Never a former primary. */
  #primaryOf(looks: readonly Look[]): Primary | undefined {
    const rank = ({ server, standing }: Primary) =>
      `${standing.isReadOnly ? 0 : 1}${standing.timeline}${server === this.#latest ? 1 : 0}`
    const primaries = looks.filter(
      (look): look is Primary => look.standing?.isStandby === false && !this.#succession.isFormer(look.standing),
    )
    return primaries.toSorted((a, b) => (rank(a) < rank(b) ? 1 : -1))[0]
  }

  /** Never rejects. */
  async #lookAtOne(server: Server): Promise<Look> {
    const tried = new Set<string>()
    for (;;) {
      const password = this.#password
      const client = this.#clientOf(server, { connectionTimeoutMillis: lookMs, query_timeout: lookMs })
      client.on('error', () => {})
      try {
        await client.connect()
        return { server, standing: await standingOf(client) }
      } catch (error) {
        const remedy = await this.#remedyOfLogin(error, server, password).catch(() => undefined)
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

  async #remedyOf(error: unknown, server: Server, password: string | undefined): Promise<string | undefined> {
    const remedy = await this.#remedyOfLogin(error, server, password)
    if (remedy !== undefined || !this.areSeveral || !isAnswerOfAnother(error)) return remedy
    if (this.#primary === server) this.#primary = undefined
    return 'server'
  }

  /** The change that makes the next try to log in another one, if there is any. */
  async #remedyOfLogin(error: unknown, server: Server, password: string | undefined): Promise<string | undefined> {
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
    if (isRefused && this.#password === password) await this.#renewPassword()
    return isRefused && this.#password !== password ? 'password' : undefined
  }

  async #ensurePassword(): Promise<void> {
    if (this.#readPassword !== undefined && this.#password === undefined) await this.#renewPassword()
  }

  /** Reads the password again. Many logins that are refused together are one reason to do so. */
  async #renewPassword(): Promise<void> {
    const read = this.#readPassword
    if (read === undefined || this.#clock.steady() - this.#passwordReadAt < passwordAgainMs) return
    this.#readingPassword ??= read().finally(() => {
      this.#readingPassword = undefined
      this.#passwordReadAt = this.#clock.steady()
    })
    try {
      this.#password = await this.#readingPassword
    } catch (error) {
      throw new PasswordError(error)
    }
  }
}

function describeServer({ server: { name }, standing, error }: Look): string {
  if (standing === undefined) return `${name} does not answer (${(error as Error).message})`
  return `${name} ${standing.isStandby ? 'is a standby' : 'is a former primary'}`
}

function nameOf({ host, port }: PostgresHost): string {
  const name = host ?? 'the default host'
  return port === undefined ? name : name.includes(':') ? `[${name}]:${port}` : `${name}:${port}`
}

/** Whether a connection failed such that another server may take writes: it was lost or refused, or leads to no primary. */
function isAnswerOfAnother(error: unknown): boolean {
  if (error instanceof UnfitServerError) return error instanceof ElsewhereError
  // All connections of the process are in use.
  return spoilsConnection(error) && !/timeout exceeded when trying/.test((error as Error).message)
}

function hasNoEncryption(error: unknown): boolean {
  return /does not support SSL/i.test((error as Error).message)
}
