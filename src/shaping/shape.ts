import type { Shape } from '../domain/flow.ts'
import type { Parts } from '../domain/turns.ts'
import { type Outline, type Part, PartReader } from '../json/outline.ts'
import type { Pseudonymize } from './pseudonym.ts'
import { Place, rulesOf } from './rules.ts'

/** What an endpoint gets of a payload. */
export type Shaper = (json: Outline) => Parts<Buffer>

/** Values that are shaped between two pauses: less than a millisecond. */
const valuesPerPart = 256

/**
 * Makes what shapes payloads. It cuts and replaces in the bytes and builds nothing, so that what it leaves is to the byte
 * as it was published: numbers, the order of members, white space.
 *
 * All pointers name fields as they were published. A field that is dropped is gone whatever else is said of it; so is
 * what lies beside the way to something kept. A field renamed to the name of another takes its place.
 */
export function shaper(shape: Shape, pseudonymize: Pseudonymize | null): Shaper {
  const rules = rulesOf(shape)
  return function* (json) {
    const out = new Pieces(json.bytes)
    // A scalar has no fields to keep: send null.
    if (shape.keep !== null && !json.isContainer(json.start)) out.insert('null', json.start, json.bytes.length)
    else yield* emit(out, json, new Place([rules]), shape.keep === null, pseudonymize)
    return yield* out.bytes()
  }
}

/** The bytes of a result: spans of what was published, and texts that stand in place of others. */
class Pieces {
  readonly json: Buffer
  /** Where a span begins and ends, one after the other; or a text. */
  readonly #pieces: (number | string)[] = []
  #length = 0
  #start = 0

  constructor(json: Buffer) {
    this.json = json
  }

  /** Leaves out what lies between two bytes. What lies before was either left out or is taken as it is. */
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

  *bytes(): Parts<Buffer> {
    this.skip(this.json.length, this.json.length)
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
  readonly place: Place
  readonly isArray: boolean
  /** Whether a part that no pointer names is kept. */
  readonly whole: boolean
  /** The new names that members get, and those of them that a member has got; undefined when there are none. */
  readonly renames: { readonly names: Set<string>; readonly given: Set<string> } | undefined
  /** Where the first part begins; -1 before it is read. */
  first: number
  /** Where the part before ends. */
  end: number
  /** Whether a part has stayed. */
  any: boolean
}

/** Edits a value by the rules for it. Each byte is read a fixed number of times, however deep the containers nest. */
function* emit(
  out: Pieces,
  json: Outline,
  root: Place,
  whole: boolean,
  pseudonymize: Pseudonymize | null,
): Parts<void> {
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
function opened(json: Outline, at: number, place: Place, whole: boolean): Container | undefined {
  if (place.isPlain || !json.isContainer(at) || json.isEmpty(at)) return undefined
  const isArray = json.isArray(at)
  if (isArray && whole && !place.namesParts && place.everyElement().isPlain) return undefined
  const parts = new PartReader(json, at, !isArray || place.namesParts)
  const renames = isArray || !place.renamesMembers ? undefined : { names: new Set<string>(), given: new Set<string>() }
  return { at, parts, place, isArray, whole, renames, first: -1, end: at, any: false }
}

/** Keeps a part, with a new name if it gets one, or leaves it out; answers whether it stays. */
function emitPart(out: Pieces, json: Outline, container: Container, part: Part, own: Place): boolean {
  const { whole, renames } = container
  if (container.first < 0) container.first = part.start
  const name = renames && own.rename
  const isTaken = renames !== undefined && (name === undefined ? renames.names.has(part.name) : renames.given.has(name))
  if (!isWanted(json, part, own, whole) || isTaken) {
    // With the separator in front of it, unless nothing has stayed yet.
    if (container.any) out.skip(container.end, part.end)
    return false
  }
  // The first that stays takes the place of those left out before it.
  if (!container.any) out.skip(container.first, part.start)
  container.any = true
  if (name !== undefined) {
    renames?.given.add(name)
    out.insert(JSON.stringify(name), part.start, part.nameEnd)
  }
  return true
}

function emitPseudonym(out: Pieces, { value, end }: Part, pseudonymize: Pseudonymize): void {
  // There is nobody behind a null.
  if (end - value === 4 && out.json.toString('latin1', value, end) === 'null') return
  out.insert(`"${pseudonymize(out.json, value, end)}"`, value, end)
}

/** Whether a part stays: in full, or because something in it may have been asked for. */
function isWanted(json: Outline, part: Part, own: Place, whole: boolean): boolean {
  if (own.drop) return false
  return whole || own.keep || (own.leadsToKept && json.isContainer(part.value))
}

function placeOf({ place, isArray }: Container, { name }: Part): Place {
  if (!isArray) return place.member(name)
  return place.namesParts ? place.element(name) : place.everyElement()
}

/** Finds the new names that the members of an object get. */
function* findNewNames(names: Set<string>, json: Outline, { at, place, whole }: Container): Parts<void> {
  const members = new PartReader(json, at)
  for (let values = 1; ; values++) {
    if (values % valuesPerPart === 0) yield
    const member = members.next()
    if (member === undefined) return
    const { rename, drop, leadsToKept } = place.member(member.name)
    if (rename !== undefined && !drop && (whole || leadsToKept)) names.add(rename)
  }
}
