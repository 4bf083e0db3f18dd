import { aboutMany, count, perSecond, span, withCommas } from '../../domain/phrases.ts'
import { storeTraits } from '../../domain/store-traits.ts'

import { capacityRules } from './capacity-rules.ts'
import { endpointRules } from './endpoint-rules.ts'
import {
  type DoctorFacts,
  type DoctorLimits,
  doctorLimits,
  type Finding,
  type FoldedNameFacts,
  type Known,
  type Rule,
  type RuleFinding,
  type Severity,
  type StoreDown,
} from './facts.ts'
import { systemRules, watchedRules } from './system-rules.ts'

/** The rules about dead letters, schedules and refused publishes. */
const intakeRules: readonly Rule[] = [
  {
    code: 'publishes_refused',
    severity: 'critical',
    meaning:
      'So many deliveries wait, in all, for one application or for one endpoint, that publishes are refused with 429. Or this server refused some in the last minute, because queues were full or the store was slow.',
    remedy: 'Remove the cause of the backlog, or raise `maxWaiting`, `maxWaitingPerApp` or `maxWaitingPerEndpoint`.',
    find: (facts) => {
      const full = fullQueues(facts, (share) => share >= 1, 'Publishes are refused with 429.')
      return full.length > 0 || facts.shedPerSecond === 0 ? full : [shedFinding(facts)]
    },
  },
  {
    code: 'queue_filling',
    meaning: 'The waiting deliveries have reached 80 % of the number above which publishes are refused.',
    remedy: 'Remove the cause of the backlog, or raise `maxWaiting`, `maxWaitingPerApp` or `maxWaitingPerEndpoint`.',
    find: (facts, { waitingShare }) =>
      fullQueues(
        facts,
        (share) => share >= waitingShare && share < 1,
        'Above the limit, publishes are refused with 429.',
      ),
  },
  watchedRules.dead_letters_growing,
  watchedRules.schedule_late,
]

const sourceRefuses: Rule = {
  code: 'source_refuses',
  meaning:
    'A source has refused every arrival of the last hour, five or more: its secret or its settings are wrong, or requests are forged.',
  remedy: 'Look at its samples, and set the secret that the provider shows.',
  find: ({ refusingSources }) =>
    refusingSources.map(({ app, source, provider, refusedInRow, refusedCode, everAccepted }) => ({
      sentence: `The source ${source} of ${app} (${provider}) ${everAccepted ? 'now refuses' : 'has refused'} everything: ${count(refusedInRow, 'arrival')} in a row, the last as ${refusedCode}.`,
      evidence: { refusedInRow, refusedCode, everAccepted },
      command: `sluice source samples ${source} --app ${app}`,
      app,
    })),
}

const certificateExpires: Rule = {
  code: 'client_certificate_expires',
  criticalWhen: 'it has expired',
  meaning: 'The client certificate of an endpoint expires within 30 days.',
  remedy: 'Set the next certificate; the receiver is shown the old one for a day if it refuses the new one.',
  find: ({ certificates, now }) =>
    certificates.map(({ app, endpoint, expiresAt }) => {
      const hasExpired = expiresAt <= now
      const when = hasExpired ? 'expired at' : 'expires at'
      return {
        severity: hasExpired ? ('critical' as const) : ('warning' as const),
        sentence: `The client certificate of ${endpoint} of ${app} ${when} ${new Date(expiresAt).toISOString()}.`,
        evidence: { expiresAt: new Date(expiresAt).toISOString(), leftMs: expiresAt - now },
        command: `sluice endpoint update ${app} ${endpoint} --client-certificate FILE`,
        app,
        endpoint,
      }
    }),
}

const foldedName: Rule = {
  code: 'folded_name',
  meaning:
    'The uid of a thing, or the name of an event type, is `.` or `..`. Clients resolve it in a URL: a request that names it is about another thing, such as the application of the endpoint.',
  remedy: 'Give it another uid, by its id; delete an event type with a client that sends the path as it is.',
  find: ({ foldedNames }) =>
    foldedNames.map(({ noun, id, name, appId }) => ({
      sentence: `The ${noun}${id === name ? '' : ` ${id}`} has the name "${name}", which clients resolve in a URL: a request that names it is about another thing.`,
      evidence: { noun, id, name },
      command: renamingOf(noun, id, appId ?? ''),
      app: appId,
      endpoint: noun === 'endpoint' ? id : null,
    })),
}

