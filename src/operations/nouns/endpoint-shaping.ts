import { type Static, Type } from 'typebox'
import type { FieldError } from '../../domain/app-error.ts'
import { defaultFlow, type Flow, type Shape, signatureProfiles } from '../../domain/flow.ts'
import { pointerDepthLimit, readPointer } from '../../json/pointer.ts'
import { checkFilter, FilterError, filterLimit } from '../../shaping/filter.ts'
import { closed, described, innerPointerPattern, namePattern, nullable } from '../fields.ts'

const fieldsLimit = 100
const pointer = Type.String({ maxLength: 512, pattern: innerPointerPattern })
const pointers = (description: string, minItems = 0) =>
  Type.Array(pointer, { minItems, maxItems: fieldsLimit, uniqueItems: true, description })
const memberName = Type.String({ minLength: 1, maxLength: 256 })

export const regionName = Type.String({ minLength: 1, maxLength: 128, pattern: namePattern })

export const shapeMeanings = {
  keep: 'JSON pointers: only these fields. Null: all. A `*` stands for every element of an array',
  drop: 'JSON pointers: not these fields',
  rename: 'New names of fields, by JSON pointer to the old ones',
  pseudonymize: "JSON pointers: fields to be replaced by a pseudonym made with the region's secret",
} as const

/** The fields of a payload that an endpoint gets. */
export const ShapeIn = Type.Object(
  {
    keep: Type.Optional(nullable(pointers(shapeMeanings.keep, 1))),
    drop: Type.Optional(pointers(shapeMeanings.drop)),
    rename: Type.Optional(
      Type.Record(pointer, memberName, { maxProperties: fieldsLimit, description: shapeMeanings.rename }),
    ),
    pseudonymize: Type.Optional(pointers(shapeMeanings.pseudonymize)),
  },
  closed,
)

/** Which messages an endpoint gets, in which form, and how they are signed. */
export const shapingFields = {
  filter: Type.Optional(
    nullable(
      Type.String({
        minLength: 1,
        maxLength: filterLimit,
        description:
          'CEL condition over `payload`, `eventType`, `eventId`, `channels` and `tags`. A message is delivered only if it is true.',
      }),
    ),
  ),
  shape: Type.Optional(
    nullable(
      described(
        ShapeIn,
        'Fields of the payload that the endpoint gets; null for all. It stays when the endpoint is replaced without it.',
      ),
    ),
  ),
  region: Type.Optional(
    nullable(
      described(
        regionName,
        'Region whose secret makes the pseudonyms. It stays when the endpoint is replaced without it.',
      ),
    ),
  ),
  signature: Type.Optional(
    nullable(
      Type.Enum([...signatureProfiles], { description: 'Signature profile of the requests; `standard` by default.' }),
    ),
  ),
}

const ShapingIn = Type.Object(shapingFields)
type ShapingIn = Static<typeof ShapingIn>

/** The fields that a request sets, as the domain names them; the others are undefined. */
export function toShaping({ filter, shape, region, signature }: ShapingIn) {
  return {
    filter,
    shape: shape && toShape(shape),
    region,
    signature: signature === null ? defaultFlow.signature : signature,
  }
}

/** A shape that changes nothing is stored as null. */
function toShape({ keep, drop, rename, pseudonymize }: Static<typeof ShapeIn>): Shape | null {
  const shape = { keep: keep ?? null, drop: drop ?? [], rename: rename ?? {}, pseudonymize: pseudonymize ?? [] }
  const isEmpty = shape.drop.length + shape.pseudonymize.length + Object.keys(shape.rename).length === 0
  return shape.keep === null && isEmpty ? null : shape
}

/** Problems of the fields beyond their syntax. */
export function shapingProblems({ filter, shape, region, secrets = [], signature }: Shaped): FieldError[] {
  const problems = filter === null ? [] : filterProblems(filter)
  if (shape !== null) problems.push(...shapeProblems(shape))
  if (shape !== null && shape.pseudonymize.length > 0 && region === null) {
    const message = 'is needed for pseudonyms: create one, and name it here'
    problems.push({ at: ['body', 'region'], message, type: 'region' })
  }
  if (signature !== 'standard' && secrets.some(({ secret }) => secret.startsWith('whsk_'))) {
    const message = `signs with a shared secret, but the endpoint's is an ed25519 key`
    problems.push({ at: ['body', 'signature'], message, type: 'signature' })
  }
  return problems
}

interface Shaped extends Flow {
  readonly secrets?: readonly { readonly secret: string }[] | undefined
}

function filterProblems(filter: string): FieldError[] {
  try {
    checkFilter(filter)
    return []
  } catch (error) {
    if (!(error instanceof FilterError)) throw error
    return [{ at: ['body', 'filter'], message: error.message, type: 'filter' }]
  }
}

function shapeProblems({ keep, drop, rename, pseudonymize }: Shape): FieldError[] {
  const named = Object.keys(rename).map((text) => ({ at: ['rename', text], text }))
  const listed = Object.entries({ keep: keep ?? [], drop, pseudonymize }).flatMap(([list, texts]) =>
    texts.map((text, i) => ({ at: [list, i], text })),
  )
  const problems: FieldError[] = [...listed, ...named]
    .filter(({ text }) => readPointer(text) === undefined)
    .map(({ at }) => ({
      at: ['body', 'shape', ...at],
      message: `must be a JSON pointer of at most ${pointerDepthLimit} steps`,
      type: 'pointer',
    }))
  const taken = new Set<string>()
  for (const [text, name] of Object.entries(rename)) {
    const place = `${text.slice(0, text.lastIndexOf('/'))}/${name}`
    if (taken.has(place)) {
      const message = `another field beside it is renamed to ${JSON.stringify(name)}, too`
      problems.push({ at: ['body', 'shape', 'rename', text], message, type: 'rename' })
    }
    taken.add(place)
  }
  return problems
}

/** The fields of a payload that an endpoint gets. */
export const ShapeOut = Type.Object({
  keep: nullable(Type.Array(Type.String(), { description: shapeMeanings.keep })),
  drop: Type.Array(Type.String(), { description: shapeMeanings.drop }),
  rename: Type.Record(Type.String(), Type.String(), { description: shapeMeanings.rename }),
  pseudonymize: Type.Array(Type.String(), { description: shapeMeanings.pseudonymize }),
})

/** Which messages an endpoint gets, in which form, and how they are signed. */
export const shapingOut = {
  filter: nullable(
    Type.String({ description: 'CEL condition over the message; a message is delivered only if it is true.' }),
  ),
  shape: nullable(
    described(
      ShapeOut,
      'Fields of the payload that the endpoint gets; null for all. It stays when the endpoint is replaced without it.',
    ),
  ),
  region: nullable(Type.String({ description: 'The region whose secret its pseudonyms are made with' })),
  signature: Type.Enum([...signatureProfiles], { description: 'Signature profile of the requests.' }),
}
