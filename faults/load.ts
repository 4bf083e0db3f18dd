import { Agent, request } from 'undici'
import { machineNow } from '../bench/machine-clock.ts'
import { type Chance, chanceOf } from '../test/attack/chance.ts'
import { apiKey } from '../test/e2e/program.ts'
import type { Published } from './histories.ts'

/** How often an application's messages are published, and by how many ordering keys. */
export interface Flow {
  readonly app: string
  readonly perSecond: number
  readonly orderingKeys?: number
}

type Entry = { -readonly [K in keyof Published]: Published[K] }

/** A producer that gets no answer gives up after this long; the server may still answer, and store it. */
const answerMs = 8000

/**
 * The producers. Each application's messages come from two of them, at random instants. A message without a clear answer is
 * asked again later with the same `Idempotency-Key`, every other one: the rest stays in doubt.
 */
export class Load {
  readonly #entries: Entry[] = []
  readonly #api: () => string
  readonly #chance: Chance
  #agent = newAgent()
  #producers: Promise<void>[] = []
  #isOn = false

  /** `api` answers the base of the API as it is now: a server that is started again has another one. */
  constructor(api: () => string, seed: number) {
    this.#api = api
    this.#chance = chanceOf(seed)
  }

  get published(): readonly Published[] {
    return this.#entries
  }

  get accepted(): number {
    return this.#entries.reduce((sum, { outcome }) => sum + (outcome === 'accepted' ? 1 : 0), 0)
  }

  start(flows: readonly Flow[]): void {
    this.#isOn = true
    this.#producers = flows.flatMap((flow) => [this.#produce(flow), this.#produce(flow)])
  }

  /** Resolves when every producer has its last answer. */
  async stop(): Promise<void> {
    this.#isOn = false
    await Promise.all(this.#producers)
  }

  /** Asks again for those without a clear answer, every other one, until each has it. */
  async askAgain(): Promise<void> {
    const unclear = this.#entries.filter(
      ({ outcome, status, n }) => n % 2 === 0 && (outcome === 'unknown' || status >= 500),
    )
    for (const entry of unclear) {
      for (let tries = 0; tries < 100; tries++) {
        await this.#ask(entry)
        if (entry.status === 202) break
        await pause(100)
      }
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  async #produce({ app, perSecond, orderingKeys }: Flow): Promise<void> {
    while (this.#isOn) {
      const n = this.#entries.length
      const orderingKey = orderingKeys === undefined ? null : `key-${this.#chance.below(orderingKeys)}`
      const body = `{"n":${n},"text":"${'x'.repeat(this.#chance.below(400))}"}`
      const at = machineNow()
      const unknown = { outcome: 'unknown', status: 0, id: '', asked: 0 } as const
      const entry: Entry = { n, app, orderingKey, body, askedAt: at, knownAt: at, ...unknown }
      this.#entries.push(entry)
      await this.#ask(entry)
      await pause((2 * 2 * 1000 * this.#chance.below(1000)) / 1000 / perSecond)
    }
  }

  async #ask(entry: Entry): Promise<void> {
    const { app, n, orderingKey, body } = entry
    const wasAsked = entry.asked++ > 0
    try {
      const reply = await request(`${this.#api()}/app/${app}/msg?with_content=false`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${apiKey}`,
          'content-type': 'application/json',
          'idempotency-key': `message-${n}`,
        },
        body: `{"eventType":"load.made","orderingKey":${JSON.stringify(orderingKey)},"payload":${body}}`,
        dispatcher: this.#agent,
      })
      const text = await reply.body.text()
      entry.knownAt = machineNow()
      entry.status = reply.statusCode
      if (reply.statusCode === 202) {
        entry.outcome = 'accepted'
        entry.id = (JSON.parse(text) as { id: string }).id
      } else {
        entry.outcome = wasAsked ? 'unknown' : 'refused'
      }
    } catch (error) {
      entry.knownAt = machineNow()
      entry.status = 0
      // No server listened, so no server can have stored it.
      const isUnsent = (error as NodeJS.ErrnoException).code === 'ECONNREFUSED' && !wasAsked
      entry.outcome = isUnsent ? 'unsent' : 'unknown'
    }
  }
}

function newAgent(): Agent {
  return new Agent({ connections: 16, pipelining: 1, headersTimeout: answerMs, bodyTimeout: answerMs })
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
