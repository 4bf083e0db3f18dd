import type { TSchema } from 'typebox'
import { Compile, type Validator } from 'typebox/compile'
import { AppError, type FieldError } from '../domain/app-error.ts'

/** Which part of a request a value stands in; the first step of every path in an error. */
export type Part = 'body' | 'query'

type Problem = ReturnType<Validator['Errors']>[number]

/** Compiles a schema into a function that lists everything wrong with a value; empty when nothing is. */
export function compile(schema: TSchema, part: Part): (value: unknown) => FieldError[] {
  const validator = Compile(schema)
  return (value) => {
    if (validator.Check(value)) return []
    return settleChoices(validator.Errors(value)).flatMap((problem) => fieldErrors(problem, part))
  }
}

/** Throws AppError `validation` when anything is wrong. */
export function refuseIf(problems: readonly FieldError[]): void {
  if (problems.length > 0) throw new AppError('validation', 'Some fields are not valid.', problems)
}

/** Turns the texts of a query string into what the schema of each asks for; what cannot be turned stays and is refused. */
export function readQuery(schema: TSchema, query: unknown): Record<string, unknown> {
  const properties = (schema as { properties?: Record<string, { type?: unknown }> }).properties ?? {}
  const values: Record<string, unknown> = {}
  for (const [name, text] of Object.entries(query as Record<string, unknown>)) {
    if (!Object.hasOwn(properties, name)) continue
    const type = properties[name]?.type
    if (type === 'integer' && typeof text === 'string' && /^-?\d{1,15}$/.test(text)) values[name] = Number(text)
    else if (type === 'boolean' && (text === 'true' || text === 'false')) values[name] = text === 'true'
    else values[name] = text
  }
  return values
}

/**
 * For a value that may have one of several shapes, keeps only what is wrong with the shape it says it has: the one whose
 * constants it meets. What is wrong with the others would only confuse.
 */
function settleChoices(problems: readonly Problem[]): Problem[] {
  const choices = problems.filter((problem) => problem.keyword === 'anyOf')
  return problems.filter((problem) => {
    for (const choice of choices) {
      const prefix = `${choice.schemaPath}/anyOf/`
      const branches = new Set(
        problems.map((other) => branchOf(other, prefix)).filter((branch) => branch !== undefined),
      )
      const meant = [...branches].filter(
        (branch) => !problems.some((other) => other.keyword === 'const' && branchOf(other, prefix) === branch),
      )
      if (problem === choice) return meant.length !== 1
      const branch = branchOf(problem, prefix)
      if (branch !== undefined && (meant.length !== 1 || meant[0] !== branch)) return false
    }
    return true
  })
}

function branchOf(problem: Problem, prefix: string): string | undefined {
  return problem.schemaPath.startsWith(prefix) ? problem.schemaPath.slice(prefix.length).split('/')[0] : undefined
}

function fieldErrors(problem: Problem, part: Part): FieldError[] {
  const at = [part, ...problem.instancePath.split('/').slice(1).map(pathStep)]
  if (problem.keyword === 'required') {
    const { requiredProperties } = problem.params as { requiredProperties: string[] }
    return requiredProperties.map((name) => ({ at: [...at, name], message: 'is required', type: 'required' }))
  }
  const message = problem.keyword === 'anyOf' ? 'must have one of the permitted shapes' : problem.message
  return [{ at, message, type: problem.keyword }]
}

function pathStep(step: string): string | number {
  return /^\d+$/.test(step) ? Number(step) : step.replaceAll('~1', '/').replaceAll('~0', '~')
}
