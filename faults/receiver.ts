import { answer } from '../bench/child.ts'
import { machineNow } from '../bench/machine-clock.ts'
import { chanceOf } from '../test/attack/chance.ts'
import { type Answer, type Behaviour, Receiver } from '../test/e2e/receiver.ts'
import type { Arrived } from './histories.ts'

/** The receiving end, a process of its own, so that nothing which is done to the server delays its clock. */

/** How a path meets its requests. */
export type Manner = 'prompt' | 'slow' | 'flaky' | 'holding'

export type ReceiverCommands = typeof commands

const ends: (() => unknown)[] = []
const life = { after: (end?: unknown) => void ends.push(end as () => unknown), diagnostic() {} }
const receiver = await Receiver.listen(life, { timed: true })
/** The steady clock of this process against the machine's. */
const originMs = machineNow() - performance.now()
const holdMs = 1000
const asked = new WeakSet<object>()

const commands = {
  url: () => receiver.url,

  behave({ path, manner, seed }: { path: string; manner: Manner; seed: number }): void {
    receiver.behave(path, behaviour(manner, seed))
  },

  /** How many requests came so far. */
  count: () => receiver.arrivals.length,

  history: (): Arrived[] =>
    receiver.arrivals.map((arrival) => ({
      path: arrival.path,
      id: arrival.headers['webhook-id'] ?? '',
      body: arrival.body.toString(),
      notBefore: arrival.notBefore + originMs,
      at: arrival.at + originMs,
      endedAt: arrival.endedAt === undefined ? null : arrival.endedAt + originMs,
      end: arrival.end ?? null,
      status: arrival.status ?? null,
      retryAfterMs: asked.has(arrival) ? holdMs : null,
    })),
}

function behaviour(manner: Manner, seed: number): Behaviour {
  const chance = chanceOf(seed)
  const after = (ms: number, reply: Answer) => new Promise<Answer>((resolve) => setTimeout(resolve, ms, reply))
  const ok = { status: 200 }
  return (arrival) => {
    if (manner === 'prompt') return ok
    if (manner === 'slow') return after(chance.below(60), ok)
    if (manner === 'flaky') return after(chance.below(15), chance.once(8) ? { status: 503 } : ok)
    if (!chance.once(6)) return after(chance.below(15), ok)
    asked.add(arrival)
    return { status: 429, headers: { 'retry-after': String(holdMs / 1000) } }
  }
}

answer(commands)
