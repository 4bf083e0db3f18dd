import type { EpochMs } from '../../domain/clock.ts'
import type { Severity } from '../doctor/facts.ts'

/** From where on a figure is an alert, and for how long it must be so. */
export interface AlertRule {
  readonly name: string
  /** The figure that the rule judges: a key of `figures` in alert-rules.ts. */
  readonly figure: string
  readonly severity: Severity
  /** Whether the trouble is a figure above the threshold, or one below it. */
  readonly side: 'above' | 'below'
  readonly threshold: number
  /** An alert that fires resolves at this figure, which is a little better than the threshold: hysteresis. */
  readonly clear: number
  /** The trouble must last this long before the alert fires. */
  readonly holdMs: number
  /** The figure must stay clear for this long before the alert resolves. */
  readonly clearMs: number
}

/** A figure of the server, or of one subject: an endpoint or a worker. */
export interface AlertReading {
  /** Empty for the server, or the id of an endpoint, or `worker 7`. Each subject has an alert of its own. */
  readonly subject: string
  readonly value: number
  /** The trouble in a sentence or two. */
  readonly sentence: string
  /** The command that helps, or the one that shows more. */
  readonly command: string
  /** Uid or id of the application and the endpoint; null for a figure of the server. */
  readonly app: string | null
  readonly endpoint: string | null
}

/** `pending`: the trouble has not lasted long enough. `resolved`: it is over; the alert is kept for a week. */
export const alertPhases = ['pending', 'firing', 'resolved'] as const
type AlertPhase = (typeof alertPhases)[number]

/** The state of one alert, as the store keeps it. */
export interface AlertState extends Omit<AlertReading, 'subject'> {
  readonly phase: AlertPhase
  /** When the phase began. */
  readonly since: EpochMs
  /** While it fires: since when the figure has been clear; null while it is not. */
  readonly clearSince: EpochMs | null
  /** When it last fired and resolved; null before the first time. */
  readonly firedAt: EpochMs | null
  readonly resolvedAt: EpochMs | null
  /** Whether the firing was announced. A silence postpones that; a resolution is announced if its firing was. */
  readonly announced: boolean
  readonly severity: Severity
  readonly threshold: number
}

/** An alert in the store. */
export interface StoredAlert {
  readonly rule: string
  readonly subject: string
  /** Grows with every change, so that of two leaders only one changes it. */
  readonly version: number
  readonly state: AlertState
}

/** Alerts that are not announced for some time. */
export interface Silence {
  readonly id: string
  /** The name of a rule; null for all rules. */
  readonly rule: string | null
  /** A subject; null for all subjects. */
  readonly subject: string | null
  readonly from: EpochMs
  readonly until: EpochMs
}

export type Announcement = 'firing' | 'resolved'

/** A change of an alert, with the announcement that goes with it. */
export interface AlertChange extends Omit<StoredAlert, 'state'>, Step {
  /** The version that it replaces; 0 for a new alert. */
  readonly version: number
}

/** Resolved alerts are kept this long. */
export const resolvedKeptMs = 7 * 24 * 60 * 60 * 1000

interface Step {
  /** Null removes the alert. */
  readonly state: AlertState | null
  readonly announce: Announcement | null
}

export function breaches({ side, threshold }: AlertRule, value: number): boolean {
  return side === 'above' ? value > threshold : value < threshold
}

function isClear({ side, clear }: AlertRule, value: number): boolean {
  return side === 'above' ? value <= clear : value >= clear
}

/**
 * The next state of an alert. Pure: the same arguments give the same step. `before` is null for an alert that does not
 * exist yet.
 */
function stepAlert(
  before: AlertState | null,
  rule: AlertRule,
  reading: AlertReading,
  isSilenced: boolean,
  now: EpochMs,
): Step {
  const phase = before?.phase ?? 'resolved'
  if (phase === 'firing' && before !== null) return stepFiring(before, rule, reading, isSilenced, now)
  if (!breaches(rule, reading.value)) return { state: rest(before, now), announce: null }
  // A clock that was set back must not make the wait longer than its length.
  const since = phase === 'pending' && before !== null ? Math.min(before.since, now) : now
  const pending: AlertState = { ...figuresOf(before, rule, reading), phase: 'pending', since }
  if (now - since < rule.holdMs) return { state: pending, announce: null }
  const firing: AlertState = { ...pending, phase: 'firing', since: now, firedAt: now, announced: !isSilenced }
  return { state: firing, announce: isSilenced ? null : 'firing' }
}

function stepFiring(
  before: AlertState,
  rule: AlertRule,
  reading: AlertReading,
  isSilenced: boolean,
  now: EpochMs,
): Step {
  if (isClear(rule, reading.value)) {
    const clearSince = Math.min(before.clearSince ?? now, now)
    if (now - clearSince < rule.clearMs) return announced({ ...before, clearSince }, isSilenced)
    return resolve({ ...before, value: reading.value }, now)
  }
  return announced({ ...before, clearSince: null }, isSilenced)
}

