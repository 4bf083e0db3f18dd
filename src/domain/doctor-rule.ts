import type { DoctorFacts, DoctorLimits, EndpointFacts } from './doctor-facts.ts'
import { count } from './phrases.ts'

/** `warning`: something will go wrong, or goes wrong for one receiver; `critical`: deliveries stand still or may be lost. */
export type Severity = 'warning' | 'critical'

/** One thing that is wrong, with its figures and the command that helps. */
export interface Finding {
  readonly code: string
  readonly severity: Severity
  /** One sentence or two, shown to operators. */
  readonly sentence: string
  readonly evidence: Evidence
  /** The command that helps, or the one that shows more. */
  readonly command: string
  /** The application and endpoint, by uid or id; null for a finding about the whole system. */
  readonly app: string | null
  readonly endpoint: string | null
}

export type Evidence = Readonly<Record<string, number | string | boolean | null>>

/** A finding with the code and severity of its rule. */
export type Found = Omit<Finding, 'code' | 'severity' | 'app' | 'endpoint'> &
  Partial<Pick<Finding, 'severity' | 'app' | 'endpoint'>>

/** One entry of the table of rules. docs/doctor.md is made from it. */
export interface Rule {
  readonly code: string
  /** Of most findings; a finding may be more severe. */
  readonly severity: Severity
  /** When a finding is critical though most are warnings, for the docs. */
  readonly criticalWhen?: string
  /** The trouble, for the docs. */
  readonly meaning: string
  /** The remedy, for the docs. */
  readonly remedy: string
  readonly find: (facts: DoctorFacts, limits: DoctorLimits, known: Known) => readonly Found[]
}

/** The findings so far, as far as later rules need to know them. */
export interface Known {
  /** Endpoints whose waiting deliveries are explained: each has one cause. */
  readonly explained: Set<EndpointFacts>
  /** Whether a cause was found that makes every endpoint wait. */
  allExplained: boolean
}

/** An entry whose findings are about endpoints, and explain why their deliveries wait. */
export function endpointRule(
  entry: Omit<Rule, 'find'> & {
    readonly when: (endpoint: EndpointFacts, limits: DoctorLimits, facts: DoctorFacts) => boolean
    readonly say: (endpoint: EndpointFacts, facts: DoctorFacts) => Omit<Found, 'app' | 'endpoint'>
  },
): Rule {
  const { when, say, ...rest } = entry
  return {
    ...rest,
    find(facts, limits, { explained }) {
      const met = facts.endpoints.filter((each) => !explained.has(each) && when(each, limits, facts))
      return met.map((each) => {
        explained.add(each)
        const { sentence, evidence, ...others } = say(each, facts)
        const figures = { waiting: each.waiting, oldestDueMs: Math.round(each.oldestDueMs), ...evidence }
        return { sentence, evidence: figures, ...others, app: each.app, endpoint: each.endpoint }
      })
    },
  }
}

/** The operands of commands about an endpoint. */
export function operands({ app, endpoint }: Pick<EndpointFacts, 'app' | 'endpoint'>): string {
  return `${app} ${endpoint}`
}

/** The endpoint's name in a sentence. */
export function nameOf({ app, endpoint }: Pick<EndpointFacts, 'app' | 'endpoint'>): string {
  return `${endpoint} of ${app}`
}

/** A size in the unit that reads best: `412 MiB`, `1.5 GiB`. */
export function bytesText(bytes: number): string {
  const mib = bytes / 2 ** 20
  if (mib >= 1024) return `${Number((mib / 1024).toPrecision(3))} GiB`
  return mib >= 1 ? `${Math.round(mib)} MiB` : `${Math.round(bytes / 1024)} KiB`
}

/** A share as a whole percentage. */
export function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}

/** Room above the figure that Little's law gives, so that a queue also shrinks. */
export const headroom = 1.2

/** Attempts that must be under way at once, by Little's law: arrival rate × time of an attempt. */
export function neededSlots({ arrivalRate, recent }: EndpointFacts): number {
  return ((arrivalRate ?? 0) * recent.meanMs) / 1000
}

/** Whether its deliveries have been due for too long. */
export function isBehind({ oldestDueMs }: EndpointFacts, { behindMs }: DoctorLimits): boolean {
  return oldestDueMs >= behindMs
}

/** How many deliveries wait for the endpoint, as a sentence. */
export function waitFor(endpoint: EndpointFacts): string {
  const { waiting, isExact } = endpoint
  const atLeast = isExact ? '' : 'At least '
  return `${atLeast}${count(waiting, 'delivery waits', 'deliveries wait')} for ${nameOf(endpoint)}.`
}

/** A figure to three digits. */
export function rounded(figure: number): number {
  return Number(figure.toPrecision(3))
}
