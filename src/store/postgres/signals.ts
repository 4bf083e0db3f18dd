import type pg from 'pg'
import type { Clock, SteadyMs } from '../../domain/clock.ts'
import { type Class, fresh } from '../../domain/delivery.ts'
import { serverStart } from '../sql/dialect.ts'
import type { DueLane, Renewal, RowName, StoreContext, StoredMessage, Watcher } from '../store.ts'
import type { Presence } from './presence.ts'
import { readNames, writeNames } from './row-names.ts'
import type { Servers } from './servers.ts'
import { isDirect, postgresStatement, type Run } from './sessions.ts'
import { standingOf } from './succession.ts'
import { OtherServerError } from './trouble.ts'

/** The channel all processes on one database share. */
export const channel = 'sluice'

const notification = postgresStatement('notify')`select pg_notify('${channel}', $1)`

// A notification takes 8,000 bytes; when the keys do not fit, it names none and every process looks.
const longestPayload = 7900

/**
 * The payload between processes: a letter for the event, the tag of the sending process, the endpoints
 * concerned in base 36, and the names of rows (row-names.ts). The rows that were added to an endpoint's queue are all named or
 * none is.
 *   r  rows were added         f  fresh rows were added
 *   R  … and a lane woke       F  … and a lane woke
 *   w  a lane woke             s  settings changed
 *   x  messages were expunged, which are then named in place of endpoints
 *   a  a request asks for snapshots of these lanes
 *   t  there is a task to take
 *   m  other workers share the lanes from now on
 *   i  there are rows in the inbox; the trigger of its table says so without a tag
 */
type SignalKind = 'r' | 'R' | 'f' | 'F' | 'w' | 's' | 'x' | 'a' | 't' | 'm' | 'i'

/** Signals events of this process, and of others as notifications bring them, to this process's watcher. */
export class Signals {
  readonly #tag: string
  readonly #clock: Clock
  #watcher: Watcher | undefined
  #settingsSeen = 0

  /** `tag` tells this process's own notifications from the others'. */
  constructor(tag: string, clock: Clock) {
    this.#tag = tag
    this.#clock = clock
  }

  set watcher(watcher: Watcher | undefined) {
    this.#watcher = watcher
  }

  /** The payload behind the letter in a notification of this process. Names that do not fit are left out. */
  payload(endpoints: readonly number[], names: readonly RowName[] = []): string {
    let text = this.#tag
    for (const endpoint of endpoints) {
      text += `${text.length === this.#tag.length ? ' ' : ','}${endpoint.toString(36)}`
      if (text.length > longestPayload) return this.#tag
    }
    if (names.length === 0) return text
    const withNames = `${text} ${writeNames(endpoints, names)}`
    return withNames.length > longestPayload ? text : withNames
  }

  /**
   * Signals other processes once the transaction of `run` is committed. For rare changes, of which no process may miss
   * one.
   */
  async notify(run: Run, kind: SignalKind, keys: readonly number[]): Promise<void> {
    await run(notification, [`${kind}${this.payload(keys)}`])
  }

