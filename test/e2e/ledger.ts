import assert from 'node:assert/strict'
import { Webhook } from 'standardwebhooks'
import type { Client, Outcome } from './client.ts'
import type { Arrival, Receiver } from './receiver.ts'

/** One event that a producer tried to publish, and where it must go if it was accepted. */
export interface Entry {
  readonly n: number
  readonly app: string
  readonly eventType: string
  readonly body: Buffer
  /** When the producer asked and when it knew, on this process's steady clock. */
  readonly askedAt: number
  knownAt: number
  outcome: Outcome
}

/** Where one application's events go: a path of the receiver and the secret that signs what comes there. */
export interface Destination {
  readonly app: string
  readonly endpoint: string
  readonly path: string
  readonly secret: string
}

// Whatever a parser would change on the way through: numbers, the order of keys, whitespace, escapes, characters.
const flourishes = [
  '"price":1.0',
  '"big":9007199254740993',
  '"2":"two","1":"one"',
  '"loose" :\t[ 1 ,2 ]',
  '"escaped":"\\u00e9\\/\\ud83d\\ude00"',
  '"emoji":"🚰 é ﷽"',
  '"exponent":1E+2,"minus":-0',
]

/** The producer's book: all it tried to publish, and every promise about it that a receiver can check. */
export class Ledger {
  readonly destinations: Destination[] = []
  readonly #entries: Entry[] = []

  get entries(): readonly Entry[] {
    return this.#entries
  }

  /** Makes an endpoint whose deliveries come to the path, and notes its secret. */
  async subscribe(
    client: Client,
    receiver: Receiver,
    app: string,
    path: string,
    fields: Readonly<Record<string, unknown>> = {},
  ): Promise<Destination> {
    const { id } = await client.createEndpoint(app, { url: `${receiver.url}${path}`, ...fields })
    const destination = { app, endpoint: id, path, secret: await client.secret(app, id) }
    this.destinations.push(destination)
    return destination
  }

  /** Publishes the next event and writes down what came of it. */
  async publish(client: Client, app: string, eventType = 'video.trending'): Promise<Entry> {
    const n = this.#entries.length
    const body = Buffer.from(`{ "n":${n},${flourishes[n % flourishes.length]}}`)
    const unknown: Outcome = { state: 'unknown' }
    const askedAt = performance.now()
    const entry: Entry = { n, app, eventType, body, askedAt, knownAt: askedAt, outcome: unknown }
    this.#entries.push(entry)
    entry.outcome = await client.publish(app, eventType, body)
    entry.knownAt = performance.now()
    return entry
  }

  /** Publishes as many events and requires that each is accepted. */
  async publishAll(client: Client, app: string, count: number): Promise<void> {
    const entries = await Promise.all(Array.from({ length: count }, () => this.publish(client, app)))
    for (const { outcome } of entries) assert.equal(outcome.state, 'accepted')
  }

  get accepted(): Entry[] {
    return this.#entries.filter((entry) => entry.outcome.state === 'accepted')
  }

  count(state: Outcome['state']): number {
    return this.#entries.reduce((sum, entry) => sum + (entry.outcome.state === state ? 1 : 0), 0)
  }

  /** Waits until every accepted event was answered 2xx at every destination of its application. */
  async allDelivered(receiver: Receiver): Promise<void> {
    const missing = new Set<string>()
    for (const { app, n } of this.accepted) {
      for (const to of this.destinations) if (to.app === app) missing.add(`${to.path} ${n}`)
    }
    let seen = 0
    const open: Arrival[] = []
    const take = (arrival: Arrival): void => {
      if (arrival.end === undefined) open.push(arrival)
      else if (arrival.status !== undefined && arrival.status < 300)
        missing.delete(`${arrival.path} ${ordinal(arrival)}`)
    }
    await receiver
      .until('every accepted event is delivered', () => {
        for (const arrival of open.splice(0)) take(arrival)
        for (; seen < receiver.arrivals.length; seen++) take(receiver.arrivals[seen] as Arrival)
        return missing.size === 0
      })
      .catch((error) => {
        throw new Error(`${missing.size} deliveries are missing: ${[...missing].slice(0, 5).join(', ')}`, {
          cause: error,
        })
      })
  }

  /**
   * Requires of everything that came: it was published, and not refused; it is byte for byte what was published; it came
   * to an endpoint of its own application; its signature is genuine; and every copy bears the id it was accepted under.
   */
  audit(receiver: Receiver): void {
    const byPath = new Map(this.destinations.map((to) => [to.path, { to, webhook: new Webhook(to.secret) }]))
    const idOf = new Map<number, string>()
    for (const arrival of receiver.arrivals) {
      const n = ordinal(arrival)
      const entry = this.#entries[n]
      const known = byPath.get(arrival.path)
      assert.ok(entry && known, `something came to ${arrival.path} that nobody published: ${arrival.body}`)
      assert.deepEqual(arrival.body, entry.body)
      assert.equal(entry.app, known.to.app, `event ${n} of ${entry.app} came to ${arrival.path}`)
      assert.notEqual(entry.outcome.state, 'refused', `event ${n} was refused and yet came`)
      const id = arrival.headers['webhook-id'] ?? ''
      if (entry.outcome.state === 'accepted') assert.equal(id, entry.outcome.id)
      assert.equal(id, idOf.get(n) ?? id, `event ${n} came under two ids`)
      idOf.set(n, id)
      known.webhook.verify(arrival.body, { ...arrival.headers })
    }
  }
}

/** Which event this is, by its body. */
export function ordinal(arrival: Arrival): number {
  return Number(/"n":(\d+)/.exec(arrival.body.toString())?.[1] ?? -1)
}

/** How often each delivery came: by path and id. */
export function copies(receiver: Receiver): Map<string, number> {
  const counts = new Map<string, number>()
  for (const arrival of receiver.arrivals) {
    const delivery = deliveryOf(arrival)
    counts.set(delivery, (counts.get(delivery) ?? 0) + 1)
  }
  return counts
}

/** The name of the delivery a request belongs to. */
export function deliveryOf(arrival: Arrival): string {
  return `${arrival.path} ${arrival.headers['webhook-id']}`
}

/** Requires that nothing came twice. */
export function assertNoDuplicates(receiver: Receiver): void {
  const twice = [...copies(receiver)].filter(([, count]) => count > 1)
  assert.deepEqual(twice, [])
}
