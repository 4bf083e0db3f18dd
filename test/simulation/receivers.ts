import type { Outcome } from '../../src/domain/outcome.ts'
import type { Sender } from '../../src/sender/send.ts'
import { answered } from '../answered.ts'
import type { VirtualClock } from '../virtual-clock.ts'
import type { BegunFact } from './check-health.ts'
import { publishedBody } from './check-shaping.ts'
import type { Arrival, History, WorkerFact } from './history.ts'
import type { SimProcess } from './process.ts'
import type { Seeded } from './seeded.ts'

/** How one receiver behaves. The shares need not sum to 1; the rest is success. */
export interface Temper {
  readonly fail: number
  readonly hang: number
  readonly throttle: number
  readonly refuse: number
  /** Processed, but the answer gets lost. */
  readonly loseAnswer: number
  readonly gone: number
  /** Too much, without a word on for how long. */
  readonly crowd: number
  readonly latencyMs: readonly [number, number]
}

export const healthy: Temper = {
  fail: 0,
  hang: 0,
  throttle: 0,
  refuse: 0,
  loseAnswer: 0,
  gone: 0,
  crowd: 0,
  latencyMs: [1, 40],
}

type Ending = Pick<Outcome, 'code' | 'status'> & Partial<Outcome>

const plain = { retryAfterMs: undefined, response: undefined, error: undefined }

/** The receivers of the world and the wires to them, as one worker process sees them. */
export function simulatedSender(parts: {
  world: VirtualClock
  process: SimProcess
  worker: WorkerFact
  chance: Seeded
  history: History
  temperOf: (endpoint: number) => Temper
}): Sender {
  const { world, process, worker, chance, history } = parts
  const hangUps = new Set<() => void>()
  process.onDeath(() => {
    for (const hangUp of hangUps) hangUp()
  })
  return {
    open: (target) => ({
      send(message, onLeave, onEnd, mayLeave) {
        const endpoint = Number(new URL(target.url).pathname.slice(1))
        const startedAt = world.steady()
        let arrival: Arrival | undefined
        const begun: BegunFact = { at: startedAt, endpoint, worker, endedAt: Number.POSITIVE_INFINITY }
        history.begun.push(begun)
        let over = false
        const end = (outcome: Ending) => {
          if (over) return
          over = true
          begun.endedAt = world.steady()
          hangUps.delete(hangUp)
          if (arrival) arrival.endedAt = Math.min(arrival.endedAt, world.steady())
          // A stalled process hears of it when it runs again.
          process.clock.after(0, () => {
            if (arrival && outcome.code !== 'aborted') {
              arrival.heardAt = world.steady()
              arrival.retryAfterMs = outcome.retryAfterMs
              arrival.crowded = outcome.status === 429 && outcome.retryAfterMs === undefined
              arrival.heardAs = outcome.code === 'delivered' ? 'delivered' : 'failed'
            }
            onEnd(answered({ ...plain, durationMs: world.steady() - startedAt, ...outcome }))
          })
        }
        const hangUp = () => {
          over = true
          begun.endedAt = world.steady()
          if (arrival) arrival.endedAt = Math.min(arrival.endedAt, world.steady())
        }
        hangUps.add(hangUp)
        const temper = parts.temperOf(endpoint)
        const roll = chance.next()
        const connectMs = chance.between(0, 3)
        const serveMs = chance.between(...temper.latencyMs)
        const share = cut(roll, temper)

        process.clock.after(connectMs, () => {
          if (over) return
          if (mayLeave?.() === false) return end({ code: 'aborted', status: 0 })
          history.tries.push({ at: world.steady(), endpoint, message: message.id, isGone: share === 'gone' })
          if (share === 'refuse') return end({ code: 'connect_refused', status: 0, error: 'refused' })
          onLeave()
          arrival = {
            at: world.steady(),
            endpoint,
            message: message.id,
            body: publishedBody(Buffer.from(message.body).toString()),
            raw: Buffer.from(message.body).toString(),
            signature: message.signature ?? null,
            worker,
            endedAt: Number.POSITIVE_INFINITY,
            taken: false,
            heardAt: Number.POSITIVE_INFINITY,
            heardAs: undefined,
            retryAfterMs: undefined,
            crowded: false,
          }
          history.arrivals.push(arrival)
          // The receiver's own time: it goes on whether or not anybody listens.
          world.after(serveMs, () => {
            if (over || !arrival || share === 'hang') return
            arrival.taken = share === 'succeed' || share === 'loseAnswer'
            answer(share, chance, end)
          })
        })
        process.clock.after(target.timeoutMs, () => end({ code: 'timeout', status: 0, error: 'too slow' }))
        return () => end({ code: 'aborted', status: 0 })
      },
    }),
    close: () => Promise.resolve(),
  }
}

type Share = keyof Omit<Temper, 'latencyMs'> | 'succeed'

function cut(roll: number, temper: Temper): Share {
  let rest = roll
  for (const share of ['fail', 'hang', 'throttle', 'refuse', 'loseAnswer', 'gone', 'crowd'] as const) {
    if (rest < temper[share]) return share
    rest -= temper[share]
  }
  return 'succeed'
}

function answer(share: Share, chance: Seeded, end: (outcome: Ending) => void): void {
  if (share === 'throttle') {
    const status = chance.pick([429, 503])
    return end({ code: 'refused', status, retryAfterMs: chance.between(1, 20) * 1000 })
  }
  if (share === 'loseAnswer') return end({ code: 'reset', status: 0, error: 'the connection ended' })
  const status = { fail: 500, gone: 410, crowd: 429 }[share as string] ?? 200
  end({ code: status === 200 ? 'delivered' : 'refused', status })
}