  /** Passes on a notification, unless it is this process's own. */
  receive(notification: string): void {
    const [tag, list, named] = notification.slice(1).split(' ')
    if (tag === this.#tag) return
    const endpoints = list?.split(',').map((key) => Number.parseInt(key, 36))
    const kind = notification[0]
    if (kind === 'f' || kind === 'F') this.#added(endpoints, named, fresh)
    if (kind === 'r' || kind === 'R') this.#added(endpoints, named)
    if (kind === 'w' || kind === 'R' || kind === 'F') this.lanes()
    if (kind === 's') this.settings(endpoints)
    if (kind === 'x') this.expunged(endpoints)
    if (kind === 't') this.tasks()
    if (kind === 'm') this.workers()
    if (kind === 'i') this.inbox()
    if (kind === 'a' && endpoints !== undefined) this.asked(endpoints)
  }

  /** Passes on named rows by their names, and the endpoints of which none is named. */
  #added(endpoints: readonly number[] | undefined, named: string | undefined, itsClass?: Class): void {
    if (endpoints === undefined || named === undefined) return this.rows(endpoints, itsClass)
    const names = readNames(endpoints, named)
    const haveNames = new Set(names.map(({ endpoint }) => endpoint))
    const others = endpoints.filter((endpoint) => !haveNames.has(endpoint))
    if (others.length > 0) this.rows(others, itsClass)
    if (this.#watcher?.named) this.#watcher.named(names)
    else this.rows([...haveNames], fresh)
  }

  rows(endpoints?: readonly number[], itsClass?: Class): void {
    this.#watcher?.rows(endpoints, itsClass)
  }

  /** Rows of messages that this process has just stored; the watcher reads the queues of those that it does not take. */
  stored(messages: readonly StoredMessage[], begunAt: SteadyMs): void {
    const unread = this.#watcher?.stored?.(messages, begunAt)
    if (unread === undefined)
      this.rows([...new Set(messages.flatMap(({ publication }) => publication.endpoints))], fresh)
    else if (unread.length > 0) this.rows(unread, fresh)
  }

  lanes(woken?: readonly DueLane[]): void {
    this.#watcher?.lanes(woken)
  }

  settings(endpoints?: readonly number[]): void {
    this.#settingsSeen++
    this.#watcher?.settings(endpoints)
  }

  /** Only to this process: the others look every second, and one process is enough. */
  fanOuts(): void {
    this.#watcher?.fanOuts?.()
  }

  expunged(messages?: readonly number[]): void {
    this.#watcher?.expunged?.(messages)
  }

  tasks(): void {
    this.#watcher?.tasks?.()
  }

  workers(): void {
    this.#watcher?.workers?.()
  }

  inbox(): void {
    this.#watcher?.inbox?.()
  }

  /** Others may end the workers of this process soon, because the server sees their session ended. */
  sessionLost(): void {
    this.#watcher?.sessionLost?.()
  }

  sessionHeld(): void {
    this.#watcher?.sessionHeld?.()
  }

  workersDied(died: NonNullable<Renewal['died']>): void {
    if (died.length > 0) this.#watcher?.workersDied?.(died)
  }

  asked(endpoints: readonly number[]): void {
    this.#watcher?.asked?.(endpoints)
  }

  /** Anything may have happened while the listener was not connected. */
  everything(): void {
    this.expunged()
    this.rows()
    this.lanes()
    this.settings()
    this.inbox()
  }

  /**
   * Runs a read of endpoints that a change may overtake: the signal of a change that commits behind the read can arrive
   * before the read's answer, and the reader would have ignored the signal. The signal is then repeated.
   */
  async repeatingSettings<T>(read: () => Promise<T>, endpointsOf: (result: T) => readonly number[]): Promise<T> {
    const seen = this.#settingsSeen
    const result = await read()
    if (seen !== this.#settingsSeen) {
      const endpoints = endpointsOf(result)
      if (endpoints.length > 0) this.#clock.soon(() => this.settings(endpoints))
    }
    return result
  }
}

const whereItLeads = {
  name: '',
  text: `select concat_ws(' ', ${serverStart}, (select oid from pg_database where datname = current_database())) as database`,
}

const firstRetryMs = 100
/**
 * A connection that hears nothing looks the same whether all is quiet or the other end is gone, so it asks. Where another
 * server may be promoted at any moment, the answer matters sooner.
 */
const alone = { longestMs: 5_000, askEveryMs: 10_000 }
const promotable = { longestMs: 500, askEveryMs: 1_000 }
const answerWithinMs = 5_000
/** While an answer is late, the other servers are asked this often whether one of them was promoted. */
const lookEveryMs = 500
/** The same while the server in use answers: it may be a primary that no standby follows any more. */
const questionsPerLook = 5

/**
 * Keeps one connection listening for as long as it is open, and connects again whenever it is lost. It then signals
 * everything, because it missed the notifications in between.
 */
export class Listener {
  readonly #servers: Servers
  readonly #context: StoreContext
  readonly #signals: Signals
  readonly #presence: Presence
  #client: pg.Client | undefined
  #cancelTimer: (() => void) | undefined
  #retryMs = firstRetryMs
  #questions = 0
  #closed = false

  constructor(servers: Servers, context: StoreContext, signals: Signals, presence: Presence) {
    this.#servers = servers
    this.#context = context
    this.#signals = signals
    this.#presence = presence
  }

