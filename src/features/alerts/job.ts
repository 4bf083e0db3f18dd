import type { Clock, EpochMs } from '../../domain/clock.ts'
import { Turns } from '../../domain/turns.ts'
import { type Facts, systemFacts } from '../../metrics/facts.ts'
import type { Store } from '../../store/store.ts'
import type { DeadFacts } from '../doctor/facts.ts'
import { minuteMs, Sums, serverScope } from '../history/rules.ts'
import type { HistoryPlace } from '../history/store.ts'
import { type AlertFacts, type EndpointName, type RecentFigures, readFigure } from './figures.ts'
import { type AlertChange, type AlertRule, stepAlerts } from './rules.ts'

interface AlertWatchDeps {
  readonly store: Store
  readonly clock: Clock
  readonly facts: Pick<Facts, 'current' | 'start' | 'worst'> & Partial<Pick<Facts, 'delayAt'>>
  readonly version: string
  readonly rules: readonly AlertRule[]
  readonly log?: ((sentence: string) => void) | undefined
}

/**
 * Steps all alerts. The store keeps their states, and stores each change together with the notice that announces it: a
 * leader that dies in between has announced nothing, or its successor finds the alert announced.
 */
export class AlertWatch {
  readonly #deps: AlertWatchDeps
  readonly #leastWaiting: number

  constructor(deps: AlertWatchDeps) {
    this.#deps = deps
    const limits = deps.rules.filter(({ figure }) => figure === 'endpoint_waiting').map(({ clear }) => clear)
    this.#leastWaiting = Math.min(Number.MAX_SAFE_INTEGER, ...limits)
  }

  /** Judges the figures of this moment. Answers the changes that were stored. */
  async step(): Promise<readonly AlertChange[]> {
    const { store, facts, rules, log } = this.#deps
    facts.start()
    const gathered = await gatherAlertFacts(this.#deps, this.#leastWaiting)
    if (gathered === undefined) return []
    const book = await store.readAlerts()
    const changes = await store.changeAlerts(stepAlerts(rules, book, (rule) => readFigure(gathered, rule)))
    for (const { rule, announce, state } of changes) {
      if (announce !== null) log?.(`alert ${rule} ${announce === 'firing' ? 'fires' : 'resolved'}: ${state?.sentence}`)
    }
    return changes
  }
}

/** Endpoints with the most waiting deliveries that alerts look at. */
const alertedEndpoints = 50

/** The figures of failures and waits are those of this time. */
const recentMs = 5 * minuteMs
const deadWindowMs = 10 * minuteMs
/** Rows of the history read at once. Each process has one for each minute. */
const rowsPerPage = 500
const mostPages = 10
const namesAtOnce = 20
const calmShare = 0.1

/**
 * Gathers the figures of this moment from the shared facts and the history. Endpoints with `leastWaiting` or fewer waiting
 * deliveries are left out. Undefined while the store does not answer.
 */
async function gatherAlertFacts(deps: AlertWatchDeps, leastWaiting: number): Promise<AlertFacts | undefined> {
  const { store, facts, version } = deps
  const figures = await facts.current()
  const { condition, storeUp, waiting, lanes } = figures
  if (condition === undefined || !storeUp) return undefined
  const ranked = waiting === undefined ? [] : await facts.worst(alertedEndpoints)
  // A queue that its receiver or its limit delays is nothing to wake an operator for, however long it is.
  const isOurs = ({ endpoint }: { readonly endpoint: number }) => (facts.delayAt?.(endpoint) ?? 'ours') === 'ours'
  const others = ranked.filter((each) => !isOurs(each)).reduce((sum, each) => sum + each.waiting, 0)
  const crowded = ranked.filter((each) => each.waiting > leastWaiting && isOurs(each))
  // With many receivers some are always dead: up to a tenth of those with work are no trouble of the server.
  const isCalm = (lanes?.openAt.length ?? 0) <= calmShare * (waiting?.active ?? 0)
  const open = lanes === undefined || isCalm ? [] : lanes.openAt
  const names = await namesOf(deps, [...crowded.map(({ endpoint }) => endpoint), ...open])
  const { recent, dead } = await recentFigures(store, condition.now)
  return {
    queues: waiting && {
      waiting: Math.max(0, waiting.waiting - others),
      behind: waiting.behind,
      oldestDueMs: waiting.oldestDueMs,
    },
    endpoints: waiting && crowded.flatMap((each) => named(names, each.endpoint, { waiting: each.waiting })),
    openCircuits: lanes && open.flatMap((endpoint) => named(names, endpoint, {})),
    recent,
    // The process that steps alerts leads, whatever the facts of some seconds ago say.
    system: { ...(await systemFacts(store, version, figures, condition)), hasLeader: true, dead },
  }
}

function named<More>(names: ReadonlyMap<number, EndpointName>, endpoint: number, more: More): (EndpointName & More)[] {
  const name = names.get(endpoint)
  return name === undefined ? [] : [{ ...name, ...more }]
}

/** The names of endpoints. Endpoints of operational webhooks have none: no command names them. */
async function namesOf(
  { store, clock }: AlertWatchDeps,
  endpoints: readonly number[],
): Promise<ReadonlyMap<number, EndpointName>> {
  const names = new Map<number, EndpointName>()
  const keys = [...new Set(endpoints)]
  for (let at = 0; at < keys.length; at += namesAtOnce) {
    await Turns.by(clock).next()
    const loaded = await store.loadEndpoints(keys.slice(at, at + namesAtOnce))
    const apps = await store.applicationRefs(loaded.map(({ app }) => app))
    for (const { key, id, uid, app } of loaded) {
      const ref = apps.get(app)
      if (ref !== undefined) names.set(key, { id, app: ref.uid ?? ref.id, endpoint: uid ?? id })
    }
  }
  return names
}

/** Sums of the server over the last minutes: those under way are written every few seconds. */
async function recentFigures(
  store: Pick<Store, 'readHistory'>,
  now: EpochMs,
): Promise<{ readonly recent: RecentFigures; readonly dead: DeadFacts }> {
  const recent = new Sums()
  const letters = { recent: 0, before: 0 }
  const range = { scope: serverScope, span: minuteMs, from: now - 2 * deadWindowMs, until: now + minuteMs } as const
  let after: HistoryPlace | null = null
  for (let page = 0; page < mostPages; page++) {
    const { rows, next }: Awaited<ReturnType<Store['readHistory']>> = await store.readHistory(range, after, rowsPerPage)
    for (const { at, sums } of rows) {
      const { dead = 0, expired = 0, dropped = 0 } = sums
      letters[at > now - deadWindowMs ? 'recent' : 'before'] += dead + expired + dropped
      if (at > now - recentMs) recent.addStored(sums)
    }
    if (next === null) break
    after = next
  }
  return {
    recent: {
      windowMs: recentMs,
      delivered: recent.get('delivered'),
      failed: recent.get('failed'),
      delayP95Ms: recent.delayQuantile(0.95) ?? null,
    },
    dead: { windowMs: deadWindowMs, ...letters, worst: null },
  }
}
