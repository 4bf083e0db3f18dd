import { type AlertChange, type AlertRule, stepAlerts } from '../domain/alert.ts'
import { readFigure } from '../domain/alert-rules.ts'
import type { Facts } from '../metrics/facts.ts'
import { type AlertFactsParts, gatherAlertFacts } from './alert-facts.ts'

export interface AlertWatchParts extends AlertFactsParts {
  readonly facts: Pick<Facts, 'current' | 'start'>
  readonly rules: readonly AlertRule[]
  readonly log?: ((sentence: string) => void) | undefined
}

/**
 * Steps all alerts. The store keeps their states, and stores each change together with the notice that announces it: a
 * leader that dies in between has announced nothing, or its successor finds the alert announced.
 */
export class AlertWatch {
  readonly #parts: AlertWatchParts
  readonly #leastWaiting: number

  constructor(parts: AlertWatchParts) {
    this.#parts = parts
    const limits = parts.rules.filter(({ figure }) => figure === 'endpoint_waiting').map(({ clear }) => clear)
    this.#leastWaiting = Math.min(Number.MAX_SAFE_INTEGER, ...limits)
  }

  /** Judges the figures of this moment. Answers the changes that were stored. */
  async step(): Promise<readonly AlertChange[]> {
    const { store, facts, rules, log } = this.#parts
    facts.start()
    const gathered = await gatherAlertFacts(this.#parts, this.#leastWaiting)
    if (gathered === undefined) return []
    const book = await store.readAlerts()
    const changes = await store.changeAlerts(stepAlerts(rules, book, (rule) => readFigure(gathered, rule)))
    for (const { rule, announce, state } of changes) {
      if (announce !== null) log?.(`alert ${rule} ${announce === 'firing' ? 'fires' : 'resolved'}: ${state?.sentence}`)
    }
    return changes
  }
}
