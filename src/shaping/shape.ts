import { isUtf8 } from 'node:buffer'
import type { Shape } from '../domain/flow.ts'
import { everyElement, readPointer } from './pointer.ts'
import type { Pseudonymize } from './pseudonym.ts'
import { afterSpace, openBrace, openBracket, type Part, partsOf } from './walk.ts'

/** What an endpoint gets of a payload. The bytes are known to be JSON. */
export type Shaper = (json: Buffer) => Buffer

/** What is to be done with a part of a payload, and with the parts of it. One tree of them is made of all pointers. */
interface Rule {
  /** By name, or by place in an array. */
  readonly named: Map<string, Rule>
  /** For every element of an array, and for a member with that very name. */
  every: Rule | undefined
  /** Something in it is kept, or it is. */
  leadsToKept: boolean
  keep: boolean
  drop: boolean
  pseudonymize: boolean
  rename: string | undefined
}

/**
 * Makes what shapes payloads. It cuts and replaces in the bytes and builds nothing, so that what it leaves is to the byte
 * as it was published: numbers, the order of members, white space.
 *
 * All pointers name fields as they were published. A field that is dropped is gone whatever else is said of it; so is
 * what lies beside the way to something kept. A field renamed to the name of another takes its place.
 */
export function shaper(shape: Shape, pseudonymize: Pseudonymize | null): Shaper {
  const root = rulesOf(shape)
  return (json) => {
    const out = new Pieces(json)
    const at = afterSpace(json, 0)
    // What has no parts has none that were asked for.
    if (shape.keep !== null && !isContainer(json, at)) out.insert('null', at, json.length)
    else emit(out, at, [root], shape.keep === null, pseudonymize)
    return out.bytes()
  }
}

/** The bytes of a result: spans of what was published, and what stands in place of others. */
class Pieces {
  readonly json: Buffer
  readonly #pieces: (Buffer | string)[] = []
  #start = 0

  constructor(json: Buffer) {
    this.json = json
  }

  /** Leaves out what lies between two bytes. What lies before was either left out or is taken as it is. */
  skip(start: number, end: number): void {
    if (start > this.#start) this.#pieces.push(this.json.subarray(this.#start, start))
    this.#start = end
  }

  insert(text: string, start: number, end: number): void {
    this.skip(start, end)
    this.#pieces.push(text)
  }

  bytes(): Buffer {
    this.skip(this.json.length, this.json.length)
    return Buffer.concat(this.#pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece)))
  }
}

/** Edits the value that begins at `at` by the rules for it. `whole` says that what is not named is kept. */
function emit(
  out: Pieces,
  at: number,
  rules: readonly Rule[],
  whole: boolean,
  pseudonymize: Pseudonymize | null,
): void {
  const { json } = out
  if (rules.length === 0 || !isContainer(json, at)) return
  const isArray = json[at] === openBracket
  // A megabyte may hold 350,000 containers: nothing is made for each of them that is seldom needed.
  const alike = isArray && !rules.some(({ named }) => named.size > 0) ? rulesForAll(rules) : undefined
  if (alike !== undefined && whole && alike.length === 0) return
  const { parts } = partsOf(json, at, alike === undefined)
  const [first] = parts
  const renames = !isArray && rules.some(hasRenames)
  const names = renames ? newNames(rules, parts, whole) : noNames
  const given = renames ? new Set<string>() : noNames
  let any = false
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i] as Part
    const own = alike ?? rulesFor(rules, part.name, isArray)
    const name = renames ? newName(own) : undefined
    if (!isWanted(json, part, own, whole) || (name === undefined ? names.has(part.name) : given.has(name))) {
      // With the separator in front of it, unless nothing has stayed yet.
      if (any) out.skip((parts[i - 1] as Part).end, part.end)
      continue
    }
    // The first that stays takes the place of those left out before it.
    if (!any) out.skip((first as Part).start, part.start)
    any = true
    if (name !== undefined) {
      ;(given as Set<string>).add(name)
      out.insert(JSON.stringify(name), part.start, part.nameEnd)
    }
    if (own.some((rule) => rule.pseudonymize)) emitPseudonym(out, part, pseudonymize as Pseudonymize)
    else emit(out, part.value, own, whole || own.some((rule) => rule.keep), pseudonymize)
  }
  const last = parts.at(-1)
  if (!any && last !== undefined) out.skip((first as Part).start, last.end)
}

