import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import type { Clock } from '../domain/clock.ts'
import type { MessageSummary } from '../domain/delivery.ts'
import { firstKeyAt } from '../domain/ids.ts'
import { type Sliced, Turns } from '../domain/turns.ts'
import { type SubjectIndexing, type SubjectRules, unindexedSubject } from '../features/erasure/store.ts'
import { Outline, quote } from '../json/outline.ts'
import { textOf } from '../json/token.ts'
import type { Store } from '../store/store.ts'
import { shaper, visitor } from './shape.ts'

/** Data subjects of one message that are indexed. A message with more is found by reading its body. */
const subjectsLimit = 100
/** Values of one message that are hashed, equal ones included: a hash takes about 3 µs, within the turn of a publish. */
const valuesLimit = 1000

/** The text in place of an erased value. */
const erasedText = '[erased]'

/**
 * Finds the data subjects of an application in payloads. A text counts by its characters, however it was escaped, and a
 * number as it is written: 1 and 1.0 differ, 42 and "42" do not. Other values name no person.
 */
export class SubjectIndex {
  readonly #key: KeyObject | undefined
  readonly #visit: ReturnType<typeof visitor>
  readonly #pointers: readonly string[]

  constructor({ pointers, secret }: SubjectRules) {
    this.#key = secret === null ? undefined : createSecretKey(Buffer.from(secret))
    this.#pointers = pointers
    this.#visit = visitor(pointers)
  }

  /** The hash of a subject; undefined when the application's secret cannot be read. */
  hashOf(subject: string): string | undefined {
    return this.#key && hashUnder(this.#key, subject)
  }

  /** The hashes that a message is stored under. A body that is not JSON names no one. */
  *hashesIn(json: Outline | undefined): Sliced<readonly string[]> {
    if (json === undefined) return []
    const key = this.#key
    if (key === undefined) return [unindexedSubject]
    const hashes = new Set<string>()
    let values = 0
    const isOver = () => values > valuesLimit || hashes.size > subjectsLimit
    const visiting = this.#visit(json, (bytes, start, end) => {
      values++
      const subject = isOver() ? undefined : subjectText(bytes, start, end)
      if (subject !== undefined) hashes.add(hashUnder(key, subject))
    })
    for (const pause of visiting) {
      if (isOver()) break
      yield pause
    }
    return isOver() ? [unindexedSubject] : [...hashes]
  }

  /** Whether a body names the subject of this hash. */
  *names(json: Outline | undefined, hash: string): Sliced<boolean> {
    const key = this.#key
    if (json === undefined || key === undefined) return false
    let found = false
    const visiting = this.#visit(json, (bytes, start, end) => {
      const subject = found ? undefined : subjectText(bytes, start, end)
      if (subject !== undefined) found = hashUnder(key, subject) === hash
    })
    for (const pause of visiting) {
      if (found) break
      yield pause
    }
    return found
  }

  /** The body with `"[erased]"` in place of every value that a pointer names, whatever its type; a null stays. */
  *without(json: Outline): Sliced<Buffer> {
    const shape = { keep: null, drop: [], rename: {}, pseudonymize: this.#pointers }
    return yield* shaper(shape, () => erasedText)(json)
  }
}

/** 128 bits of HMAC-SHA256, in base64url. */
function hashUnder(key: KeyObject, subject: string): string {
  return createHmac('sha256', key).update(`subject\0${subject}`).digest('base64url').slice(0, 22)
}

/** The value as the text that names a person; undefined for a value that names none. */
function subjectText(json: Buffer, start: number, end: number): string | undefined {
  const first = json[start] as number
  if (first === quote) return textOf(json, start, end) || undefined
  const isNumber = first === 0x2d || (first >= 0x30 && first <= 0x39)
  return isNumber ? json.toString('latin1', start, end) : undefined
}

/** Messages whose bodies one call reads at most, and how many at once: 16 of 1 MB took up to 55 ms of one turn. */
const readPerCall = 100
const bodiesAtOnce = 4
/** A publish that matched earlier pointers may commit this long after they changed. */
const lateMs = 60_000

