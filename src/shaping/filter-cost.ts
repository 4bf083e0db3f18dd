import type { ASTNode } from '@marcbachmann/cel-js'

/** Why an expression is refused, and at which character. */
export interface Refusal {
  readonly message: string
  readonly position: number | undefined
}

/** A part of the payload that an expression reads, and the cost of reading it. */
export interface Charge {
  /** The names that lead to it from the payload; empty for the payload itself. */
  readonly path: readonly string[]
  /** Steps per element of the list there, per value in it, and per character of all its texts. */
  elements: number
  values: number
  characters: number
}

/** A step is about 50 ns. Measured on 1 MB: reading a text 6 to 12 ns per character, comparing up to 100 ns per value. */
const perCharacter = 0.25
const perValueRead = 0.5
const perCharacterCompared = 0.05
const perValueCompared = 2
/** An element for which the condition fails costs an error: 1 to 2 µs. */
const perElement = 30
/** Elements of `tags`, the longer of the two small lists, and steps to read one of the small texts. */
const smallElements = 10
const smallText = 64

const functions = new Set(['has', 'size', 'int', 'double', 'string', 'bool'])
const methods = new Set(['size', 'contains', 'startsWith', 'endsWith', 'lowerAscii', 'upperAscii', 'trim'])
const searches = new Set(['contains', 'startsWith', 'endsWith'])
/** These run their second argument once per element. */
const macros = new Set(['exists', 'all', 'exists_one', 'filter'])
/** Variables that are never large. */
const small = new Set(['eventType', 'eventId', 'channels', 'tags'])

/** The macro that a node is in; it runs for each element of the macro's list. */
interface Scope {
  /** The name of the element. */
  readonly element: string
  /** The part of the payload that the elements are from; null for channels or tags. */
  readonly path: readonly string[] | null
  /** Whether `path` names the very list; otherwise the list is somewhere in it. */
  readonly isExact: boolean
  /** How often the node runs for each element. */
  readonly times: number
}

/**
 * Refuses expressions without a bound and finds the cost of the others: their work grows with the size of the parts that
 * they read, and no faster. So a condition that runs per element reads only that element, lists to run through are parts of
 * the payload, and no expression builds a value larger than the payload. Regular expressions have no such bound.
 */
export function findCosts(ast: ASTNode) {
  let refusal: Refusal | undefined
  // Steps for any payload: one per node, more for a macro over channels or tags.
  let fixed = 0
  const charges = new Map<string, Charge>()

  function refuse(node: ASTNode, message: string): void {
    refusal ??= { message, position: node.range?.start ?? node.pos }
  }

  function charge(path: readonly string[], rates: Partial<Omit<Charge, 'path'>>): void {
    const key = JSON.stringify(path)
    const known = charges.get(key) ?? { path, elements: 0, values: 0, characters: 0 }
    charges.set(key, known)
    known.elements += rates.elements ?? 0
    known.values += rates.values ?? 0
    known.characters += rates.characters ?? 0
  }

  /** Charges steps that a node takes each time it runs. */
  function chargeRuns(steps: number, scope: Scope | null): void {
    if (scope === null) fixed += steps
    else if (scope.path === null) fixed += steps * scope.times
    else if (scope.isExact) charge(scope.path, { elements: steps * scope.times })
    else charge(scope.path, { values: steps * scope.times })
  }

  /** Charges a node for reading all of its operands. */
  function chargeReading(operands: readonly ASTNode[], values: number, characters: number, scope: Scope | null): void {
    for (const operand of operands) {
      for (const { path } of payloadPartsOf(operand, scope)) charge(path, { values, characters })
      if (readsSmall(operand)) chargeRuns(smallText, scope)
    }
  }

  function visit(node: ASTNode, scope: Scope | null): void {
    if (refusal !== undefined) return
    chargeRuns(1, scope)
    switch (node.op) {
      case 'value':
        return
      case 'id':
        if (scope !== null && node.args !== scope.element && !small.has(node.args)) {
          refuse(node, `within exists, all or filter only ${scope.element} may be used, not ${node.args}`)
        }
        return
      case '.':
        return visit(node.args[0], scope)
      case 'call':
        return visitCall(node, node.args, scope)
      case 'rcall':
        return visitMethod(node, node.args, scope)
      case '+':
        if (!node.args.some(isNumber)) refuse(node, 'one side of + must be a number')
        break
      case '==':
      case '!=':
      case '<':
      case '<=':
      case '>':
      case '>=':
        if (!node.args.some((side) => side.op === 'value')) {
          chargeReading(node.args, perValueCompared, perCharacterCompared, scope)
        }
        break
      case 'in':
        chargeReading([node.args[1]], perValueCompared, perCharacterCompared, scope)
        if (!isLiteral(node.args[1])) {
          chargeReading([node.args[0]], perValueCompared, perCharacterCompared, scope)
        }
        break
      case '.?':
      case '[?]':
        return refuse(node, 'optional fields are not available: use has()')
    }
    for (const child of childrenOf(node)) visit(child, scope)
  }

  function visitCall(node: ASTNode, [name, args]: [string, ASTNode[]], scope: Scope | null): void {
    if (!functions.has(name)) return refuse(node, `the function ${name} is not available`)
    if (name !== 'has') chargeReading(args, perValueRead, perCharacter, scope)
    for (const arg of args) visit(arg, scope)
  }

  function visitMethod(node: ASTNode, [name, receiver, args]: [string, ASTNode, ASTNode[]], scope: Scope | null): void {
    if (macros.has(name)) return visitMacro(name, receiver, args, scope)
    if (!methods.has(name)) return refuse(node, `the function ${name} is not available`)
    if (searches.has(name) && !args.every(isText)) return refuse(node, `${name} takes a text in quotes`)
    chargeReading([receiver], perValueRead, perCharacter, scope)
    visit(receiver, scope)
    for (const arg of args) visit(arg, scope)
  }

  function visitMacro(name: string, receiver: ASTNode, args: readonly ASTNode[], scope: Scope | null): void {
    const [variable, condition] = args
    if (!isList(receiver)) return refuse(receiver, `${name} runs through a list of the message`)
    visit(receiver, scope)
    if (variable?.op !== 'id' || condition === undefined || args.length !== 2) {
      return refuse(receiver, `${name} takes a name and a condition`)
    }
    if (variable.args === 'payload' || small.has(variable.args)) {
      return refuse(variable, `${variable.args} already means something else`)
    }
    const [part] = payloadPartsOf(receiver, scope)
    // A list of the message itself, a list within an element, or channels or tags, run through for each element.
    const inner: Scope =
      part !== undefined
        ? { element: variable.args, ...part, times: scope?.times ?? 1 }
        : {
            element: variable.args,
            path: scope?.path ?? null,
            isExact: scope?.isExact ?? true,
            times: smallElements * (scope?.times ?? 1),
          }
    chargeRuns(perElement, inner)
    visit(condition, inner)
  }

  visit(ast, null)
  return { refusal, fixed, charges: [...charges.values()] }
}