function emitPseudonym(out: Pieces, { value, end }: Part, pseudonymize: Pseudonymize): void {
  // There is nobody behind a null.
  if (end - value === 4 && out.json.toString('latin1', value, end) === 'null') return
  out.insert(`"${pseudonymize(out.json, value, end)}"`, value, end)
}

/** Whether a part stays: in full, or because something in it may have been asked for. */
function isWanted(json: Buffer, part: Part, rules: readonly Rule[], whole: boolean): boolean {
  if (rules.some((rule) => rule.drop)) return false
  if (whole || rules.some((rule) => rule.keep)) return true
  return rules.some((rule) => rule.leadsToKept) && isContainer(json, part.value)
}

function newName(rules: readonly Rule[]): string | undefined {
  return rules.find((rule) => rule.rename !== undefined)?.rename
}

const noNames: ReadonlySet<string> = new Set()

/** The new names that members of an object get. */
function newNames(rules: readonly Rule[], parts: readonly Part[], whole: boolean): ReadonlySet<string> {
  const names = new Set<string>()
  for (const { name } of parts) {
    const own = rulesFor(rules, name, false)
    const given = newName(own)
    if (given === undefined || own.some((rule) => rule.drop)) continue
    if (whole || own.some((rule) => rule.leadsToKept)) names.add(given)
  }
  return names
}

/** The rules for a part: several may name it, by itself and with its neighbours. */
function rulesFor(rules: readonly Rule[], name: string, isElement: boolean): readonly Rule[] {
  const found: Rule[] = []
  for (const { named, every } of rules) {
    const own = named.get(name)
    if (own !== undefined) found.push(own)
    if (every !== undefined && (isElement || name === everyElement)) found.push(every)
  }
  return found
}

/** The rules for every element of an array of which none is named by its place. */
function rulesForAll(rules: readonly Rule[]): readonly Rule[] {
  return rules.flatMap(({ every }) => (every === undefined ? [] : [every]))
}

/** Whether a rule renames members of the object that it is for. */
function hasRenames({ named, every }: Rule): boolean {
  if (every?.rename !== undefined) return true
  for (const { rename } of named.values()) if (rename !== undefined) return true
  return false
}

function rulesOf({ keep, drop, rename, pseudonymize }: Shape): Rule {
  const root = newRule()
  for (const pointer of keep ?? []) ruleAt(root, pointer, true).keep = true
  for (const pointer of drop) ruleAt(root, pointer).drop = true
  for (const pointer of pseudonymize) ruleAt(root, pointer).pseudonymize = true
  for (const [pointer, name] of Object.entries(rename)) ruleAt(root, pointer).rename = name
  return root
}

function newRule(): Rule {
  return {
    named: new Map(),
    every: undefined,
    leadsToKept: false,
    keep: false,
    drop: false,
    pseudonymize: false,
    rename: undefined,
  }
}

/** The rule for what a pointer names, made when there is none; all on the way to it lead to something kept, or may not. */
function ruleAt(root: Rule, pointer: string, leadsToKept = false): Rule {
  let rule = root
  for (const step of readPointer(pointer) ?? []) {
    rule = step === everyElement ? everyRule(rule) : memberRule(rule, step)
    rule.leadsToKept ||= leadsToKept
  }
  return rule
}

function everyRule(rule: Rule): Rule {
  rule.every ??= newRule()
  return rule.every
}

function memberRule(rule: Rule, name: string): Rule {
  const known = rule.named.get(name)
  if (known !== undefined) return known
  const made = newRule()
  rule.named.set(name, made)
  return made
}

function isContainer(json: Buffer, at: number): boolean {
  return json[at] === openBrace || json[at] === openBracket
}

/** A payload read both ways: as bytes to cut, and as what they say. */
export interface Json {
  readonly bytes: Buffer
  readonly value: unknown
}

/** Undefined when the body is not one JSON value. */
export function readJson(body: Uint8Array): Json | undefined {
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  if (!isUtf8(bytes)) return undefined
  try {
    return { bytes, value: JSON.parse(bytes.toString('utf8')) }
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}