/** An alert that fired within a silence is announced when the silence is over. */
function announced(state: AlertState, isSilenced: boolean): Step {
  if (state.announced || isSilenced) return { state, announce: null }
  return { state: { ...state, announced: true }, announce: 'firing' }
}

/** Ends an alert that fires. */
function resolve(state: AlertState, now: EpochMs): Step {
  const announce = state.announced ? 'resolved' : null
  return {
    state: { ...state, phase: 'resolved', since: now, clearSince: null, resolvedAt: now, announced: false },
    announce,
  }
}

/** An alert without trouble: after a firing it is kept for a week. */
function rest(before: AlertState | null, now: EpochMs): AlertState | null {
  if (before === null || before.resolvedAt === null || now - before.resolvedAt > resolvedKeptMs) return null
  return before.phase === 'resolved' ? before : { ...before, phase: 'resolved', since: before.resolvedAt }
}

function figuresOf(
  before: AlertState | null,
  rule: AlertRule,
  reading: AlertReading,
): Omit<AlertState, 'phase' | 'since'> {
  const { value, sentence, command, app, endpoint } = reading
  return {
    clearSince: null,
    firedAt: before?.firedAt ?? null,
    resolvedAt: before?.resolvedAt ?? null,
    announced: false,
    severity: rule.severity,
    threshold: rule.threshold,
    value,
    sentence,
    command,
    app,
    endpoint,
  }
}

/** Whether the step changed something that must outlive the leader: figures alone are not stored again. */
function isChanged(before: AlertState | null, after: AlertState | null): boolean {
  if (before === null || after === null) return before !== after
  const { phase, since, clearSince, announced } = after
  return (
    phase !== before.phase ||
    since !== before.since ||
    clearSince !== before.clearSince ||
    announced !== before.announced
  )
}

function isSilenced(silences: readonly Silence[], rule: string, subject: string, now: EpochMs): boolean {
  return silences.some(
    (each) =>
      each.from <= now &&
      now < each.until &&
      (each.rule === null || each.rule === rule) &&
      (each.subject === null || each.subject === subject),
  )
}

/** The stored alerts and silences, and the store's clock. */
export interface AlertBook {
  readonly now: EpochMs
  readonly alerts: readonly StoredAlert[]
  readonly silences: readonly Silence[]
}

/**
 * The changes of all alerts by the readings of this moment. `read` answers undefined for a figure that is not known yet:
 * its alerts stay as they are. A subject without a reading has no trouble. An alert whose rule is gone ends.
 */
export function stepAlerts(
  rules: readonly AlertRule[],
  { now, alerts, silences }: AlertBook,
  read: (rule: AlertRule) => readonly AlertReading[] | undefined,
): AlertChange[] {
  const changes: AlertChange[] = []
  const change = (rule: string, subject: string, before: StoredAlert | undefined, { state, announce }: Step) => {
    if (announce === null && !isChanged(before?.state ?? null, state)) return
    changes.push({ rule, subject, version: before?.version ?? 0, state, announce })
  }
  const byRule = Map.groupBy(alerts, ({ rule }) => rule)
  for (const rule of rules) {
    const readings = read(rule)
    const stored = byRule.get(rule.name) ?? []
    byRule.delete(rule.name)
    if (readings === undefined) continue
    const known = new Map(stored.map((alert) => [alert.subject, alert]))
    for (const reading of readings) {
      const before = known.get(reading.subject)
      known.delete(reading.subject)
      const silenced = isSilenced(silences, rule.name, reading.subject, now)
      change(rule.name, reading.subject, before, stepAlert(before?.state ?? null, rule, reading, silenced, now))
    }
    for (const before of known.values()) {
      const silenced = isSilenced(silences, rule.name, before.subject, now)
      const none = { ...before.state, subject: before.subject, value: rule.side === 'above' ? 0 : rule.clear }
      change(rule.name, before.subject, before, stepAlert(before.state, rule, none, silenced, now))
    }
  }
  for (const before of [...byRule.values()].flat()) {
    const { state } = before
    const step = state.phase === 'firing' ? resolve(state, now) : { state: rest(state, now), announce: null }
    change(before.rule, before.subject, before, step)
  }
  return changes
}

/** The data of the notice of an announcement. */
export function announcementOf({ rule, subject, state }: AlertChange): Readonly<Record<string, unknown>> {
  if (state === null) throw new Error('an alert that is announced has a state')
  const { severity, value, threshold, sentence, command, app, endpoint, firedAt, resolvedAt, phase } = state
  const instant = (at: EpochMs | null) => (at === null ? null : new Date(at).toISOString())
  return {
    rule,
    subject: subject === '' ? null : subject,
    // Equal in the two announcements of one alert, and different the next time that it fires.
    alertId: `${rule}/${subject}/${firedAt}`,
    severity,
    sentence,
    command,
    value,
    threshold,
    app,
    endpoint,
    firedAt: instant(firedAt),
    resolvedAt: phase === 'resolved' ? instant(resolvedAt) : null,
  }
}
