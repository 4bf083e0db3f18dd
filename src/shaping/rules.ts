import type { Shape } from '../domain/flow.ts'
import { everyElement, readPointer } from '../json/pointer.ts'

/** The rule for a part of a payload, and for the parts in it. All pointers of a shape make one tree of rules. */
interface Rule {
  /** By name, or by index in an array. */
  readonly named: Map<string, Rule>
  /** For every element of an array, and for a member called `*`. */
  every: Rule | undefined
  /** The part is kept, or something in it is. */
  leadsToKept: boolean
  keep: boolean
  drop: boolean
  pseudonymize: boolean
  rename: string | undefined
}

/** All rules for one place in a payload: several pointers may name it, directly and by `*`. */
export class RulesAt {
  readonly keep: boolean
  readonly drop: boolean
  readonly pseudonymize: boolean
  readonly leadsToKept: boolean
  readonly rename: string | undefined
  /** Whether there is no rule for it, nor for anything in it. */
  readonly isPlain: boolean
  readonly #rules: readonly Rule[]
  #known: ReadonlySet<string> | undefined
  readonly #members = new Map<string, RulesAt>()
  readonly #elements = new Map<string, RulesAt>()
  #every: RulesAt | undefined
  #renamesMembers: boolean | undefined

  constructor(rules: readonly Rule[]) {
    this.#rules = rules
    this.isPlain = rules.length === 0
    this.keep = rules.some((rule) => rule.keep)
    this.drop = rules.some((rule) => rule.drop)
    this.pseudonymize = rules.some((rule) => rule.pseudonymize)
    this.leadsToKept = rules.some((rule) => rule.leadsToKept)
    this.rename = rules.find((rule) => rule.rename !== undefined)?.rename
  }

  /** The place of a member of an object. */
  member(name: string): RulesAt {
    if (name === everyElement) return this.everyElement()
    return this.#names.has(name) ? this.#named(name, false) : plain
  }

  /** The place of an element of an array, by its number. */
  element(name: string): RulesAt {
    return this.#names.has(name) ? this.#named(name, true) : this.everyElement()
  }

  /** The place of all elements of an array that no pointer names by number; also of a member called `*`. */
  everyElement(): RulesAt {
    this.#every ??= placeOf(this.#rules.flatMap(({ every }) => every ?? []))
    return this.#every
  }

  /** Whether a pointer names a part of this place by its own name or number. */
  get namesParts(): boolean {
    return this.#names.size > 0
  }

  /** Whether a member of the object here may get another name. */
  get renamesMembers(): boolean {
    this.#renamesMembers ??= this.#rules.some(hasRenames)
    return this.#renamesMembers
  }

  #named(name: string, isElement: boolean): RulesAt {
    const places = isElement ? this.#elements : this.#members
    const known = places.get(name)
    if (known !== undefined) return known
    const made = placeOf(
      this.#rules.flatMap(({ named, every }) => [named.get(name) ?? [], (isElement && every) || []].flat()),
    )
    places.set(name, made)
    return made
  }

  /** The names by which pointers name parts of this place. */
  get #names(): ReadonlySet<string> {
    this.#known ??= new Set(this.#rules.flatMap(({ named }) => [...named.keys()]))
    return this.#known
  }
}

/** A place that no pointer names. */
const plain = new RulesAt([])

function placeOf(rules: readonly Rule[]): RulesAt {
  return rules.length === 0 ? plain : new RulesAt(rules)
}

function hasRenames({ named, every }: Rule): boolean {
  if (every?.rename !== undefined) return true
  for (const { rename } of named.values()) if (rename !== undefined) return true
  return false
}

export function rulesOf({ keep, drop, rename, pseudonymize }: Shape): Rule {
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

/** The rule at a pointer, made when there is none. With `leadsToKept`, all rules on the way are marked so. */
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
