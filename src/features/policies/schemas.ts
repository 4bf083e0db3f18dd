import { type Static, type TSchema, Type } from 'typebox'
import { type CircuitPolicy, type Coalesce, pseudonymForms, type Shape } from '../../domain/flow.ts'
import { defaultCircuitPolicy } from '../../domain/health.ts'
import { defaultJitterMs, defaultRetryPolicy, jitters, type RetryPolicy, retryAfterRules } from '../../domain/retry.ts'
import {
  closed,
  described,
  innerPointerPattern,
  integer,
  maybe,
  optional,
  pointerPattern,
} from '../../operations/fields.ts'
import { AuthIn, ClientCertificateIn, toAuth, toCertificates } from '../credentials/schemas.ts'
import type { ObjectName } from '../endpoints/noun.ts'

const hour = 3_600_000
const day = 24 * hour

/** When a failed delivery is tried again: waits written out, or growing up to a cap. */
const RetryIn = Type.Object(
  {
    waits: Type.Union(
      [
        Type.Object(
          {
            kind: Type.Literal('list', { description: 'Form of the waits.' }),
            ms: Type.Array(integer(0, 7 * day), {
              maxItems: 100,
              description: 'Wait after each failed attempt; after the last one the delivery is dead.',
            }),
          },
          closed,
        ),
        Type.Object(
          {
            kind: Type.Literal('exponential', { description: 'Form of the waits.' }),
            baseMs: described(integer(1, day), 'First wait.'),
            factor: described(
              Type.Number({ minimum: 1, maximum: 100 }),
              'How much longer each wait is than the one before.',
            ),
            capMs: described(
              integer(1, 7 * day),
              "Longest wait; only a Retry-After or the server's least wait may be longer.",
            ),
            maxAttempts: described(integer(1, 100), 'Attempts in all.'),
          },
          closed,
        ),
      ],
      { description: 'Waits between attempts: a list, or growing up to a cap.' },
    ),
    jitter: optional(
      Type.Enum([...jitters]),
      'Random wait, for a wait of w: `none` w, `equal` (default) from w/2 to w, `full` from 0 to w, `decorrelated` from the first wait to three times the wait before, up to the longest; `added` from w to w + `jitterMs`.',
    ),
    jitterMs: maybe(
      integer(1, hour),
      'The most that `added` adds to a wait: 30 seconds by default. Only with `added`.',
    ),
    maxAgeMs: optional(integer(1, 30 * day), 'No attempt begins after this time.'),
    retryAfter: optional(
      Type.Enum([...retryAfterRules]),
      'Wait after an answer with Retry-After: `receiver` (default) exactly that long, `later` until the later of it and the wait of this policy.',
    ),
  },
  closed,
)

/** The policy, without other fields that the caller may have sent. */
function toRetryPolicy({ waits, jitter, jitterMs, maxAgeMs, retryAfter }: Static<typeof RetryIn>): RetryPolicy {
  return {
    waits: toWaits(waits),
    jitter: jitter ?? defaultRetryPolicy.jitter,
    jitterMs: jitterMs ?? (jitter === 'added' ? defaultJitterMs : null),
    maxAgeMs: maxAgeMs ?? defaultRetryPolicy.maxAgeMs,
    retryAfter: retryAfter ?? 'receiver',
  }
}

function toWaits(waits: Static<typeof RetryIn>['waits']): RetryPolicy['waits'] {
  if (waits.kind === 'list') return { kind: 'list', ms: waits.ms }
  const { kind, baseMs, factor, capMs, maxAttempts } = waits
  return { kind, baseMs, factor, capMs, maxAttempts }
}

