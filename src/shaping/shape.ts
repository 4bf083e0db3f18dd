import { createHmac, createSecretKey } from 'node:crypto'
import type { PseudonymForm, Shape } from '../domain/flow.ts'
import type { Sliced } from '../domain/turns.ts'
import type { Endpoint } from '../features/endpoints/rules.ts'
import { type JsonPart, Outline, PartReader, quote } from '../json/outline.ts'
import { textOf } from '../json/token.ts'
import { RulesAt, rulesOf } from './rules.ts'

/** Computes the part of a payload that an endpoint gets. */
type Shaper = (json: Outline) => Sliced<Buffer>

/** The same, up to a number of bytes: it stops and answers undefined when there are more. */
export type BoundedShaper = (json: Outline, mostBytes: number) => Sliced<Buffer | undefined>

/**
 * The most bytes of a form of a payload. Pseudonyms and new names can make a payload 25 times as large, and each attempt
 * holds its form in memory. A larger form is neither stored nor sent.
 */
export function mostFormBytes(payloadBytes: number): number {
  return Math.max(4 * 1024 * 1024, 2 * payloadBytes)
}

/** Values that are shaped between two pauses: less than a millisecond. */
const valuesPerPart = 256

/**
 * Makes the shaper of a shape. It cuts and replaces bytes of the payload and never serialises, so all that stays is as it
 * was published: numbers, the order of members, white space.
 *
 * All pointers name fields as they were published. Dropping a field wins over every other rule for it. With `keep`, only
 * kept fields and the containers around them stay. A field renamed to the name of another field replaces that one.
 */
export function shaper(shape: Shape, pseudonymize: Pseudonymize | null): Shaper {
  const apply = boundedShaper(shape, pseudonymize)
  return function* (json) {
    return (yield* apply(json, Infinity)) as Buffer
  }
}

/** Makes the bounded shaper of a shape. */
export function boundedShaper(shape: Shape, pseudonymize: Pseudonymize | null): BoundedShaper {
  const rules = rulesOf(shape)
  return function* (json, mostBytes) {
    const out = new Pieces(json.bytes)
    // A scalar has no fields to keep: send null.
    if (shape.keep !== null && !json.isContainer(json.start)) out.insert('null', json.start, json.bytes.length)
    else {
      for (const pause of emit(out, json, new RulesAt([rules]), shape.keep === null, pseudonymize)) {
        if (out.length > mostBytes) return undefined
        yield pause
      }
    }
    out.end()
    return out.length > mostBytes ? undefined : yield* out.bytes()
  }
}

/** Makes a function that visits the values which these pointers name, in the order of the payload. A null is left out. */
export function visitor(pointers: readonly string[]): (json: Outline, visit: VisitValue) => Sliced<void> {
  const place = new RulesAt([rulesOf({ keep: null, drop: [], rename: {}, pseudonymize: pointers })])
  return (json, visit) =>
    emit(new Pieces(json.bytes), json, place, true, (bytes, start, end) => {
      visit(bytes, start, end)
      return ''
    })
}

/** Called with the payload, and where a value lies in it. */
type VisitValue = (json: Buffer, start: number, end: number) => void

/** The bytes of a result: spans of the published bytes, and texts that replace others. */
class Pieces {
  readonly json: Buffer
  /** Of a span two numbers, its start and its end; of a replacement its text. */
  readonly #pieces: (number | string)[] = []
  #length = 0
  #start = 0

  constructor(json: Buffer) {
    this.json = json
  }

  /** Leaves out the bytes from `start` to `end`. Bytes since the last call stay as they are. */
  skip(start: number, end: number): void {
    if (start > this.#start) {
      this.#pieces.push(this.#start, start)
      this.#length += start - this.#start
    }
    this.#start = end
  }

  insert(text: string, start: number, end: number): void {
    this.skip(start, end)
    this.#pieces.push(text)
    this.#length += Buffer.byteLength(text)
  }