  /**
   * Connects for the first time; rejects when that fails, or when the connection leads elsewhere than `run`. Later losses it
   * repairs by itself.
   */
  async open(run: Run): Promise<void> {
    const client = await this.#connected(async (client) => {
      const [heard, used] = [(await client.query(whereItLeads.text)).rows[0], (await run<object>(whereItLeads))[0]]
      if (heard?.database !== (used as typeof heard)?.database) throw new OtherServerError()
    })
    await this.#use(client)
  }

  /** Stops listening. */
  async close(): Promise<void> {
    this.#closed = true
    this.#presence.close()
    this.#cancelTimer?.()
    const client = this.#client
    this.#client = undefined
    await client?.end().catch(() => {})
  }

  #newClient(): pg.Client {
    const client = this.#servers.newClient({ query_timeout: answerWithinMs })
    // Unheard, the event would end the process.
    client.on('error', (error) => this.#lost(client, error))
    client.on('end', () => this.#lost(client, new Error('it was ended')))
    client.on('notification', (message) => {
      if (message.channel === channel && message.payload) this.#signals.receive(message.payload)
    })
    return client
  }

  /** A client that listens, at the server itself. */
  #connected(check: (client: pg.Client) => Promise<void> = async () => {}): Promise<pg.Client> {
    return this.#servers.connect(async () => {
      const client = this.#newClient()
      try {
        await connect(client)
        this.#servers.admit(client, await standingOf(client))
        await check(client)
        await client.query(startListening)
        return client
      } catch (error) {
        client.end().catch(() => {})
        throw error
      }
    })
  }

  async #use(client: pg.Client): Promise<void> {
    this.#client = client
    this.#retryMs = firstRetryMs
    this.#askLater(client)
    await this.#presence.connected(client)
  }

  async #reconnect(): Promise<void> {
    let client: pg.Client
    try {
      client = await this.#connected()
    } catch {
      // The server is still out of reach. Its loss was logged, and its return will be.
      this.#retryLater()
      return
    }
    if (this.#closed) {
      client.end().catch(() => {})
      return
    }
    await this.#use(client)
    this.#signals.everything()
  }

  #retryLater(): void {
    if (this.#closed) return
    const waitMs = this.#retryMs * (0.5 + this.#context.random())
    const { longestMs } = this.#servers.areSeveral ? promotable : alone
    this.#retryMs = Math.min(longestMs, this.#retryMs * 2)
    this.#cancelTimer = this.#context.clock.after(waitMs, () => void this.#reconnect())
  }

  #askLater(client: pg.Client): void {
    const { askEveryMs } = this.#servers.areSeveral ? promotable : alone
    this.#cancelTimer = this.#context.clock.after(askEveryMs, async () => {
      const cancel = this.#servers.areSeveral ? this.#lookMeanwhile() : () => {}
      const askedAt = this.#context.clock.steady()
      try {
        await client.query('select 1')
      } catch (error) {
        return this.#lost(client, error as Error)
      } finally {
        cancel()
      }
      // A server that was silent may have been replaced, and does not know it.
      const wasSilent = this.#context.clock.steady() - askedAt >= lookEveryMs
      if (this.#servers.areSeveral && (++this.#questions % questionsPerLook === 0 || wasSilent))
        await this.#servers.lookElsewhere(true)
      if (this.#client === client) this.#askLater(client)
    })
  }

  /** Looks at the other servers until it is cancelled: the one in use may be out of reach while its connections look open. */
  #lookMeanwhile(): () => void {
    let isOver = false
    let cancel = () => {}
    const lookLater = () => {
      if (isOver) return
      cancel = this.#context.clock.after(lookEveryMs, () => void this.#servers.lookElsewhere(false).then(lookLater))
    }
    lookLater()
    return () => {
      isOver = true
      cancel()
    }
  }

  /** A loss is often reported more than once, and may be that of a connection never used; only the first counts. */
  #lost(client: pg.Client, error: Error): void {
    if (this.#client !== client) return
    this.#client = undefined
    this.#cancelTimer?.()
    client.end().catch(() => {})
    this.#servers.doubt()
    this.#presence.disconnected()
    this.#context.onTrouble?.(`postgres: the listening connection was lost: ${error.message}`)
    this.#retryLater()
  }
}

const startListening = `listen ${channel}`

async function connect(client: pg.Client): Promise<void> {
  await client.connect()
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid')
  if (!isDirect(client, rows[0]?.pid)) throw new OtherServerError()
}
