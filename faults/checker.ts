import { mostOpen, worstExcess } from '../test/e2e/oracles.ts'
import type { Arrived, Endpoint, Fault, Histories, Published } from './histories.ts'

/** The promises of docs/guarantees.md that a history can break. */
export const rules = {
  lost: 'an accepted message arrived at each of its endpoints and was answered 2xx',
  invented: 'what arrived was published, byte for byte, under one id, and was not refused',
  ended: 'each delivery ended once, and its record says so',
  unsent: 'what the record calls delivered arrived',
  repeated: 'what was answered 2xx arrived again only where a fault met its attempt',
  disordered: 'a message of an ordered lane came after the last arrival of each one that was accepted before it',
  flooded: 'at most burst + rate × w arrivals came in any w seconds',
  crowded: 'at most `concurrency` requests were open at once',
  hurried: 'nothing came before Retry-After was over',
  forked: 'nothing was written to a former primary that came back',
  late: 'the server that was promoted took publishes within 5 s',
} as const

export type Rule = keyof typeof rules

export interface Violation {
  readonly rule: Rule
  readonly sentence: string
}

/**
 * Every violation in the histories. This file knows nothing of the server: it reads what producers were answered, what
 * receivers got, and what the public API says.
 */
export function check(histories: Histories): Violation[] {
  const facts = factsOf(histories)
  return [
    ...lost(facts),
    ...invented(facts),
    ...ended(facts),
    ...repeated(facts),
    ...disordered(facts),
    ...flooded(facts),
    ...crowded(facts),
    ...hurried(facts),
    ...forked(facts),
    ...late(facts),
  ]
}

interface Facts extends Histories {
  readonly byNumber: ReadonlyMap<number, Published>
  /** Arrivals by `path n`, in the order in which they were read. */
  readonly deliveries: ReadonlyMap<string, readonly Arrived[]>
}

function factsOf(histories: Histories): Facts {
  const arrived = histories.arrived.toSorted((a, b) => a.at - b.at)
  return {
    ...histories,
    arrived,
    byNumber: new Map(histories.published.map((each) => [each.n, each])),
    deliveries: Map.groupBy(arrived, (each) => `${each.path} ${numberOf(each.body)}`),
  }
}

/** Which message a body is. */
function numberOf(body: string): number {
  return Number(/"n":(\d+)/.exec(body)?.[1] ?? -1)
}

const succeeded = ({ status, end }: Arrived) => end === 'answered' && status !== null && status < 300

function lost({ published, endpoints, deliveries }: Facts): Violation[] {
  return expected(published, endpoints)
    .filter(({ n, path }) => !(deliveries.get(`${path} ${n}`) ?? []).some(succeeded))
    .map(({ n, path, id }) => violation('lost', `message ${n} (${id}) was accepted and did not arrive at ${path}`))
}

function expected(published: readonly Published[], endpoints: readonly Endpoint[]) {
  return published
    .filter(({ outcome }) => outcome === 'accepted')
    .flatMap(({ n, id, app }) => endpoints.filter((each) => each.app === app).map(({ path }) => ({ n, id, path })))
}

function invented({ arrived, byNumber, endpoints }: Facts): Violation[] {
  const apps = new Map(endpoints.map(({ path, app }) => [path, app]))
  const ids = new Map<number, string>()
  return arrived.flatMap(({ path, body, id }) => {
    const n = numberOf(body)
    const published = byNumber.get(n)
    const known = ids.get(n) ?? (published?.outcome === 'accepted' ? published.id : id)
    ids.set(n, known)
    const broken =
      published === undefined
        ? `${body} was never published`
        : published.body !== body
          ? `message ${n} arrived as ${body}`
          : published.app !== apps.get(path)
            ? `message ${n} of ${published.app} arrived at ${path}`
            : published.outcome === 'unsent' || (published.outcome === 'refused' && published.status < 500)
              ? `message ${n} was refused (${published.status}) and arrived`
              : known !== id
                ? `message ${n} arrived as ${known} and as ${id}`
                : undefined
    return broken === undefined ? [] : [violation('invented', broken)]
  })
}