  /** Keeps the bytes behind the last call. */
  end(): void {
    this.skip(this.json.length, this.json.length)
  }

  /** The number of bytes so far. */
  get length(): number {
    return this.#length
  }

  *bytes(): Sliced<Buffer> {
    const bytes = Buffer.allocUnsafe(this.#length)
    const pieces = this.#pieces
    let at = 0
    for (let i = 0, count = 1; i < pieces.length; i++, count++) {
      if (count % valuesPerPart === 0) yield
      const piece = pieces[i] as number | string
      at += typeof piece === 'string' ? bytes.write(piece, at) : this.json.copy(bytes, at, piece, pieces[++i] as number)
    }
    return bytes
  }
}

/** A container whose parts are being edited. */
interface Container {
  /** Where it begins. */
  readonly at: number
  readonly parts: PartReader
  readonly place: RulesAt
  readonly isArray: boolean
  /** Whether a part that no pointer names is kept. */
  readonly whole: boolean
  /** All new names of members, and those given so far; undefined when no member gets one. */
  readonly renames: { readonly names: Set<string>; readonly given: Set<string> } | undefined
  /** Where the first part begins; -1 before it is read. */
  first: number
  /** Where the part before ends. */
  end: number
  /** Whether a part has stayed. */
  any: boolean
}

/** Edits a value by its rules. Each byte is read a fixed number of times, however deep the containers nest. */
function* emit(
  out: Pieces,
  json: Outline,
  root: RulesAt,
  whole: boolean,
  pseudonymize: Pseudonymize | null,
): Sliced<void> {
  const open: Container[] = []
  let inner = opened(json, json.start, root, whole)
  for (let values = 1; ; values++) {
    if (values % valuesPerPart === 0) yield
    if (inner !== undefined) {
      if (inner.renames !== undefined) yield* findNewNames(inner.renames.names, json, inner)
      open.push(inner)
      inner = undefined
    }
    const container = open.at(-1)
    if (container === undefined) return
    const part = container.parts.next()
    if (part === undefined) {
      if (!container.any && container.first >= 0) out.skip(container.first, container.end)
      open.pop()
      continue
    }
    const own = placeOf(container, part)
    const stays = emitPart(out, json, container, part, own)
    container.end = part.end
    if (!stays) continue
    if (own.pseudonymize) emitPseudonym(out, part, pseudonymize as Pseudonymize)
    else inner = opened(json, part.value, own, container.whole || own.keep)
  }
}

/** The container that begins at `at`, before its first part; undefined when nothing in it changes. */
function opened(json: Outline, at: number, place: RulesAt, whole: boolean): Container | undefined {
  if (place.isPlain || !json.isContainer(at) || json.isEmpty(at)) return undefined
  const isArray = json.isArray(at)
  if (isArray && whole && !place.namesParts && place.everyElement().isPlain) return undefined
  const parts = new PartReader(json, at, !isArray || place.namesParts)
  const renames = isArray || !place.renamesMembers ? undefined : { names: new Set<string>(), given: new Set<string>() }
  return { at, parts, place, isArray, whole, renames, first: -1, end: at, any: false }
}

/** Keeps a part, with a new name if it gets one, or leaves it out; answers whether it stays. */
function emitPart(out: Pieces, json: Outline, container: Container, part: JsonPart, own: RulesAt): boolean {
  const { whole, renames } = container
  if (container.first < 0) container.first = part.start
  const name = renames && own.rename
  const isTaken = renames !== undefined && (name === undefined ? renames.names.has(part.name) : renames.given.has(name))
  if (!isWanted(json, part, own, whole) || isTaken) {
    // The separator in front of it goes too, unless no part has stayed yet.
    if (container.any) out.skip(container.end, part.end)
    return false
  }
  // The first part that stays begins where the first part began.
  if (!container.any) out.skip(container.first, part.start)
  container.any = true
  if (name !== undefined) {
    renames?.given.add(name)
    out.insert(JSON.stringify(name), part.start, part.nameEnd)
  }
  return true
}

function emitPseudonym(out: Pieces, { value, end }: JsonPart, pseudonymize: Pseudonymize): void {
  // A null names no person.
  if (end - value === 4 && out.json.toString('latin1', value, end) === 'null') return
  out.insert(`"${pseudonymize(out.json, value, end)}"`, value, end)
}

/** Whether a part stays: in full, or because a field in it may be kept. */
function isWanted(json: Outline, part: JsonPart, own: RulesAt, whole: boolean): boolean {
  if (own.drop) return false
  return whole || own.keep || (own.leadsToKept && json.isContainer(part.value))
}

function placeOf({ place, isArray }: Container, { name }: JsonPart): RulesAt {
  if (!isArray) return place.member(name)
  return place.namesParts ? place.element(name) : place.everyElement()
}

/** Finds the new names that the members of an object get. */
function* findNewNames(names: Set<string>, json: Outline, { at, place, whole }: Container): Sliced<void> {
  const members = new PartReader(json, at)
  for (let values = 1; ; values++) {
    if (values % valuesPerPart === 0) yield
    const member = members.next()
    if (member === undefined) return
    const { rename, drop, leadsToKept } = place.member(member.name)
    if (rename !== undefined && !drop && (whole || leadsToKept)) names.add(rename)
  }
}

/** Makes the pseudonym of the value that lies between two bytes of a payload. */
type Pseudonymize = (json: Buffer, start: number, end: number) => string

/**
 * Pseudonyms of one endpoint in one region: HMAC-SHA256 under a key derived from the region's secret and the endpoint's id.
 * The same value always gets the same pseudonym there. Without the secret, a pseudonym reveals neither its value nor
 * whether a pseudonym of another endpoint has the same value.
 *
 * A text counts by its characters, however it was escaped. Any other value counts as it is written: 1 and 1.0 differ.
 *
 * The form `hmac-hex` is HMAC-SHA256 of the value under the region's secret alone, as other programs compute it.
 */
export function pseudonymizer(
  regionSecret: string,
  endpointId: string,
  form: PseudonymForm = 'endpoint',
): Pseudonymize {
  if (form === 'hmac-hex') {
    const key = createSecretKey(Buffer.from(regionSecret))
    return (json, start, end) => {
      const value = json[start] === quote ? textOf(json, start, end) : json.subarray(start, end)
      return createHmac('sha256', key).update(value).digest('hex')
    }
  }
  const key = createSecretKey(createHmac('sha256', regionSecret).update(`pseudonym\0${endpointId}`).digest())
  return (json, start, end) => {
    const isText = json[start] === quote
    const value = isText ? textOf(json, start, end) : json.subarray(start, end)
    return `psn_${createHmac('sha256', key)
      .update(isText ? 'text\0' : 'json\0')
      .update(value)
      .digest('base64url')}`
  }
}

/**
 * Makes the shaper of bodies that are about to be sent: of messages that were accepted before the endpoint had a shape, or
 * not for this endpoint. It answers undefined for a body that is not JSON, that needs a secret which cannot be read, or whose
 * form is too large: then the endpoint may get nothing. Undefined for an endpoint without a shape.
 */
export function bodyShaper({
  id,
  flow: { shape },
  regionSecret,
}: Endpoint): ((body: Uint8Array) => Sliced<Uint8Array | undefined>) | undefined {
  if (shape === null) return undefined
  const needsSecret = shape.pseudonymize.length > 0
  const isLocked = needsSecret && regionSecret == null
  const { pseudonymForm } = shape
  const pseudonymize = needsSecret && !isLocked ? pseudonymizer(regionSecret as string, id, pseudonymForm) : null
  const apply = boundedShaper(shape, pseudonymize)
  return function* (body) {
    const json = isLocked ? undefined : yield* Outline.of(body)
    return json && (yield* apply(json, mostFormBytes(body.byteLength)))
  }
}
