import { hash } from 'node:crypto'
import type { Coalesce, Flow } from '../domain/flow.ts'
import type { DeadReason } from '../domain/judge.ts'
import type { Subscription, Treatment } from '../domain/match.ts'
import type { Sliced } from '../domain/turns.ts'
import { Outline, quote } from '../json/outline.ts'
import { valueAt } from '../json/pointer.ts'
import { textOf } from '../json/token.ts'
import { type Filter, type Filterable, filterStepsLimit, readFilter } from '../shaping/filter.ts'
import { type BoundedShaper, boundedShaper, mostFormBytes, pseudonymizer } from '../shaping/shape.ts'
import type { Publication, Special, Variant } from '../store/store.ts'
import { type BodySigner, bodySigner } from '../wire/profile.ts'
import type { Work } from './preparer.ts'
import { digest, type Envelope } from './publication.ts'

/** The endpoints with a filter, shape or other treatment, by key, compiled for use. */
export type Treatments = ReadonlyMap<number, Compiled>

interface Compiled extends Treatment {
  readonly filter: Filter | null
  readonly shaping: Shaping | null
  /** Signs for the profile whose signature is stored. */
  readonly sign: BodySigner | null
}

interface Shaping {
  /** Shapings with equal names give equal bytes. */
  readonly name: string
  /** Undefined when the secret for its pseudonyms is missing. */
  readonly apply: BoundedShaper | undefined
}

/** Variants of one message that are made when it is accepted; further ones are made when they are sent. */
const variantsLimit = 1000
const variantBytesLimit = 4 * 1024 * 1024
/** Bytes that are signed for one message when it is accepted. */
const signedBytesLimit = 128 * 1024 * 1024
/** Steps of about 50 ns to shape, read or sign one byte of a body. A pseudonym takes 3 µs and adds 50 bytes. */
const shapeStepsPerByte = 1
const outlineStepsPerByte = 0.2
const signStepsPerByte = 0.05

/** Compiles the treatments of the endpoints; undefined when no endpoint has any. */
export function prepareTreatments(list: readonly Subscription[]): Treatments | undefined {
  const filters = new Map<string, Filter>()
  const prepared = new Map<number, Compiled>()
  for (const { endpoint, treatment } of list) {
    if (treatment === undefined) continue
    const { flow, secret } = treatment
    let filter = flow.filter === null ? null : (filters.get(flow.filter) ?? null)
    if (flow.filter !== null && filter === null) {
      filter = readFilter(flow.filter)
      filters.set(flow.filter, filter)
    }
    const sign = flow.signature === 'stored' && secret !== null ? (bodySigner(secret) ?? null) : null
    prepared.set(endpoint, { ...treatment, filter, shaping: shapingOf(treatment), sign })
  }
  return prepared.size === 0 ? undefined : prepared
}

function shapingOf({ id, flow, regionSecret }: Treatment): Shaping | null {
  const { shape } = flow
  if (shape === null) return null
  const name = JSON.stringify(shape)
  if (shape.pseudonymize.length === 0) return { name, apply: boundedShaper(shape, null) }
  const apply =
    regionSecret === null ? undefined : boundedShaper(shape, pseudonymizer(regionSecret, id, shape.pseudonymForm))
  // Endpoints of a region whose pseudonyms do not differ by endpoint share their form of a payload.
  return { name: `${shape.pseudonymForm === 'hmac-hex' ? flow.region : id} ${name}`, apply }
}

/** The endpoints that get a message, and their special deliveries and variants. */
export type Treated = Pick<Publication, 'endpoints' | 'special' | 'variants'>

/**
 * Treats a message for each endpoint that matched it. When no work is left for a filter, the delivery becomes a dead
 * letter: the endpoint must not get an unwanted message, and no message is lost silently. A shape without work left is
 * applied when the delivery is sent. A message that names its endpoint is neither filtered nor coalesced.
 */
