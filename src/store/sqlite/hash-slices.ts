/**
 * The pure part of the index over taken hashes: which runs there are, how they are cut into slices, and how a hash is sought in
 * a slice. An entry of a run has 32 bits of a hash, its prefix, above the number of a row. Entries only say where to look: the
 * row decides.
 */

/** How many runs of a level are merged into one of the next. */
export const fanIn = 8
const fanInBits = 3
/** A filter has 16 bits for each of the 2,048 entries that a slice has on average, so 1 in 400 says yes without reason. */
export const filterBytes = 4096
const filterShift = 32 - 15
const bytesPerEntry = 8

/** A part of a run: the entries whose prefixes begin with the same bits, in ascending order. */
export interface Slice {
  readonly filter: Uint8Array
  readonly entries: Uint8Array
}

/** A run by its place: level 0 has the newest rows, the next levels merged runs. */
export interface RunPlace {
  readonly level: number
  readonly run: number
}

/** The prefix of a hash: 32 bits that are evenly spread for any text. */
export function prefixOf(hash: string): number {
  let mixed = 0x811c9dc5
  for (let i = 0; i < hash.length; i++) mixed = Math.imul(mixed ^ hash.charCodeAt(i), 0x01000193)
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

/** How many slices a run of a level has; also how many steps it takes to merge runs of the level. */
export function slicesOf(level: number): number {
  return fanIn ** (level + 1)
}

/** The slice of a run of that level which has this prefix. */
export function sliceOf(prefix: number, level: number): number {
  return prefix >>> (32 - fanInBits * (level + 1))
}

/** The live runs, newest rows first, when the newest run of level 0 is `last`. Older ones are merged into those of the next level. */
export function liveRuns(last: number): RunPlace[] {
  const places: RunPlace[] = []
  for (let level = 0, whole = last + 1; whole > 0; level++) {
    const next = wholeRuns(level + 1, last)
    for (let run = whole - 1; run >= next * fanIn; run--) places.push({ level, run })
    whole = next
  }
  return places
}

/** A step of merging: one slice of `fanIn` runs of a level becomes `fanIn` slices of run `target` of the next. */
export interface MergeStep {
  readonly level: number
  readonly target: number
  readonly slice: number
}

/**
 * The steps that are due with run `last` of level 0: one for each level. While the next runs of a level are made, those before
 * them are merged, a slice with each run of level 0, so that the work is the same each time. The number of the newest run says
 * which steps are due, so nothing about progress is stored.
 */
export function mergeSteps(last: number): MergeStep[] {
  const steps: MergeStep[] = []
  for (let level = 0; ; level++) {
    const count = slicesOf(level)
    const since = last - delayOf(level + 1)
    const target = Math.floor(since / count) - 1
    if (target < 0) return steps
    steps.push({ level, target, slice: since % count })
  }
}

/** How many runs of a level are whole. */
function wholeRuns(level: number, last: number): number {
  if (level === 0) return last + 1
  const count = slicesOf(level - 1)
  return Math.max(0, Math.floor((last + 1 - delayOf(level)) / count) - 1)
}

/** By how many runs of level 0 merging into a level begins later, because the runs that it merges are made by merging, too. */
function delayOf(level: number): number {
  return (fanIn ** level - fanIn) / (fanIn - 1)
}

/** Makes room for entries. */
export function entriesFor(count: number): Entries {
  return new Entries(new BigUint64Array(count))
}

/** Entries on their way into slices. */
export class Entries {
  readonly #sorted: BigUint64Array
  /** Of each entry, its row and then its prefix. */
  readonly #words: Uint32Array
  #count = 0

  constructor(room: BigUint64Array) {
    this.#sorted = room
    this.#words = new Uint32Array(room.buffer)
  }

  add(prefix: number, row: number): void {
    this.#words[this.#count * 2] = row
    this.#words[this.#count * 2 + 1] = prefix
    this.#count++
  }

  addSlice(entries: Uint8Array): void {
    new Uint8Array(this.#sorted.buffer).set(entries, this.#count * bytesPerEntry)
    this.#count += entries.byteLength / bytesPerEntry
  }

  /** Cuts the entries into the `fanIn` slices of a run of that level, from slice `first` on. */
  slices(level: number, first: number): Slice[] {
    const sorted = this.#sorted.subarray(0, this.#count).sort()
    const slices: Slice[] = []
    for (let slice = first, from = 0; slice < first + fanIn; slice++) {
      const filter = new Uint8Array(filterBytes)
      let to = from
      for (; to < this.#count; to++) {
        const prefix = this.#words[to * 2 + 1] as number
        if (sliceOf(prefix, level) !== slice) break
        addToFilter(filter, prefix)
      }
      const bytes = sorted.subarray(from, to)
      slices.push({ filter, entries: new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength) })
      from = to
    }
    return slices
  }
}

/** How many entries a slice has. */
export function countOf(entries: Uint8Array): number {
  return entries.byteLength / bytesPerEntry
}

/** The rows of a slice whose hashes have this prefix, newest first. */
export function rowsWith(entries: Uint8Array, prefix: number): number[] {
  const view = new DataView(entries.buffer, entries.byteOffset, entries.byteLength)
  const prefixAt = (i: number) => view.getUint32(i * bytesPerEntry + 4, true)
  let [low, high] = [0, countOf(entries)]
  while (low < high) {
    const middle = (low + high) >> 1
    if (prefixAt(middle) < prefix) low = middle + 1
    else high = middle
  }
  const rows: number[] = []
  for (; low < countOf(entries) && prefixAt(low) === prefix; low++) rows.push(view.getUint32(low * bytesPerEntry, true))
  return rows.reverse()
}

function addToFilter(filter: Uint8Array, prefix: number): void {
  for (const factor of factors) {
    const bit = Math.imul(prefix, factor) >>> filterShift
    filter[bit >> 3] = (filter[bit >> 3] as number) | (1 << (bit & 7))
  }
}

/** Whether the filters of a run, one behind the other, say that this slice may have the prefix. */
export function mayHave(filters: Uint8Array, slice: number, prefix: number): boolean {
  const from = slice * filterBytes
  for (const factor of factors) {
    const bit = Math.imul(prefix, factor) >>> filterShift
    if (((filters[from + (bit >> 3)] as number) & (1 << (bit & 7))) === 0) return false
  }
  return true
}

/** Odd, and without a pattern: each spreads the prefix over the filter in another way. */
const factors = [0x9e3779b1, 0x85ebca77, 0xc2b2ae3d, 0x27d4eb2f]
