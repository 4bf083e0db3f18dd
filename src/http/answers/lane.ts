import { Type } from 'typebox'
import { nullable } from '../schemas/field.ts'
import { EndpointOut } from './endpoint.ts'
import { Instant, MaybeInstant } from './field.ts'

/** How many wait, by class. */
export const Waiting = Type.Object({
  fresh: Type.Integer(),
  timed: Type.Integer({ description: 'Retries, and messages published for later' }),
  replay: Type.Integer(),
  total: Type.Integer(),
  isExact: Type.Boolean({ description: 'Each is counted up to a limit, so that asking costs little' }),
})

const Slots = Type.Object({ inFlight: Type.Integer(), limit: Type.Integer() })

/** A lane in its owner's own words, just now. */
const LiveLane = Type.Object(
  {
    inFlight: Type.Integer({ description: 'Attempts under way' }),
    concurrency: Type.Integer({ description: 'How many may be' }),
    queued: Type.Integer({ description: 'Read from the store and not begun' }),
    recording: Type.Integer({ description: 'Ended and not recorded yet, 64 at most' }),
    nextTokenAt: nullable(
      Type.String({ format: 'date-time', description: 'When the rate limit lets the next one go; null for now' }),
    ),
    rate: nullable(Type.Number({ description: 'What the rate limit lets through, a second' })),
    pace: nullable(Type.Number({ description: 'Attempts that ended, a second, of late' })),
    crowded: nullable(
      Type.String({
        description:
          'Which slots it waits for: `process`, all are taken; `application`, its own has all it may; `share`, the rest is left for others',
      }),
    ),
    application: Slots,
    process: Slots,
    standstill: nullable(
      Type.String({ description: 'Why its worker starts nothing at all: `store`, `recording` or `lease`' }),
    ),
    asOf: Instant,
  },
  { description: 'What the worker that has the lane says, asked just now; null when nobody has it or none answers' },
)

/** What is stored of an endpoint's lane, and what its owner says of it. */
export const LaneOut = Type.Object({
  endpointId: Type.String(),
  disabled: EndpointOut.properties.disabled,
  disabledReason: EndpointOut.properties.disabledReason,
  paused: EndpointOut.properties.paused,
  owner: nullable(
    Type.Object(
      { worker: Type.Integer(), description: Type.String(), leaseUntil: Instant },
      { description: 'The worker that delivers it now' },
    ),
  ),
  circuit: Type.Object({
    state: Type.Enum(['closed', 'open', 'half_open']),
    openUntil: nullable(
      Type.String({ format: 'date-time', description: 'When a probe is sent; null when it is not open, or by hand' }),
    ),
    manual: Type.Boolean({ description: 'An operator opened it: it stays so until one closes it' }),
    openings: Type.Integer({ description: 'How often it opened since it was last well' }),
    failures: Type.Integer({ description: 'Failed attempts in a row, as far as they are stored' }),
  }),
  failingSince: nullable(
    Type.String({
      format: 'date-time',
      description: 'Since when it has failed without one success, as far as is stored',
    }),
  ),
  slowedTo: nullable(Type.Number({ description: 'What it gets a second, while that climbs back to the usual' })),
  workersAlive: Type.Integer(),
  waiting: Waiting,
  oldestSince: MaybeInstant,
  live: nullable(LiveLane),
  dueAt: MaybeInstant,
  heldUntil: nullable(Type.String({ format: 'date-time', description: 'The receiver asked for silence until then' })),
  rateLimitedUntil: MaybeInstant,
  bucketFullAt: MaybeInstant,
  nextTimedAt: MaybeInstant,
  limits: Type.Object({
    throttleRate: EndpointOut.properties.throttleRate,
    throttlePeriodSeconds: EndpointOut.properties.throttlePeriodSeconds,
    burst: EndpointOut.properties.burst,
    concurrency: EndpointOut.properties.concurrency,
  }),
  asOf: Instant,
})

/** What was ordered of a delivery that keeps others back. */
export const HeadOut = Type.Object({
  endpointId: Type.String(),
  messageId: nullable(Type.String({ description: 'Null when the message is no longer there' })),
  order: Type.Enum(['retry', 'skip']),
})