interface PayloadPart {
  readonly path: readonly string[]
  /** Whether the path names the very value; otherwise the value is somewhere in it. */
  readonly isExact: boolean
}

/** The parts of the payload that the value of a node may be, or be made of. */
function payloadPartsOf(node: ASTNode, scope: Scope | null): readonly PayloadPart[] {
  switch (node.op) {
    case 'id':
      if (node.args === 'payload') return [{ path: [], isExact: true }]
      if (node.args === scope?.element && scope.path !== null) return [{ path: scope.path, isExact: false }]
      return []
    case '.':
      return payloadPartsOf(node.args[0], scope).map((part) => within(part, node.args[1]))
    case '[]': {
      const [base, index] = node.args
      const step = index.op === 'value' ? String(index.args) : undefined
      return payloadPartsOf(base, scope).map((part) =>
        step === undefined ? { ...part, isExact: false } : within(part, step),
      )
    }
    case 'rcall':
      return payloadPartsOf(node.args[1], scope).map(({ path }) => ({ path, isExact: false }))
    case 'call':
      return node.args[1].flatMap((arg) => payloadPartsOf(arg, scope))
    case '?:':
      return node.args.slice(1).flatMap((arg) => payloadPartsOf(arg, scope))
    default:
      return childrenOf(node).flatMap((child) => payloadPartsOf(child, scope))
  }
}

function within({ path, isExact }: PayloadPart, step: string): PayloadPart {
  return isExact ? { path: [...path, step], isExact } : { path, isExact }
}

/** Whether a node reads one of the small variables. */
function readsSmall(node: ASTNode): boolean {
  if (node.op === 'id') return small.has(node.args)
  if (node.op === 'rcall') return readsSmall(node.args[1])
  if (node.op === 'call') return node.args[1].some(readsSmall)
  return node.op === '.' ? readsSmall(node.args[0]) : childrenOf(node).some(readsSmall)
}

/** A list of nothing but constants. */
function isLiteral(node: ASTNode): boolean {
  return node.op === 'value' || (node.op === 'list' && node.args.every(isLiteral))
}

/** A part of the message, or some of the elements of one. */
function isList(node: ASTNode): boolean {
  if (node.op === 'id') return true
  if (node.op === '.') return isList(node.args[0])
  if (node.op === '[]') return isList(node.args[0]) && node.args[1].op === 'value'
  return node.op === 'rcall' && node.args[0] === 'filter' && isList(node.args[1])
}

function isNumber(node: ASTNode): boolean {
  return node.op === 'value' && (typeof node.args === 'number' || typeof node.args === 'bigint')
}

function isText(node: ASTNode): boolean {
  return node.op === 'value' && typeof node.args === 'string'
}

function childrenOf(node: ASTNode): readonly ASTNode[] {
  switch (node.op) {
    case 'map':
      return node.args.flat()
    case '!_':
    case '-_':
      return [node.args]
    case 'value':
    case 'id':
    case '.':
    case '.?':
    case 'call':
    case 'rcall':
      return []
    default:
      return node.args
  }
}
