import { Type } from 'typebox'
import { conditions } from '../../domain/condition.ts'
import { type Forecast, forecastKinds } from '../../domain/forecast.ts'
import type { QueueFigures, QueueTotals } from '../../domain/queue-figures.ts'
import type { FlowRate } from '../../domain/queue-flow.ts'
import { described, flag, Instant, instant, iso, isoOrNull, nullable, text, whole } from '../../operations/fields.ts'
import type { Out } from '../../operations/route.ts'

const isExact = flag('Whether every delivery was counted; otherwise the figures are about right.')

const Rate = Type.Object({
  recent: Type.Number({ description: 'Per second, over the last ten to twenty seconds.' }),
  lasting: Type.Number({ description: 'Per second, over the last minutes, five at most.' }),
})

const flows = {
  arrivals: described(Rate, 'Deliveries that began to wait.'),
  departures: described(Rate, 'Deliveries that ended.'),
}

/** The waiting deliveries of an endpoint. */
export const Waiting = Type.Object({
  fresh: Type.Integer(),
  timed: whole('Retries, and messages published for later'),
  replay: Type.Integer(),
  total: Type.Integer(),
  isExact,
  ...flows,
  asOf: Instant,
})

/** All waiting deliveries, of an application or of all. */
export const WaitingTotals = Type.Object({
  total: whole('Waiting deliveries.'),
  endpoints: whole('Endpoints with waiting deliveries.'),
  isExact,
  ...flows,
  asOf: Instant,
})

/** The forecast for a delivery, or for a queue. */
export const ForecastOut = Type.Object({
  kind: Type.Enum([...forecastKinds], {
    description:
      '`at`: its turn comes then; `drains`: the queue is empty then; `growing`: more arrives than leaves, so that there is no date; `steady`: as much arrives as leaves; `needs_operator`; `if_probe_succeeds`: then, if the next probe of the circuit succeeds; `unknown`: no pace is known yet',
  }),
  at: nullable(instant('The time; of a range, its begin.')),
  latest: nullable(instant('End of a range; the same as `at` without a range, null when no end can be told.')),
  perSecond: nullable(Type.Number({ description: 'Pace of the queue, or by how much it grows.' })),
  sentence: text('The same as a sentence.'),
})

export const condition = Type.Enum([...conditions], {
  description:
    'The state of the queue in one word: `keeping_up`; `catching_up`: a backlog shrinks or stays; `falling_behind`: it grows; `blocked`: nothing goes out, and that ends by itself; `stopped`: until an operator acts.',
})

export function toForecastOut({ kind, at, latest, perSecond, sentence }: Forecast): Out<typeof ForecastOut> {
  return { kind, at: isoOrNull(at), latest: isoOrNull(latest), perSecond: perSecond && rounded(perSecond), sentence }
}

export function toWaitingOut({ waiting, byClass, isExact, asOf, arrivals, departures }: QueueFigures) {
  const [fresh, timed, replay] = byClass
  const rates = { arrivals: toRateOut(arrivals), departures: toRateOut(departures) }
  return { fresh, timed, replay, total: waiting, isExact, ...rates, asOf: iso(asOf) } satisfies Out<typeof Waiting>
}

export function toTotalsOut({ waiting, endpoints, isExact, asOf, arrivals, departures }: QueueTotals) {
  const rates = { arrivals: toRateOut(arrivals), departures: toRateOut(departures) }
  return { total: waiting, endpoints, isExact, ...rates, asOf: iso(asOf) } satisfies Out<typeof WaitingTotals>
}

function toRateOut({ recent, lasting }: FlowRate): FlowRate {
  return { recent: rounded(recent), lasting: rounded(lasting) }
}

/** A rate to a hundredth. */
function rounded(rate: number): number {
  return Math.round(rate * 100) / 100
}
