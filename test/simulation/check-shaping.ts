import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import type { Flow, Shape } from '../../src/domain/flow.ts'
import type { Arrival, EndpointFacts } from './history.ts'
import type { Seeded } from './seeded.ts'

/** In which form an endpoint gets its messages. */
export interface FormWish {
  readonly shaped: boolean
  /** Every secret it ever signed with; none when signatures are not stored. */
  readonly secrets: string[]
}

/** The name of the field for endpoints that do not get it under its own name. */
const names = ['number', 'count']

/** The first shape of an endpoint. */
export function randomForm(chance: Seeded): FormWish {
  const shaped = chance.chance(0.3)
  return { shaped, secrets: chance.chance(0.3) ? [randomSecret(chance)] : [] }
}

export function randomSecret(chance: Seeded): string {
  return `whsec_${Buffer.from(String(chance.next())).toString('base64')}`
}

export function randomShape(chance: Seeded): Shape {
  return { keep: null, drop: [], rename: { '/n': chance.pick(names) }, pseudonymize: [] }
}

/** The settings that make it so. */
export function flowOf({ shaped, secrets }: FormWish, chance: Seeded): Partial<Flow> {
  return {
    shape: shaped ? randomShape(chance) : null,
    signature: secrets.length > 0 ? 'stored' : 'standard',
  }
}

/** The body as it was published, of what arrived in any form. */
export function publishedBody(raw: string): string {
  return names.reduce((body, name) => body.replace(`"${name}":`, '"n":'), raw)
}

/**
 * Each message arrives at an endpoint in the form the endpoint asked for when it was published, byte for byte the same on
 * every attempt, by any worker and after any change; and so does the signature, where that is stored.
 */
export function formsAreFixed({ key, form }: EndpointFacts, arrivals: readonly Arrival[]): void {
  const first = new Map<string, Arrival>()
  for (const arrival of arrivals) {
    const { raw, body, message, signature } = arrival
    const label = `${body} at ${key}`
    assert.equal(form.shaped, raw !== body, `${label} arrived ${form.shaped ? 'whole' : 'shaped'}`)
    const earlier = first.get(message) ?? arrival
    first.set(message, earlier)
    assert.equal(raw, earlier.raw, `${label} arrived in two forms`)
    assert.equal(signature, earlier.signature, `${label} arrived with two signatures`)
    const signed = form.secrets.map((secret) => createHmac('sha256', secret).update(raw).digest('hex'))
    assert.ok(signed.length === 0 ? signature === null : signed.includes(signature ?? ''), `${label} is signed wrongly`)
  }
}
