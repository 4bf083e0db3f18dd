import type { TSchema } from 'typebox'
import { Compile, type Validator } from 'typebox/compile'
import { AppError, type FieldError } from '../domain/app-error.ts'
import { patternMeanings } from './schemas/pattern.ts'

/** Which part of a request a value stands in; the first step of every path in an error. */
export type Part = 'body' | 'query'

type Problem = ReturnType<Validator['Errors']>[number]

/** Compiles a schema into a function that lists everything wrong with a value; empty when nothing is. */
export function compile(schema: TSchema, part: Part): (value: unknown) => FieldError[] {
  const validator = Compile(schema)
  return (value) => {
    if (validator.Check(value)) return []
    const problems = validator.Errors(value)
    return settleChoices(problems).flatMap((problem) => fieldErrors(problem, problems, part))
  }
}

/** Throws AppError `validation` when anything is wrong. */
export function refuseIf(problems: readonly FieldError[]): void {
  if (problems.length > 0) throw new AppError('validation', 'Some fields are not valid.', problems)
}

interface QuerySchema {
  readonly properties?: Readonly<Record<string, { readonly type?: unknown }>>
  readonly additionalProperties?: boolean
}

/** Turns the texts of a query string into what the schema of each asks for; what cannot be turned stays and is refused. */
export function readQuery(schema: TSchema, query: unknown): Record<string, unknown> {
  const { properties = {}, additionalProperties } = schema as QuerySchema
  const isClosed = additionalProperties === false
  const values: Record<string, unknown> = {}
  for (const [name, text] of Object.entries(query as Record<string, unknown>)) {
    if (!Object.hasOwn(properties, name) && !isClosed) continue
    const type = Object.hasOwn(properties, name) ? properties[name]?.type : undefined
    if (type === 'integer' && typeof text === 'string' && /^-?\d{1,15}$/.test(text)) values[name] = Number(text)
    else if (type === 'boolean' && (text === 'true' || text === 'false')) values[name] = text === 'true'
    else values[name] = text
  }
  return values
}

/**
 * For a value that may have one of several shapes, keeps only what is wrong with the shape it says it has: the one whose
 * type it is of and whose constants it meets. What is wrong with the others would only confuse.
 */
function settleChoices(problems: readonly Problem[]): Problem[] {
  const choices = problems.filter((problem) => problem.keyword === 'anyOf')
  return problems.filter((problem) => {
    for (const choice of choices) {
      const branches = new Set(branchesOf(choice, problems).keys())
      for (const other of problems) {
        const isOther = other.keyword === 'const' || (other.keyword === 'type' && isAt(other, choice))
        if (isOther) branches.delete(branchOf(other, choice) ?? '')
      }
      if (problem === choice) return branches.size !== 1
      const branch = branchOf(problem, choice)
      if (branch !== undefined && (branches.size !== 1 || !branches.has(branch))) return false
    }
    return true
  })
}

/** What is wrong with each shape of a choice. */
function branchesOf(choice: Problem, problems: readonly Problem[]): Map<string, Problem[]> {
  const branches = new Map<string, Problem[]>()
  for (const problem of problems) {
    const branch = branchOf(problem, choice)
    if (branch !== undefined) branches.set(branch, [...(branches.get(branch) ?? []), problem])
  }
  return branches
}

function branchOf({ schemaPath }: Problem, choice: Problem): string | undefined {
  const prefix = `${choice.schemaPath}/anyOf/`
  return schemaPath.startsWith(prefix) ? schemaPath.slice(prefix.length).split('/')[0] : undefined
}

function isAt({ instancePath }: Problem, { instancePath: other }: Problem): boolean {
  return instancePath === other
}

function fieldErrors(problem: Problem, problems: readonly Problem[], part: Part): FieldError[] {
  const at = [part, ...problem.instancePath.split('/').slice(1).map(pathStep)]
  if (problem.keyword === 'required') {
    const { requiredProperties } = problem.params as { requiredProperties: string[] }
    return requiredProperties.map((name) => ({ at: [...at, name], message: 'is required', type: 'required' }))
  }
  if (problem.keyword === 'additionalProperties') return []
  return [{ at, message: sentence(problem, problems), type: problem.keyword }]
}

/** What is wrong, with what would be right where that is one of a few. */
function sentence(problem: Problem, problems: readonly Problem[]): string {
  if (problem.keyword === 'enum') {
    const { allowedValues } = problem.params as { allowedValues: unknown[] }
    return `must be ${oneOf(allowedValues.map((value) => JSON.stringify(value)))}`
  }
  if (problem.keyword === 'pattern') {
    return patternMeanings.get(String((problem.params as { pattern: unknown }).pattern)) ?? problem.message
  }
  if (problem.keyword === 'boolean') return 'is not known here'
  if (problem.keyword !== 'anyOf') return problem.message
  const shapes = [...branchesOf(problem, problems).values()].map((branch) => shapeOf(branch, problem))
  return `must be ${oneOf([...new Set(shapes)])}`
}

/** A shape, by what a value lacks to be of it. */
function shapeOf(branch: readonly Problem[], choice: Problem): string {
  const constant = branch.find(({ keyword }) => keyword === 'const')
  if (constant !== undefined) {
    const value = JSON.stringify((constant.params as { allowedValue: unknown }).allowedValue)
    if (isAt(constant, choice)) return value
    return `an object with ${constant.instancePath.slice(choice.instancePath.length + 1)} ${value}`
  }
  const [first] = branch.filter((problem) => isAt(problem, choice))
  const { type, requiredProperties } = (first?.params ?? {}) as { type?: string; requiredProperties?: string[] }
  if (requiredProperties !== undefined) return `an object with ${requiredProperties.join(', ')}`
  return type === 'null' ? 'null' : type === undefined || type === 'object' ? 'an object' : `a ${type}`
}

function oneOf(texts: readonly string[]): string {
  return texts.length < 2 ? texts.join('') : `${texts.slice(0, -1).join(', ')} or ${texts.at(-1)}`
}

function pathStep(step: string): string | number {
  return /^\d+$/.test(step) ? Number(step) : step.replaceAll('~1', '/').replaceAll('~0', '~')
}