/** Messages that name a subject. */
interface SubjectPage {
  /** By key. */
  readonly messages: readonly number[]
  /** Messages that were looked at. */
  readonly scanned: number
  /** Where to continue; null behind the last one. */
  readonly next: number | null
}

/** Finds the messages of an application that name a subject, by key. */
export class SubjectSearch {
  readonly index: SubjectIndex
  readonly #store: SearchedStore
  readonly #clock: Clock
  readonly #app: number
  readonly #hash: string
  /** Messages below this key may lack hashes, so their bodies are read. */
  readonly #indexedFrom: number

  constructor(store: SearchedStore, clock: Clock, app: number, hash: string, indexing: SubjectIndexing) {
    this.index = new SubjectIndex(indexing)
    this.#store = store
    this.#clock = clock
    this.#app = app
    this.#hash = hash
    this.#indexedFrom = firstKeyAt(indexing.since + lateMs)
  }

  /** The next messages behind `after` and before `until`, about `limit` of them at most. */
  next(after: number, until: number, limit: number): Promise<SubjectPage> {
    return after < this.#indexedFrom - 1 ? this.#scan(after, until, limit) : this.indexed(after, until, limit)
  }

  /** As `next`, without reading the bodies of messages from before the application's pointers were set. */
  async indexed(after: number, until: number, limit: number): Promise<SubjectPage> {
    const rows = await this.#store.listSubjectMessages(this.#app, this.#hash, { after, until, limit })
    const unread = rows.filter(({ indexed }) => !indexed).map(({ message }) => message)
    const named = await this.#naming(unread)
    return {
      messages: rows.filter(({ message, indexed }) => indexed || named.has(message)).map(({ message }) => message),
      scanned: rows.length,
      next: rows.length < limit ? null : (rows.at(-1)?.message ?? null),
    }
  }

  /** Reads the bodies of messages until `limit` of them name the subject. */
  async #scan(after: number, until: number, limit: number): Promise<SubjectPage> {
    const end = Math.min(until, this.#indexedFrom)
    const range = { from: 0, until: end, after, order: 'ascending', limit: readPerCall } as const
    const summaries: MessageSummary[] = await this.#store.listMessages(this.#app, range)
    const bound = summaries.length < readPerCall ? end - 1 : (summaries.at(-1)?.key as number)
    const span = { after, until: bound + 1, limit: 2 * readPerCall }
    const rows = await this.#store.listSubjectMessages(this.#app, this.#hash, span)
    const indexed = new Set(rows.filter((row) => row.indexed).map(({ message }) => message))
    const messages: number[] = []
    let scanned = 0
    while (scanned < summaries.length && messages.length < limit) {
      const some = summaries.slice(scanned, scanned + bodiesAtOnce)
      scanned += some.length
      const unread = some.filter(({ key, expunged }) => !expunged && !indexed.has(key)).map(({ key }) => key)
      const named = await this.#naming(unread)
      messages.push(...some.map(({ key }) => key).filter((key) => indexed.has(key) || named.has(key)))
    }
    const last = scanned < summaries.length ? (summaries[scanned - 1]?.key as number) : bound
    return { messages, scanned, next: last + 1 >= until ? null : last }
  }

  /** Reads bodies, in turns between which other work goes on. Answers the messages that name the subject. */
  async #naming(messages: readonly number[]): Promise<Set<number>> {
    const found = new Set<number>()
    for (let i = 0; i < messages.length; i += bodiesAtOnce) {
      const loaded = await this.#store.loadMessages(messages.slice(i, i + bodiesAtOnce))
      for (const { key, body } of loaded) {
        if (await Turns.by(this.#clock).run(this.#names(body))) found.add(key)
      }
    }
    return found
  }

  *#names(body: Uint8Array): Sliced<boolean> {
    return yield* this.index.names(yield* Outline.of(body), this.#hash)
  }

  /** Whether a body names the subject. */
  async names(body: Uint8Array): Promise<boolean> {
    return Turns.by(this.#clock).run(this.#names(body))
  }
}

type SearchedStore = Pick<Store, 'listSubjectMessages' | 'listMessages' | 'loadMessages'>
