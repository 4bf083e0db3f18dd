import type { CircuitAction } from '../../src/domain/flow.ts'
import type { Store } from '../../src/store/store.ts'
import type { VirtualClock } from '../virtual-clock.ts'
import { randomSecret, randomShape } from './check-shaping.ts'
import type { EndpointFacts, History } from './history.ts'
import type { Seeded } from './seeded.ts'

const second = 1000

/** An operator who changes endpoints while everything else continues. Each kind of change has chances of its own. */
export class Operator {
  readonly #deps: OperatorDeps

  constructor(deps: OperatorDeps) {
    this.#deps = deps
  }

  /** An operator pauses endpoints for a while, and deletes one now and then, but not the last of them. */
  operateFor(durationMs: number): void {
    const { clock, history } = this.#deps
    const operator = this.#deps.chances.operator
    const next = () => {
      if (clock.steady() >= durationMs) return
      void this.#operate(operator.pick(history.endpoints), operator.chance(0.15))
      clock.after(operator.between(1000, 8000), next)
    }
    clock.after(operator.between(1000, 8000), next)
  }

  async #operate({ app, key }: EndpointFacts, deletes: boolean): Promise<void> {
    const { clock, history } = this.#deps
    const operator = this.#deps.chances.operator
    if (history.stops.some((stop) => stop.endpoint === key && stop.until > clock.steady())) return
    const from = clock.steady()
    if (deletes && history.stops.every((stop) => stop.kind !== 'deleted') && history.endpoints.length > 1) {
      history.stops.push({ endpoint: key, kind: 'deleted', from, until: Number.POSITIVE_INFINITY })
      await this.#deps.store.deleteEndpoint(app, key)
      return
    }
    const forMs = operator.between(500, 6000)
    history.stops.push({ endpoint: key, kind: 'paused', from, until: from + forMs })
    await this.#deps.store.updateEndpoint(app, key, { paused: true })
    clock.after(forMs, () => void this.#deps.store.updateEndpoint(app, key, { paused: false }))
  }

  /** An operator looks at the queues now and then, and retries or skips the delivery that blocks one. */
  directFor(durationMs: number): void {
    const { clock } = this.#deps
    const next = () => {
      if (clock.steady() >= durationMs) return
      void this.directBlocked(this.#deps.chances.order.pick(['retry', 'skip']))
      clock.after(this.#deps.chances.order.between(2000, 9000), next)
    }
    clock.after(this.#deps.chances.order.between(2000, 9000), next)
  }

  async directBlocked(order: 'retry' | 'skip'): Promise<void> {
    const blocking = this.#deps.history.endpoints.filter((endpoint) => endpoint.deadHead === 'block')
    for (const { key } of blocking) {
      const pages = await this.#deps.store.readDue(
        ([0, 1] as const).map((c) => ({ endpoint: key, class: c, after: null, limit: 1000 })),
      )
      for (const { message, retryInMs } of pages.flatMap((page) => page.rows)) {
        if (retryInMs !== Number.POSITIVE_INFINITY) continue
        const [loaded] = await this.#deps.store.loadMessages([message])
        if (order === 'retry') this.#deps.history.retried.add(`${key} ${Buffer.from(loaded?.body ?? []).toString()}`)
        const now = this.#deps.clock.steady()
        this.#deps.history.disturbances.push({ from: now, until: now + 2 * second })
        await this.#deps.store.commandFront(key, message, order)
      }
    }
  }

  /** An operator opens circuits, and closes or resets them a while later. */
  orderFor(durationMs: number): void {
    const { clock, history } = this.#deps
    const ailing = this.#deps.chances.ailing
    const next = () => {
      if (clock.steady() >= durationMs) return
      const { app, key } = ailing.pick(history.endpoints)
      const undo = ailing.pick(['close', 'reset'] as const)
      const isOpen = history.orders.findLast(({ endpoint }) => endpoint === key)?.action === 'open'
      if (!isOpen && ailing.chance(0.7)) {
        void this.#orderCircuit(app, key, 'open')
        clock.after(ailing.between(500, 9000), () => void this.#orderCircuit(app, key, undo))
      } else if (!isOpen) void this.#orderCircuit(app, key, undo)
      clock.after(ailing.between(1000, 10_000), next)
    }
    clock.after(ailing.between(1000, 10_000), next)
  }

  /** An operator changes what endpoints get of payloads, and their secrets. */
  reformFor(durationMs: number): void {
    const { clock, history } = this.#deps
    const forms = this.#deps.chances.forms
    const next = () => {
      if (clock.steady() >= durationMs) return
      const { app, key, form } = forms.pick(history.endpoints)
      const secret = randomSecret(forms)
      if (form.shaped) void this.#deps.store.updateEndpoint(app, key, { flow: { shape: randomShape(forms) } })
      if (form.secrets.length > 0) {
        form.secrets.push(secret)
        void this.#deps.store.updateEndpoint(app, key, { secrets: [{ secret, expiresAt: null }] })
      }
      clock.after(forms.between(2000, 15_000), next)
    }
    clock.after(forms.between(2000, 15_000), next)
  }

  async #orderCircuit(app: number, key: number, action: CircuitAction): Promise<void> {
    this.#deps.history.orders.push({ endpoint: key, action, at: this.#deps.clock.steady() })
    await this.#deps.store.updateEndpoint(app, key, ({ flow }) => ({
      flow: { circuitOrder: { n: (flow.circuitOrder?.n ?? 0) + 1, action } },
    }))
  }
}

export interface OperatorDeps {
  readonly store: Store
  readonly clock: VirtualClock
  readonly history: History
  readonly chances: Readonly<Record<'operator' | 'order' | 'ailing' | 'forms', Seeded>>
}