function ended({ published, endpoints, sent, states, deliveries }: Facts): Violation[] {
  const delivered = new Map<string, number>()
  for (const { path, id, code } of sent) {
    if (code === 'delivered') delivered.set(`${path} ${id}`, (delivered.get(`${path} ${id}`) ?? 0) + 1)
  }
  const stated = Map.groupBy(states, ({ path, id }) => `${path} ${id}`)
  const violations: Violation[] = []
  for (const { path, id, n } of expected(published, endpoints)) {
    const said = (stated.get(`${path} ${id}`) ?? []).map(({ state }) => state)
    if (said.length !== 1 || said[0] !== 'success') {
      violations.push(
        violation('ended', `message ${n} (${id}) at ${path} is on record as ${said.join(', ') || 'nothing'}`),
      )
    }
  }
  const arrivals = new Map([...deliveries.values()].map((list) => [`${list[0]?.path} ${list[0]?.id}`, list]))
  for (const [delivery, count] of delivered) {
    if (count > 1) violations.push(violation('ended', `${delivery} is on record as delivered ${count} times`))
    if (!arrivals.get(delivery)?.some(succeeded)) {
      violations.push(violation('unsent', `${delivery} is on record as delivered and did not arrive`))
    }
  }
  return violations
}

/** The faults that may have kept the answer to this request from being recorded for good. */
function faultsAround(faults: readonly Fault[], { at, endedAt }: Arrived): Fault[] {
  return faults.filter(
    ({ from, until, unrecordedMs }) => at <= until && (endedAt === null || endedAt >= from - unrecordedMs),
  )
}

function repeated({ deliveries, faults }: Facts): Violation[] {
  return [...deliveries].flatMap(([delivery, arrivals]) => {
    const open = arrivals.filter(
      (each, i) => i < arrivals.length - 1 && (succeeded(each) || isOpenAt(each, arrivals[i + 1] as Arrived)),
    )
    const unexcused = open.filter((each) => faultsAround(faults, each).length === 0)
    return unexcused.map(({ at, endedAt, status }) =>
      violation(
        'repeated',
        `${delivery} arrived again though the attempt of ${Math.round(at)} was ` +
          (endedAt === null ? 'open' : `answered ${status} at ${Math.round(endedAt)}, before any fault`),
      ),
    )
  })
}

const isOpenAt = (each: Arrived, next: Arrived) => each.endedAt === null || each.endedAt > next.at

/** In a lane with an order, `b` is behind `a` where `a` was accepted before `b` was asked. */
function disordered({ published, endpoints, deliveries }: Facts): Violation[] {
  return endpoints.flatMap(({ app, path, order }) => {
    if (order === undefined) return []
    const mine = published.filter((each) => each.app === app && (order === 'fifo' || each.orderingKey !== null))
    const lanes = Map.groupBy(mine, ({ orderingKey }) => (order === 'fifo' ? '' : orderingKey))
    return [...lanes.values()].flatMap((lane) => disorderedIn(lane, path, deliveries))
  })
}

function disorderedIn(lane: readonly Published[], path: string, deliveries: Facts['deliveries']): Violation[] {
  const arrivalsOf = ({ n }: Published) => deliveries.get(`${path} ${n}`) ?? []
  const front = lane.filter(({ outcome }) => outcome === 'accepted').sort((a, b) => a.knownAt - b.knownAt)
  const violations: Violation[] = []
  let next = 0
  /** The accepted message whose last arrival came latest, of those accepted before the one that is looked at. */
  let latest: { readonly n: number; readonly notBefore: number } | undefined
  for (const later of lane.toSorted((a, b) => a.askedAt - b.askedAt)) {
    for (; next < front.length && (front[next] as Published).knownAt < later.askedAt; next++) {
      const { n } = front[next] as Published
      const last = arrivalsOf(front[next] as Published).at(-1)
      if (last !== undefined && last.notBefore > (latest?.notBefore ?? 0)) latest = { n, notBefore: last.notBefore }
    }
    const first = arrivalsOf(later)[0]
    if (first === undefined || latest === undefined || first.at >= latest.notBefore || latest.n === later.n) continue
    violations.push(
      violation(
        'disordered',
        `message ${later.n} arrived at ${path} before message ${latest.n} came for the last time`,
      ),
    )
  }
  return violations
}

