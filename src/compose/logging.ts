import type { Clock, SteadyMs } from '../domain/clock.ts'
import type { Timings } from '../domain/outcome.ts'
import { span } from '../domain/phrases.ts'
import type { AttemptWatch, StartedAttempt, WatchedEnd } from '../engine/attempt-watch.ts'
import type { Logger } from '../runtime/log.ts'
import type { LoggedAttempts } from '../runtime/log-settings.ts'
import { StoreTrouble } from '../store/store.ts'

/** While the store is lost, one line is logged this often. */
const repeatMs = 10_000
/** The store is asked this often whether it is back. It remembers a verdict for a second. */
const askMs = 1100
/** A store that does not answer for this long counts as lost. */
const answerMs = 2000

/**
 * Logs trouble with the store for all parts of the process together. When the store is lost, many parts meet it many times
 * a second; the log has one line when it goes, one every ten seconds, and one when it is back.
 */
export class StoreTroubles {
  readonly #clock: Clock
  readonly #log: Pick<Logger, 'warn'>
  #ping: (() => Promise<unknown>) | undefined
  #watching = false
  #stopped = false
  /** The latest trouble. */
  #message = ''
  #minorSaidAt: SteadyMs = Number.NEGATIVE_INFINITY
  #cancel = () => {}

  constructor(clock: Clock, log: Pick<Logger, 'warn'>) {
    this.#clock = clock
    this.#log = log
  }

  /** Sets the store that is asked whether it answers. */
  follow(store: { ping(): Promise<unknown> }): void {
    this.#ping = () => store.ping()
  }

  stop(): void {
    this.#stopped = true
    this.#cancel()
  }

  /** Logs an error that a part met. Anything but trouble with the store is a bug and logged with its stack. */
  note(error: unknown, sentence: string, fields: object = {}): void {
    if (error instanceof StoreTrouble) this.say(error.message)
    else this.#log.warn({ err: error, ...fields }, sentence)
  }

  /** Logs trouble with the store that a part met. */
  say(message: string): void {
    this.#message = message
    if (this.#watching || this.#stopped) return
    this.#watching = true
    void this.#watch()
  }

  async #watch(): Promise<void> {
    const since = this.#clock.steady()
    if (await this.#isWell()) this.#sayMinor()
    else await this.#untilBack(since)
    this.#watching = false
  }

  /** Asks twice: the first answer may be a verdict from before the trouble. */
  async #isWell(): Promise<boolean> {
    if (!(await this.#answers())) return false
    await this.#wait()
    return this.#stopped || (await this.#answers())
  }

  #sayMinor(): void {
    const now = this.#clock.steady()
    if (this.#stopped || now - this.#minorSaidAt < repeatMs) return
    this.#minorSaidAt = now
    this.#log.warn(`trouble with the store, trying again: ${this.#message}`)
  }

  async #untilBack(since: SteadyMs): Promise<void> {
    this.#log.warn(`store lost: ${this.#message}`)
    for (let saidAt = since; !this.#stopped; ) {
      await this.#wait()
      if (await this.#answers()) break
      const now = this.#clock.steady()
      if (now - saidAt < repeatMs) continue
      saidAt = now
      if (!this.#stopped) this.#log.warn(`store still lost after ${span(now - since)}: ${this.#message}`)
    }
    if (!this.#stopped) this.#log.warn(`store back after ${span(this.#clock.steady() - since)}`)
  }

  /** Whether the store answers in time. */
  #answers(): Promise<boolean> {
    return new Promise((resolve) => {
      const cancel = this.#clock.after(answerMs, () => resolve(false))
      const end = (answer: boolean) => {
        cancel()
        resolve(answer)
      }
      const asked = this.#ping?.() ?? Promise.reject(new StoreTrouble('the store is not open yet'))
      void asked.then(
        () => end(true),
        () => end(false),
      )
    })
  }

  #wait(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#clock.after(askMs, resolve)
      this.#cancel = () => {
        cancel()
        resolve()
      }
    })
  }
}

/** A sentence is said again when it was last said longer ago than this. */
const againMs = 60 * 60_000
/** Sentences kept; the oldest is forgotten first. */
const kept = 10_000

/** Says each sentence once an hour at most: a record that does not open is met again at every look at it. */
export function seldom(clock: Clock, say: (sentence: string) => void): (sentence: string) => void {
  const saidAt = new Map<string, SteadyMs>()
  return (sentence) => {
    const now = clock.steady()
    if (now - (saidAt.get(sentence) ?? Number.NEGATIVE_INFINITY) < againMs) return
    saidAt.delete(sentence)
    saidAt.set(sentence, now)
    if (saidAt.size > kept) saidAt.delete(saidAt.keys().next().value as string)
    say(sentence)
  }
}

/**
 * Logs one line per attempt. A line has ids, names, numbers and codes only: no payload, secret, URL or header. All of them
 * have a limit, so that a line has one, too.
 */
export function logAttempts(which: LoggedAttempts, log: Pick<Logger, 'info'>, clock: Clock): AttemptWatch | undefined {
  if (which === 'none') return undefined
  return {
    begin: (started) => ({
      end(ended) {
        if (which === 'failed' && ended.outcome.code === 'delivered') return
        log.info(fieldsOf(started, ended, clock), sentenceOf(started, ended))
      },
    }),
  }
}

function sentenceOf({ number }: StartedAttempt, { outcome }: WatchedEnd): string {
  const { code, status, durationMs } = outcome
  const answer = status === 0 ? code : `${code} ${status}`
  return `attempt ${number}: ${answer} in ${Math.round(durationMs)} ms`
}

function fieldsOf({ endpoint, message, number, waitMs }: StartedAttempt, ended: WatchedEnd, clock: Clock): object {
  const { id, outcome, verdict } = ended
  const { code, status, durationMs, timings, response } = outcome
  const nextInMs = verdict !== null && 'waitMs' in verdict ? verdict.waitMs : undefined
  return {
    app: endpoint.appId,
    endpoint: endpoint.id,
    message: message.id,
    eventType: message.eventType,
    attempt: number,
    // Absent for an attempt that the worker gave up: it is not recorded.
    ...(id !== null && { id }),
    code,
    status,
    ...(waitMs !== null && { waitMs: Math.round(waitMs) }),
    durationMs: Math.round(durationMs),
    ...(timings && loggedTimings(timings)),
    requestBytes: message.bytes,
    responseBytes: response?.byteLength ?? 0,
    ...(verdict !== null && { state: verdict.state }),
    ...(verdict?.state === 'dead' && { reason: verdict.reason }),
    ...(nextInMs !== undefined && { next: new Date(clock.now() + Math.ceil(nextInMs)).toISOString() }),
    ...(message.trace !== null && { traceId: message.trace.slice(3, 35) }),
  }
}

/** The parts that took place, in whole milliseconds. */
function loggedTimings({ reused, dnsMs, connectMs, tlsMs, firstByteMs }: Timings): object {
  const parts = Object.entries({ dnsMs, connectMs, tlsMs, firstByteMs })
  const known = parts.flatMap(([name, ms]) => (ms === null ? [] : [[name, Math.round(ms)]]))
  return { reused, ...Object.fromEntries(known) }
}