/** When the circuit opens and how it closes again. Absent fields have their defaults. */
const CircuitIn = Type.Object(
  {
    failures: optional(integer(1, 1_000_000), 'Opens after this many failed attempts in a row; 20 by default.'),
    ratio: optional(
      Type.Number({ minimum: 0.01, maximum: 1 }),
      "Opens when this share of a window's attempts failed; 0.6 by default.",
    ),
    windowMs: optional(integer(1000, day), 'Length of that window; a minute by default.'),
    minimum: optional(
      integer(1, 1_000_000),
      'Attempts that a window must have before its share counts; 50 by default.',
    ),
    openMs: optional(
      integer(100, day),
      'Time that the circuit stays open, doubled each time a probe fails; 10 seconds by default.',
    ),
    maxOpenMs: optional(integer(100, day), 'Longest time that the circuit stays open; 10 minutes by default.'),
    rampMs: optional(
      integer(0, day),
      'Time in which the rate returns to normal after the circuit closed; 30 seconds by default.',
    ),
  },
  closed,
)

/** The policy, without other fields that the caller may have sent. */
function toCircuitPolicy(input: 'off' | Static<typeof CircuitIn>): CircuitPolicy | 'off' {
  if (input === 'off') return 'off'
  const { failures, ratio, windowMs, minimum, openMs, maxOpenMs, rampMs } = { ...defaultCircuitPolicy, ...input }
  return { failures, ratio, windowMs, minimum, openMs, maxOpenMs: Math.max(openMs, maxOpenMs), rampMs }
}

/** Deliveries of one event type with the same value at `key` become one. Shorter windows could take nothing in. */
const CoalesceIn = Type.Object(
  {
    windowMs: described(
      integer(2000, day),
      'Time that the first delivery of a kind waits; each later one replaces it.',
    ),
    key: maybe(
      Type.String({ maxLength: 512, pattern: pointerPattern }),
      'JSON pointer into the payload: deliveries with the same value there are one kind. Null: one kind for each event type.',
    ),
  },
  closed,
)

function toCoalesce({ windowMs, key }: Static<typeof CoalesceIn>): Coalesce {
  return { windowMs, key: key ?? null }
}

const shapedLimit = 100
const pointer = Type.String({ maxLength: 512, pattern: innerPointerPattern })
const pointers = (description: string, minItems = 0) =>
  Type.Array(pointer, { minItems, maxItems: shapedLimit, uniqueItems: true, description })

const ShapeIn = Type.Object(
  {
    keep: maybe(pointers('JSON pointers: only these fields. Null: all. A `*` stands for every element of an array', 1)),
    drop: Type.Optional(pointers('JSON pointers: not these fields')),
    rename: optional(
      Type.Record(pointer, Type.String({ minLength: 1, maxLength: 256 }), { maxProperties: shapedLimit }),
      'New names of fields, by JSON pointer to the old ones',
    ),
    pseudonymize: Type.Optional(
      pointers("JSON pointers: fields to be replaced by a pseudonym made with the region's secret"),
    ),
    pseudonymForm: optional(
      Type.Enum([...pseudonymForms]),
      'Pseudonyms of another form for each endpoint (`endpoint`, the default), or HMAC-SHA256 in hexadecimal, keyed by the secret of the region alone (`hmac-hex`): the same for all endpoints of the region.',
    ),
  },
  closed,
)

/** A shape that changes nothing is stored as null. */
function toShape({ keep, drop, rename, pseudonymize, pseudonymForm }: Static<typeof ShapeIn>): Shape | null {
  const shape = {
    keep: keep ?? null,
    drop: drop ?? [],
    rename: rename ?? {},
    pseudonymize: pseudonymize ?? [],
    pseudonymForm: pseudonymForm ?? 'endpoint',
  }
  const isEmpty = shape.drop.length + shape.pseudonymize.length + Object.keys(shape.rename).length === 0
  return shape.keep === null && isEmpty ? null : shape
}

/** The fields of an endpoint that are objects of their own: the schema in a request, and how the domain reads it. */
export const policies = {
  retry: { schema: RetryIn, read: toRetryPolicy },
  circuit: { schema: Type.Union([Type.Literal('off'), CircuitIn]), read: toCircuitPolicy },
  coalesce: { schema: CoalesceIn, read: toCoalesce },
  shape: { schema: ShapeIn, read: toShape },
  auth: { schema: AuthIn, read: toAuth },
  clientCertificate: { schema: ClientCertificateIn, read: toCertificates },
} satisfies Record<ObjectName, { readonly schema: TSchema; readonly read: (value: never) => unknown }>
