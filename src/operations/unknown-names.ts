import { AppError } from '../domain/app-error.ts'
import { editDistance, nearest } from '../domain/phrases.ts'

/** Longer names are compared with none: comparing takes the product of the lengths. */
const comparedLength = 48
/** A short list of names says more than the nearest of many. */
const listedNames = 12
/** Names that begin with this many equal letters are about the same thing, such as `expiry` and `expiresInSeconds`. */
const sharedLetters = 4

/** The names of an object or a query, and the sentences about a name that is none of them. */
export class UnknownNames {
  readonly #noun: string
  readonly #known: readonly string[]
  /** The names by their letters and digits alone, in one case. */
  readonly #byLetters: ReadonlyMap<string, string>

  constructor(noun: 'field' | 'parameter', known: readonly string[]) {
    this.#noun = noun
    this.#known = known
    this.#byLetters = new Map(known.map((name) => [lettersOf(name), name]))
  }

  /** Why the name is refused, with the name that was meant. */
  refusal(name: string): string {
    const meant = this.#meant(name)
    if (meant !== undefined) return `is an unknown ${this.#noun}; did you mean ${meant}?`
    const isShort = this.#known.length > 0 && this.#known.length <= listedNames
    return `is an unknown ${this.#noun}${isShort ? `; the ${this.#noun}s are ${this.#known.join(', ')}` : ''}`
  }

  /**
   * The refusal of a name that is a slip of a known one; undefined for any other. Where unknown names are ignored, ignoring
   * this one would still mean something else than its sender does: a message with `channel` would reach every endpoint.
   * Without `isCompared` only the case and the punctuation may differ, which is quick to see.
   */
  slip(name: string, isCompared = true): string | undefined {
    if (name.length > comparedLength) return undefined
    const letters = lettersOf(name)
    const similar = () => [...this.#byLetters].find(([known]) => isSlip(letters, known))?.[1]
    const meant = this.#byLetters.get(letters) ?? (isCompared ? similar() : undefined)
    return meant === undefined ? undefined : `is an unknown ${this.#noun}; did you mean ${meant}?`
  }

  #meant(name: string): string | undefined {
    if (name === '' || name.length > comparedLength) return undefined
    const same = this.#byLetters.get(lettersOf(name))
    return same ?? nearest(name, this.#known) ?? this.#known.find((known) => beginAlike(name, known))
  }
}

function isSlip(written: string, known: string): boolean {
  const most = known.length < 8 ? 1 : 2
  // Most names differ in length already, which is a subtraction where the distance is a table.
  return Math.abs(written.length - known.length) <= most && editDistance(written, known) <= most
}

function lettersOf(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
}

function beginAlike(a: string, b: string): boolean {
  return a.length >= sharedLetters && lettersOf(a).slice(0, sharedLetters) === lettersOf(b).slice(0, sharedLetters)
}

/** An answer names this many ignored fields, and so many characters of each. */
const namedFields = 10
const namedLength = 64

/** The treatment of fields that mean nothing here: the answer names them, or they are refused. */
export type UnknownFields = 'named' | 'refused'

/** The header by which a client asks that fields that mean nothing are refused. */
export const unknownFieldsHeader = 'sluice-unknown-fields'

/** The treatment that a request asks for. It can ask for more strictness than the setting, and for no less. */
export function treatmentOf(asked: string | readonly string[] | undefined, setting: UnknownFields): UnknownFields {
  if (asked === undefined || asked === 'named') return setting
  if (asked === 'refused') return 'refused'
  // A client that asks for strictness must not be left without by a slip.
  const field = { at: ['header', unknownFieldsHeader], message: 'must be named or refused', type: 'enum' }
  throw new AppError('validation', 'A header is not valid.', [field])
}

/** The fields and parameters of a request that mean nothing here. The header `Sluice-Ignored-Fields` names the first. */
export class IgnoredFields {
  /** Fields that were added, those that are not named included. */
  count = 0
  #names: Set<string> | undefined
  #isCut = false
  readonly #areRefused: boolean

  /** `refused` makes the first one an error: for a caller who asked for it, or who reads no header, such as a program in the same process. */
  constructor(treatment: UnknownFields = 'named') {
    this.#areRefused = treatment === 'refused'
  }

  /** Each field counts once, in whichever item of a list it stands. */
  add(at: readonly (string | number)[], name: string): void {
    this.count++
    if (this.#isCut) return
    this.#put(
      [...at, name]
        .filter((step) => typeof step === 'string')
        .map(shown)
        .join('.'),
    )
  }

  /** With `list`, the fields of the items of that list of the body. */
  addAll(others: IgnoredFields, list?: string): void {
    for (const name of others.#names ?? []) {
      this.#put(list === undefined ? name : name.replace(/^body/, `body.${list}`))
    }
    this.#isCut ||= others.#isCut
  }

  get isEmpty(): boolean {
    return this.#names === undefined
  }

  /** As a header: visible ASCII of 2 KiB at most, such as `body.foo, query.bar`, with `...` behind when there are more. */
  toString(): string {
    return [...(this.#names ?? []), ...(this.#isCut ? ['...'] : [])].join(', ')
  }

  /** A sentence about each, for a caller who does not look at headers. */
  get warnings(): string[] {
    const more = this.#isCut ? ['Other fields are unknown, and were ignored.'] : []
    return [...[...(this.#names ?? [])].map((name) => `${name} is unknown, and was ignored.`), ...more]
  }

  #put(name: string): void {
    if (this.#areRefused) {
      const at = name.split('.')
      throw new AppError('validation', `${name} is unknown.`, [{ at, message: 'is unknown', type: 'unknown' }])
    }
    this.#names ??= new Set()
    if (this.#names.size < namedFields) this.#names.add(name)
    else this.#isCut ||= !this.#names.has(name)
  }
}

/** A name as a header may carry it: other characters than those of names are written as in a URL. */
function shown(name: string): string {
  const hex = (character: string) => `%${character.charCodeAt(0).toString(16).padStart(2, '0')}`
  return name
    .slice(0, namedLength)
    .replaceAll(/[^\w.-]/g, hex)
    .slice(0, namedLength)
}
