import { type Rule, returns } from './checker.ts'
import type { Arrived, Histories } from './histories.ts'
import type { Outcome } from './run.ts'

/** One line of the table: every world of one kind of fault on one store. */
export interface Row {
  readonly fault: string
  readonly store: string
  readonly rounds: number
  readonly seeds: readonly number[]
  readonly accepted: number
  readonly inDoubt: number
  readonly arrived: number
  readonly repeats: number
  readonly lost: number
  readonly violations: readonly string[]
  readonly did: Readonly<Record<string, number>>
  /** How long after each promotion a publish was accepted. */
  readonly returns: readonly number[]
}

/** Adds up the worlds of one row. */
export function rowOf(fault: string, store: string, outcomes: readonly Outcome[]): Row {
  const all = outcomes.map(({ histories }) => histories)
  const sum = (count: (histories: Histories) => number) => all.reduce((total, each) => total + count(each), 0)
  const did: Record<string, number> = {}
  for (const { faults } of all)
    for (const each of faults) {
      for (const [name, count] of Object.entries(each.did)) did[name] = (did[name] ?? 0) + count
    }
  return {
    fault,
    store,
    rounds: sum(({ faults }) => faults.length),
    seeds: outcomes.map(({ plan }) => plan.seed),
    accepted: sum(({ published }) => published.filter(({ outcome }) => outcome === 'accepted').length),
    inDoubt: sum(
      ({ published }) => published.filter(({ outcome, status }) => outcome === 'unknown' || status >= 500).length,
    ),
    arrived: sum(({ arrived }) => arrived.length),
    repeats: sum(({ arrived }) => repeatsOf(arrived)),
    lost: outcomes.reduce((total, each) => total + countOf(each, 'lost'), 0),
    violations: outcomes.flatMap(describe),
    did,
    returns: all.flatMap((each) => returns(each)),
  }
}

const countOf = ({ violations }: Outcome, rule: Rule) => violations.filter((each) => each.rule === rule).length

/** What is wrong with a world, by rule, with its seed. */
export function describe({ plan, violations, stuck }: Outcome): string[] {
  const byRule = Map.groupBy(violations, ({ rule }) => rule)
  return [
    ...[...byRule].map(([rule, list]) => `${rule} ${list.length} (seed ${plan.seed})`),
    ...stuck.map(() => `stuck (seed ${plan.seed})`),
  ]
}

/** Arrivals of what had been answered 2xx before. */
function repeatsOf(arrived: readonly Arrived[]): number {
  const done = new Set<string>()
  let repeats = 0
  for (const { path, id, status } of arrived.toSorted((a, b) => a.at - b.at)) {
    if (done.has(`${path} ${id}`)) repeats++
    if (status !== null && status < 300) done.add(`${path} ${id}`)
  }
  return repeats
}

const wordsOf: Readonly<Record<string, string>> = {
  unsyncedWrites: 'unsynced writes',
  lostWrites: 'of them lost or torn',
  earlierCuts: 'disks of earlier instants',
  syncsFailed: 'failed syncs',
  writesFailed: 'failed writes',
  startedAgain: 'times started again by hand',
  jumpsBack: 'jumps back',
  jumpsAhead: 'jumps ahead',
  writesToFormer: 'writes to the former primary',
  serversFailed: 'servers failed',
  machinesFailed: 'machines failed',
  promotions: 'promotions',
}

/** The rows in Markdown. */
export function renderRows(rows: readonly Row[]): string {
  const lines = rows.map((row) => [
    row.fault,
    row.store,
    String(row.rounds),
    spanOf(row.seeds),
    number(row.accepted),
    number(row.inDoubt),
    number(row.arrived),
    number(row.repeats),
    number(row.lost),
    row.violations.join('; ') || '0',
    doneIn(row),
  ])
  const head = [
    'fault',
    'store',
    'rounds',
    'seeds',
    'accepted',
    'in doubt',
    'arrived',
    'repeats',
    'lost',
    'violations',
    'done',
  ]
  const rule = head.map((_, i) => (i >= 2 && i <= 8 && i !== 3 ? '--:' : '---'))
  return [head, rule, ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

function doneIn({ did, returns }: Row): string {
  const counts = Object.entries(did).map(([name, count]) => `${number(count)} ${wordsOf[name] ?? name}`)
  if (returns.length > 0)
    counts.push(`accepted again ${spanOf(returns.toSorted((a, b) => a - b))} ms after the promotion`)
  return counts.join(', ')
}

/** A planted fault, and what it took to find it. */
export interface Found {
  readonly name: string
  readonly store: string
  readonly during: string
  /** The round in which the checker found it; undefined when it did not. */
  readonly round: number | undefined
  readonly by: readonly string[]
}

export function renderFound(found: readonly Found[]): string {
  const lines = found.map(({ name, store, during, round, by }) => [
    name,
    store,
    during,
    round === undefined ? 'not found' : `round ${round}`,
    by.join('; '),
  ])
  const head = ['planted', 'store', 'during', 'found in', 'by']
  return [head, head.map(() => '---'), ...lines].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

const number = (count: number) => count.toLocaleString('en')

function spanOf(seeds: readonly number[]): string {
  const [first = 0] = seeds
  const last = seeds.at(-1) ?? first
  return first === last ? String(first) : `${first}–${last}`
}