/** The command that gives a thing another name. No command can name an event type with such a name. */
function renamingOf(noun: FoldedNameFacts['noun'], id: string, appId: string): string {
  if (noun === 'application') return `sluice app update ${id} --uid UID`
  if (noun === 'source') return `sluice source update ${id} --app ${appId} --uid UID`
  if (noun !== 'event type') return `sluice ${noun} update ${appId} ${id} --uid UID`
  return `curl --path-as-is -X DELETE -H "Authorization: Bearer $SLUICE_API_KEY" "$SLUICE_URL/api/v1/event-type/${id}?expunge=true"`
}

const storeDown: Rule = {
  code: 'store_down',
  severity: 'critical',
  meaning:
    'The store takes no writes, or does not answer within two seconds. Publishes are refused, nothing is delivered, and nothing accepted is lost.',
  remedy: 'Bring the database or the disk back. Sluice goes on by itself.',
  find: () => undefined,
}

const serverUnreachable: Rule = {
  code: 'server_unreachable',
  severity: 'critical',
  meaning: 'The command reached no server at the URL.',
  remedy: 'Start the server, or name its URL with `--url`.',
  find: () => undefined,
}

/** The table of rules, in the order in which they look. The first two need no facts. */
export const rules: readonly Rule[] = [
  serverUnreachable,
  storeDown,
  ...systemRules,
  ...endpointRules,
  ...capacityRules,
  ...intakeRules,
  sourceRefuses,
  certificateExpires,
  foldedName,
]

/** Findings of one rule beyond this number are counted, not named. */
const perRule = 5

export interface Diagnosis {
  readonly status: 'healthy' | Severity
  /** The whole in one sentence. */
  readonly summary: string
  /** The critical ones first. */
  readonly findings: readonly Finding[]
  /** Findings that were left out, because their rule has many. */
  readonly more: number
}

/** Applies every rule to the facts. Pure: the same facts give the same findings. */
export function diagnose(facts: DoctorFacts | StoreDown, limits: DoctorLimits = doctorLimits): Diagnosis {
  if ('trouble' in facts) return diagnosisOf([downFinding(facts)], 0, undefined)
  const known: Known = { explained: new Set(), allExplained: false }
  const findings: Finding[] = []
  let more = 0
  for (const rule of rules) {
    const found = [rule.find(facts, limits, known) ?? []].flat()
    findings.push(...found.slice(0, perRule).map((each) => findingOf(rule, each)))
    more += Math.max(0, found.length - perRule)
  }
  return diagnosisOf(findings, more, facts)
}

/** The diagnosis when one trouble hides everything else, such as a server that does not answer. */
export function onlyFinding(code: string, found: RuleFinding): Diagnosis {
  const rule = rules.find((each) => each.code === code)
  if (rule === undefined) throw new Error(`there is no rule ${code}`)
  return diagnosisOf([findingOf(rule, found)], 0, undefined)
}

function downFinding({ dialect, trouble }: StoreDown): Finding {
  const sentence = `The store takes no writes: ${trouble}`
  return findingOf(storeDown, { sentence, evidence: { dialect }, command: storeTraits[dialect].reachCommand })
}

function findingOf({ code, severity }: Rule, found: RuleFinding): Finding {
  return { code, severity: severity ?? 'warning', app: null, endpoint: null, ...found }
}

function diagnosisOf(findings: readonly Finding[], more: number, facts: DoctorFacts | undefined): Diagnosis {
  const critical = findings.filter((each) => each.severity === 'critical')
  const sorted = [...critical, ...findings.filter((each) => each.severity !== 'critical')]
  const status = critical.length > 0 ? 'critical' : sorted.length > 0 ? 'warning' : 'healthy'
  const queue = facts === undefined ? '' : ` ${queueText(facts)}`
  const found =
    critical.length === 0
      ? count(sorted.length + more, 'finding')
      : `${count(sorted.length + more, 'finding')}, ${critical.length} critical`
  return { status, summary: `${status === 'healthy' ? 'Healthy.' : `${found}.`}${queue}`, findings: sorted, more }
}