export function* treat(
  treatments: Treatments,
  envelope: Envelope,
  forms: Forms,
  matched: readonly number[],
): Sliced<Treated> {
  if (!matched.some((endpoint) => treatments.has(endpoint))) return { endpoints: matched }
  const passes = filtering(envelope, forms, forms.work)
  const coalesced = coalescing(envelope, forms.body)
  const isDirect = envelope.endpoint != null
  const endpoints: number[] = []
  const special: Special[] = []
  for (const endpoint of matched) {
    const treatment = treatments.get(endpoint)
    if (treatment !== undefined) yield
    const passed = treatment?.filter && !isDirect ? yield* passes(treatment.filter) : true
    if (passed === false) continue
    endpoints.push(endpoint)
    if (treatment === undefined) continue
    if (passed === 'unknown') {
      special.push({ endpoint, drop: 'unfiltered' })
      continue
    }
    const form = yield* forms.of(treatment)
    if (treatment.disabled && treatment.flow.whileDisabled === 'drop') {
      // The variant is kept for a later replay.
      special.push({ endpoint, ...form, drop: 'disabled' })
      continue
    }
    const { coalesce: policy } = treatment.flow
    const coalesce = policy === null || isDirect ? undefined : coalesced(policy)
    const orderKey = orderKeyOf(treatment.flow.order, envelope.orderingKey ?? null)
    if (coalesce === undefined && form === undefined && orderKey === undefined) continue
    special.push({ endpoint, ...(coalesce && { coalesce }), ...(orderKey !== undefined && { orderKey }), ...form })
  }
  const { variants } = forms
  return { endpoints, ...(special.length > 0 && { special }), ...(variants.length > 0 && { variants }) }
}

/** Evaluates each filter once; `unknown` when no work is left for it or for parsing the payload. */
function filtering(envelope: Envelope, forms: Forms, work: Work): (filter: Filter) => Sliced<boolean | 'unknown'> {
  const answers = new Map<Filter, boolean | 'unknown'>()
  let message: Filterable | 'unknown' | undefined
  return function* (filter) {
    let answer = answers.get(filter)
    if (answer === undefined) {
      message ??= yield* filterable(envelope, forms, work)
      const isKnown = message !== 'unknown' && work.take(stepsOf(filter, message, work))
      answer = isKnown ? filter.passes(message as Filterable) : 'unknown'
      answers.set(filter, answer)
    }
    return answer
  }
}

function* filterable(envelope: Envelope, forms: Forms, work: Work): Sliced<Filterable | 'unknown'> {
  const json = yield* forms.json()
  if (json !== undefined && (!json.isParsable || !work.take(json.parseSteps))) return 'unknown'
  const { eventType, eventId, channels, tags = null } = envelope
  const payload = json?.parse() ?? null
  // Parsing cannot be interrupted, so other work runs before the first filter.
  yield
  return { payload, eventType, eventId, channels, tags }
}

/** The steps of a filter; infinite when they are above its limit or above the work left. */
export function stepsOf(filter: Filter, message: Filterable, work: Work): number {
  const limit = Math.min(filterStepsLimit, work.left)
  const steps = filter.steps(message, limit)
  return steps > limit ? Infinity : steps
}

/** The forms of a message's body: its outline and its variants, each made once. */
export class Forms {
  readonly variants: Variant[] = []
  readonly body: Uint8Array
  readonly #shaped = new Map<string, Uint8Array | 'too large'>()
  readonly #known = new Map<string, number>()
  #json: Outline | null | undefined
  #bytes = 0
  #signedBytes = 0

  readonly work: Work

  constructor(body: Uint8Array, work: Work) {
    this.body = body
    this.work = work
  }

  /** The outline of the body, read at first use; undefined when the body is not JSON. */
  *json(): Sliced<Outline | undefined> {
    if (this.#json === undefined) {
      this.work.add(this.body.byteLength * outlineStepsPerByte)
      this.#json = (yield* Outline.of(this.body)) ?? null
    }
    return this.#json ?? undefined
  }

