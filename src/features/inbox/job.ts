import { AppError } from '../../domain/app-error.ts'
import type { Clock, SteadyMs } from '../../domain/clock.ts'
import type { Item } from '../../intake/publication.ts'
import type { Publisher } from '../../intake/publisher.ts'
import type { Progress } from '../../leader/leader.ts'
import { type Store, StoreTrouble } from '../../store/store.ts'
import { type Regions, serves } from '../regions/rules.ts'
import type { InboxRow, Refusal } from './store.ts'

/** Names looked at in one step, and rows of each: applications take turns, so that one with a million rows delays no other. */
const appsPerStep = 32
const rowsPerApp = 200
/** Payloads of one application that are in memory at once. */
const bytesPerApp = 4 * 1024 * 1024
const appsAtOnce = 4
/** An application whose queues are full is tried again after this long, if the refusal names no time. */
const fullMs = 1000

export interface InboxDeps {
  readonly store: Pick<Store, 'inboxApps' | 'inboxRows' | 'refuseInboxRow' | 'findApplication'>
  readonly clock: Clock
  readonly publisher: () => Publisher
  /** The regions whose applications' rows it reads; all by default. */
  readonly regions?: Regions
  /** The largest payload. */
  readonly bodyLimitBytes: number
  /** The message of a row. Throws AppError for a row that cannot be one. */
  read(row: InboxRow): Item
  readonly log?: ((sentence: string) => void) | undefined
}

/**
 * Publishes the rows that other programs insert. The rows of an application become messages in the order of their insertion, each
 * in the transaction that removes its row, so that any number of processes may do this and die at any moment. A row that is
 * refused for good keeps the reason, and the next one goes on; a row for which there is no room waits, with those behind it.
 */
export class InboxReader {
  readonly #deps: InboxDeps
  #after = ''
  /** Applications for which there is no room, until they are tried again. */
  readonly #full = new Map<string, SteadyMs>()

  constructor(deps: InboxDeps) {
    this.#deps = deps
  }

  /** Publishes some rows of some applications. Rejects when the store is in trouble. */
  async step(): Promise<Progress> {
    const { store, clock } = this.#deps
    const names = await store.inboxApps(this.#after, appsPerStep)
    const isLast = names.length < appsPerStep
    // The walk has been round: the next one begins with rows that came meanwhile.
    const wasRound = this.#after !== ''
    this.#after = isLast ? '' : (names.at(-1) as string)
    for (const [name, until] of this.#full) if (until <= clock.steady()) this.#full.delete(name)
    let [published, more] = [0, !isLast || wasRound]
    const left = names.filter((name) => !this.#full.has(name))
    const takeTurns = async () => {
      for (let name = left.shift(); name !== undefined; name = left.shift()) {
        const taken = await this.#take(name)
        published += taken.published
        more ||= taken.more
      }
    }
    await Promise.all(Array.from({ length: appsAtOnce }, takeTurns))
    const inMs = Math.min(...this.#full.values()) - clock.steady()
    return { more, published, inMs: Number.isFinite(inMs) ? Math.max(1, inMs) : undefined }
  }

  /** Publishes the first rows of an application; answers how many became messages, and whether more may wait. */
  async #take(app: string): Promise<{ readonly published: number; readonly more: boolean }> {
    const { store, bodyLimitBytes } = this.#deps
    if (!(await this.#isServed(app))) return { published: 0, more: false }
    const rows = await store.inboxRows(app, rowsPerApp, bytesPerApp, bodyLimitBytes)
    const items: Item[] = []
    for (const row of rows) {
      const item = await this.#read(app, row)
      if (item !== undefined) items.push(item)
    }
    const published = await this.#publish(app, items)
    return { published, more: rows.length > 0 && !this.#full.has(app) }
  }

  /** Whether this process may read payloads of the application. An unknown application is in the default region. */
  async #isServed(app: string): Promise<boolean> {
    const { store, regions = null } = this.#deps
    if (regions === null) return true
    const found = await store.findApplication(app)
    return serves(regions, found?.settings.region ?? undefined)
  }

  /** The message of a row; undefined when it was refused. */
  async #read(app: string, row: InboxRow): Promise<Item | undefined> {
    try {
      return this.#deps.read(row)
    } catch (error) {
      await this.#refuse(app, row.id, error)
      return undefined
    }
  }

  /** Publishes messages of an application together; when they are refused together, one by one. Answers how many it published. */
  async #publish(app: string, items: readonly Item[]): Promise<number> {
    if (items.length === 0) return 0
    const publisher = this.#deps.publisher()
    try {
      await publisher.publishTogether(app, items)
      return items.length
    } catch (error) {
      const [first, ...others] = items
      if (this.#mustWait(app, error)) return 0
      if (others.length === 0) {
        await this.#refuse(app, (first as Item).envelope.inbox as number, error)
        return 0
      }
    }
    let published = 0
    for (const item of items) {
      published += await this.#publish(app, [item])
      if (this.#full.has(app)) break
    }
    return published
  }

  /** Whether a refusal may pass: the rows then wait. Throws when the store is in trouble, which concerns all rows. */
  #mustWait(app: string, error: unknown): boolean {
    if (!(error instanceof AppError)) throw error
    if (error.code === 'overloaded') {
      const waitMs = error.retryAfterSeconds === undefined ? fullMs : error.retryAfterSeconds * 1000
      this.#full.set(app, this.#deps.clock.steady() + waitMs)
      return true
    }
    if (error.code === 'unavailable') throw error.cause instanceof StoreTrouble ? error.cause : error
    return false
  }

  async #refuse(app: string, id: number, error: unknown): Promise<void> {
    if (!(error instanceof AppError)) throw error
    const refusal = refusalOf(error)
    // Another process may have published it meanwhile.
    if (!(await this.#deps.store.refuseInboxRow(id, refusal))) return
    this.#deps.log?.(`row ${id} of the inbox, for ${JSON.stringify(app)}, cannot be published: ${refusal.error}`)
  }
}

/** An error as the row keeps it: a sentence, and each field that is wrong. */
export function refusalOf({ code, message, fields }: AppError): Refusal {
  const named = fields.map(({ at, message: problem }) => `${at.slice(1).join('.') || at.join('.')} ${problem}`)
  return { code, error: [message, ...named].join('\n') }
}