/** How many deliveries wait, and whether for one destination or for many. */
function queueText({ waiting, endpoints }: DoctorFacts): string {
  const { total, isExact, endpoints: destinations } = waiting
  if (total === 0) return 'No deliveries wait.'
  const what = aboutMany(total, isExact, 'delivery waits', 'deliveries wait')
  const [worst] = endpoints.toSorted((a, b) => b.waiting - a.waiting)
  if (worst === undefined || destinations === 1) {
    return worst === undefined ? `${what}.` : `${what} for ${worst.endpoint} of ${worst.app}.`
  }
  const share = Math.round((100 * worst.waiting) / total)
  return `${what} for ${count(destinations, 'endpoint')}, ${share} % of them for ${worst.endpoint} of ${worst.app}.`
}

/** Publishes were refused, though no queue is full now. */
function shedFinding({ shedPerSecond, store }: DoctorFacts): RuleFinding {
  const rate = perSecond(shedPerSecond)
  return {
    sentence: `Publishes were refused with 429 in the last minute, ${rate}: a queue was full, or the store could not keep up. A durable write takes ${span(store.commitMs)} now.`,
    evidence: { refusedPerSecond: Number(shedPerSecond.toPrecision(3)), commitMs: Math.round(store.commitMs) },
    command: 'sluice why',
  }
}

/**
 * The limits of waiting deliveries, of all, of applications and of endpoints, whose share in use meets a condition. Of an
 * application, the endpoints that are looked at closely count: it has at least these.
 */
function fullQueues(
  { waiting, endpoints }: DoctorFacts,
  meets: (share: number) => boolean,
  consequence: string,
): RuleFinding[] {
  const ofApps = [...Map.groupBy(endpoints, ({ app }) => app)].map(([app, its]) => ({
    waiting: its.reduce((sum, each) => sum + each.waiting, 0),
    limit: waiting.limitPerApp,
    where: `for ${app}`,
    command: `sluice why ${app}`,
    app,
  }))
  const ofEndpoints = endpoints.flatMap(({ app, endpoint, waiting, waitingLimit: limit }) => {
    const command = `sluice endpoint update ${app} ${endpoint} --max-waiting ${2 * (limit ?? 0)}`
    return limit === null ? [] : [{ waiting, limit, where: `for ${endpoint} of ${app}`, command, app, endpoint }]
  })
  const all = { waiting: waiting.total, limit: waiting.limit, where: 'in all', command: 'sluice why' }
  return [all, ...ofApps, ...ofEndpoints]
    .filter((each) => meets(each.waiting / each.limit))
    .map(({ waiting, limit, where, ...rest }) => ({
      sentence: `${withCommas(waiting)} of ${withCommas(limit)} deliveries wait ${where}. ${consequence}`,
      evidence: { waiting, limit },
      ...rest,
    }))
}

/** The waiting deliveries at an instant. */
export interface WaitingCount {
  readonly at: number
  readonly waiting: number
}

/** Whether depth falls between two readings, and when it is empty at that pace. */
export interface Trend {
  readonly direction: 'empty' | 'falls' | 'steady' | 'grows'
  /** Deliveries a second; negative while depth falls. */
  readonly perSecond: number
  readonly emptyInMs: number | null
  readonly sentence: string
}

export function trendOf(before: WaitingCount, after: WaitingCount): Trend {
  const rate = ((after.waiting - before.waiting) * 1000) / Math.max(1, after.at - before.at)
  const waits = count(after.waiting, 'delivery waits', 'deliveries wait')
  if (after.waiting === 0) return { direction: 'empty', perSecond: rate, emptyInMs: 0, sentence: 'No deliveries wait.' }
  if (after.waiting === before.waiting) {
    return { direction: 'steady', perSecond: 0, emptyInMs: null, sentence: `${waits}: depth stays the same.` }
  }
  if (rate > 0) {
    const sentence = `${waits}: depth grows by ${perSecond(rate)}.`
    return { direction: 'grows', perSecond: rate, emptyInMs: null, sentence }
  }
  const emptyInMs = (after.waiting / -rate) * 1000
  const sentence = `${waits}: depth falls by ${perSecond(-rate)}, empty in about ${span(emptyInMs)}.`
  return { direction: 'falls', perSecond: rate, emptyInMs, sentence }
}