  /**
   * The variant for an endpoint; undefined for the plain body, or when the variant is made when it is sent. A body that
   * cannot be shaped is never sent unshaped.
   */
  *of({ id, shaping, sign }: Compiled): Sliced<{ variant: number } | { drop: DeadReason } | undefined> {
    if (shaping === null && sign === null) return undefined
    if (shaping !== null && (shaping.apply === undefined || (yield* this.json()) === undefined)) {
      return { drop: 'unshapable' }
    }
    const name = `${sign === null ? '' : id} ${shaping?.name ?? ''}`
    const known = this.#known.get(name)
    if (known !== undefined) return { variant: known }
    if (this.#isFull(shaping !== null, sign !== null)) return undefined
    const own = shaping === null ? null : yield* this.#shape(shaping)
    if (own === undefined) return undefined
    if (own === 'too large') return { drop: 'unshapable' }
    const body = own ?? this.body
    if (sign !== null) this.work.add(body.byteLength * signStepsPerByte)
    this.#bytes += own?.byteLength ?? 0
    if (sign !== null) this.#signedBytes += body.byteLength
    this.#known.set(name, this.variants.length)
    this.variants.push({ body: own, signature: sign?.(body) ?? null })
    return { variant: this.variants.length - 1 }
  }

  /** Whether a further variant would be above the limits of one message. */
  #isFull(shaped: boolean, signed: boolean): boolean {
    if (this.variants.length === variantsLimit) return true
    if (shaped && this.#bytes >= variantBytesLimit) return true
    return signed && this.#signedBytes >= signedBytesLimit
  }

  /** The shaped body; undefined when no work is left. */
  *#shape({ name, apply }: Shaping): Sliced<Uint8Array | 'too large' | undefined> {
    const known = this.#shaped.get(name)
    if (known !== undefined) return known
    const json = (yield* this.json()) as Outline
    const length = json.bytes.byteLength
    if (!this.work.take(length * shapeStepsPerByte)) return undefined
    const mostBytes = mostFormBytes(length)
    const shaped = yield* (apply as BoundedShaper)(json, mostBytes)
    const grown = (shaped?.byteLength ?? mostBytes) - length
    if (grown > 0) this.work.add(grown * shapeStepsPerByte)
    const form = shaped ?? 'too large'
    this.#shaped.set(name, form)
    return form
  }
}

/** The one key of a first-in-first-out lane. */
const onlyKey = 0

/**
 * The number that deliveries which must not overtake each other share; undefined when order does not matter. Two of a
 * million keys share a number with a chance of 1 in 500; their deliveries then keep an order that was not asked for.
 */
function orderKeyOf(order: Flow['order'], orderingKey: string | null): number | undefined {
  if (order === 'fifo') return onlyKey
  if (order === 'none' || orderingKey === null) return undefined
  return 1 + hash('sha256', orderingKey, 'buffer').readUIntBE(0, 6)
}

/** Bytes of bodies that are searched for one message: about 50 ms. A thousand different keys in 1 MiB would take seconds. */
const bytesLimit = 16 * 1024 * 1024

/** The fields of a message that decide whether it is coalesced. */
type Coalescable = Pick<Publication, 'eventType' | 'delayMs' | 'expiresInMs'>

/**
 * Returns a function that decides how a message is coalesced at an endpoint. A message is not coalesced (undefined) when
 * its payload lacks the key, when it has a delivery time of its own, when it expires within the window, or when the search
 * for keys would read too many bytes. Endpoints with the same key share one search.
 */
export function coalescing(
  { eventType, delayMs, expiresInMs = null }: Coalescable,
  body: Uint8Array,
): (rule: Coalesce) => NonNullable<Special['coalesce']> | undefined {
  const keys = new Map<string | null, string | undefined>()
  let bytesLeft = bytesLimit
  return ({ key: pointer, windowMs }) => {
    if (delayMs > 0 || (expiresInMs !== null && expiresInMs <= windowMs)) return undefined
    if (!keys.has(pointer)) {
      if (pointer !== null) bytesLeft -= body.byteLength
      keys.set(pointer, pointer !== null && bytesLeft < 0 ? undefined : keyOf(eventType, body, pointer))
    }
    const key = keys.get(pointer)
    return key === undefined ? undefined : { key, windowMs }
  }
}

/**
 * The key that coalescing messages share. Strings are compared after unescaping; other values by their bytes, because
 * numbers that differ may be the same double.
 */
function keyOf(eventType: string, body: Uint8Array, pointer: string | null): string | undefined {
  if (pointer === null) return digest(eventType, 'any')
  const span = valueAt(body, pointer)
  if (span === undefined) return undefined
  const { start, end } = span
  if (body[start] === quote) return digest(eventType, 'text', pointer, textOf(body, start, end))
  return digest(eventType, 'value', pointer, body.subarray(start, end))
}
