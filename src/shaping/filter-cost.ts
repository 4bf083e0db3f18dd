import type { ASTNode } from '@marcbachmann/cel-js'

/** Why an expression is not taken, and where that is. */
export interface Refusal {
  readonly message: string
  readonly position: number | undefined
}

export interface Costs {
  readonly refusal: Refusal | undefined
  /** How many nodes of the expression may each be run once per value of a payload; 0 when none is. */
  readonly costly: number
}

const functions = new Set(['has', 'size', 'int', 'double', 'string', 'bool'])
const methods = new Set(['size', 'contains', 'startsWith', 'endsWith', 'lowerAscii', 'upperAscii', 'trim'])
const searches = new Set(['contains', 'startsWith', 'endsWith'])
/** These run their second argument once per element. */
const macros = new Set(['exists', 'all', 'exists_one', 'filter'])
/** Variables that are never large. */
const small = new Set(['eventType', 'eventId', 'channels', 'tags'])

/**
 * Refuses what has no bound: the work of what is left grows with the size of the payload and no faster. So an expression within another that is run per element speaks of that element alone, lists to run
 * through are parts of the payload, and nothing is built that is larger than it. Regular expressions have no such bound.
 */
export function findCosts(ast: ASTNode): Costs {
  let refusal: Refusal | undefined
  let costly = 0

  function refuse(node: ASTNode, message: string): void {
    refusal ??= { message, position: node.range?.start ?? node.pos }
  }

  /** `element` names what an expression that is run per element speaks of. */
  function visit(node: ASTNode, element: string | null): void {
    if (refusal !== undefined) return
    if (element !== null || isComparison(node)) costly++
    switch (node.op) {
      case 'value':
        return
      case 'id':
        if (element !== null && node.args !== element && !small.has(node.args)) {
          refuse(node, `within exists, all or filter only ${element} may be used, not ${node.args}`)
        }
        return
      case '.':
        return visit(node.args[0], element)
      case 'call':
        return visitCall(node, node.args, element)
      case 'rcall':
        return visitMethod(node, node.args, element)
      case '+':
        if (!node.args.some(isNumber)) refuse(node, 'one side of + must be a number')
        break
      case '.?':
      case '[?]':
        return refuse(node, 'optional fields are not available: use has()')
    }
    for (const child of childrenOf(node)) visit(child, element)
  }

  function visitCall(node: ASTNode, [name, args]: [string, ASTNode[]], element: string | null): void {
    if (!functions.has(name)) return refuse(node, `the function ${name} is not available`)
    for (const arg of args) visit(arg, element)
  }

  function visitMethod(
    node: ASTNode,
    [name, receiver, args]: [string, ASTNode, ASTNode[]],
    element: string | null,
  ): void {
    if (macros.has(name)) return visitMacro(name, receiver, args, element)
    if (!methods.has(name)) return refuse(node, `the function ${name} is not available`)
    if (searches.has(name) && !args.every(isText)) return refuse(node, `${name} takes a text in quotes`)
    visit(receiver, element)
    for (const arg of args) visit(arg, element)
  }

  function visitMacro(name: string, receiver: ASTNode, args: readonly ASTNode[], element: string | null): void {
    const [variable, condition] = args
    if (!isList(receiver)) return refuse(receiver, `${name} runs through a list of the message`)
    visit(receiver, element)
    if (variable?.op !== 'id' || condition === undefined || args.length !== 2) {
      return refuse(receiver, `${name} takes a name and a condition`)
    }
    if (variable.args === 'payload' || small.has(variable.args)) {
      return refuse(variable, `${variable.args} already means something else`)
    }
    visit(condition, variable.args)
  }

  visit(ast, null)
  return { refusal, costly }
}

/** Both sides may be as large as the payload. */
function isComparison(node: ASTNode): boolean {
  if (node.op !== '==' && node.op !== '!=' && node.op !== 'in') return false
  return !node.args.some((side) => side.op === 'value')
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