function flooded({ endpoints, arrived }: Facts): Violation[] {
  return endpoints.flatMap(({ path, rate, burst }) => {
    if (rate === undefined || burst === undefined) return []
    const excess = worstExcess(
      arrived.filter((each) => each.path === path),
      { rate, burst },
    )
    return excess <= 0
      ? []
      : [violation('flooded', `${path} got ${excess.toFixed(2)} more than ${burst} + ${rate} × w`)]
  })
}

function crowded({ endpoints, arrived, faults }: Facts): Violation[] {
  const frozen = faults.filter(({ leavesOpen }) => leavesOpen)
  return endpoints.flatMap(({ path, concurrency }) => {
    if (concurrency === undefined) return []
    const counted = arrived.filter((each) => each.path === path && faultsAround(frozen, each).length === 0)
    const open = mostOpen(counted.map(({ at, endedAt }) => ({ at, endedAt: endedAt ?? undefined })))
    return open <= concurrency ? [] : [violation('crowded', `${open} requests were open at ${path}`)]
  })
}

function hurried({ endpoints, arrived, faults }: Facts): Violation[] {
  return endpoints.flatMap(({ path, holds }) => {
    if (holds === undefined) return []
    const here = arrived.filter((each) => each.path === path)
    return here.flatMap((refusal, i) => {
      const { endedAt, retryAfterMs } = refusal
      if (endedAt === null || retryAfterMs === null || faultsAround(faults, refusal).length > 0) return []
      if (faults.some((each) => each.movesHolds && each.from < endedAt + retryAfterMs && endedAt < each.until))
        return []
      const next = here.slice(i + 1).find(({ at }) => at > endedAt)
      if (next === undefined || next.at >= endedAt + retryAfterMs) return []
      const early = Math.round(endedAt + retryAfterMs - next.at)
      return [violation('hurried', `${path} asked for ${retryAfterMs} ms and got the next request ${early} ms early`)]
    })
  })
}

function forked({ faults }: Facts): Violation[] {
  const written = faults.filter(({ did }) => (did.writesToFormer ?? 0) > 0)
  return written.map(({ did }) => violation('forked', `${did.writesToFormer} transactions were at the former primary`))
}

/** The aim is 2 s; the rest is for a machine that other programs use, too. */
const lateMs = 5000

/** How long after each promotion the first publish was accepted. */
export function returns({ faults, published }: Pick<Histories, 'faults' | 'published'>): number[] {
  return faults.flatMap(({ gone, promoted }) => {
    if (gone === undefined || promoted === undefined) return []
    const accepted = published.filter(({ outcome, askedAt }) => outcome === 'accepted' && askedAt > gone)
    const first = accepted.reduce((least, { knownAt }) => Math.min(least, knownAt), Number.POSITIVE_INFINITY)
    return [Math.max(0, Math.round(first - promoted))]
  })
}

function late(facts: Facts): Violation[] {
  const slow = returns(facts).filter((ms) => ms > lateMs)
  const span = (ms: number) => (ms === Number.POSITIVE_INFINITY ? 'any time' : `${ms} ms`)
  return slow.map((ms) => violation('late', `no publish was accepted within ${span(ms)} of a promotion`))
}

function violation(rule: Rule, sentence: string): Violation {
  return { rule, sentence }
}
