/** The ways in which Sluice signs requests. */
export const signatureProfiles = ['standard', 'stored', 'timestamped', 'github', 'stripe'] as const
export type SignatureProfile = (typeof signatureProfiles)[number]

/** Families of header names: `webhook-id` and so on, `svix-id` and so on, or both side by side. */
export type HeaderFamily = 'webhook' | 'svix' | 'both'

/** Header names of an application's own, which replace those of the family `webhook`. */
export interface OwnNames {
  readonly id?: string
  readonly timestamp?: string
  readonly signature?: string
}

/** A family, or names that replace those of `webhook`. */
export type SignatureHeaders = HeaderFamily | OwnNames

/** The names of the headers that carry the parts of a signature. A profile without a timestamp header has an empty name. */
export type PartNames = Readonly<Required<OwnNames>>

const standardHeaders = { id: 'webhook-id', timestamp: 'webhook-timestamp', signature: 'webhook-signature' }
const svixHeaders = { id: 'svix-id', timestamp: 'svix-timestamp', signature: 'svix-signature' }
const sluiceHeaders = { timestamp: 'x-sluice-timestamp', signature: 'x-sluice-signature' }
const fixedHeaders = { github: 'x-hub-signature-256', stripe: 'stripe-signature' }

/**
 * The names of the headers that carry the parts of a signature by a profile. Signing and verifying both go by it. The id
 * is the same on every attempt, and every profile sends it, because a receiver recognizes duplicates by it. Two sets of
 * names carry the same values.
 */
export function headerNames(
  profile: SignatureProfile,
  headers: SignatureHeaders,
): readonly [PartNames, ...PartNames[]] {
  if (headers === 'svix') return [namesOf(profile, svixHeaders, {})]
  if (headers === 'both') return [namesOf(profile, standardHeaders, {}), namesOf(profile, svixHeaders, {})]
  return [namesOf(profile, standardHeaders, headers === 'webhook' ? {} : headers)]
}

function namesOf(profile: SignatureProfile, family: PartNames, own: OwnNames): PartNames {
  if (profile === 'standard') return { ...family, ...own }
  const { id } = { ...family, ...own }
  if (profile === 'stored' || profile === 'timestamped') return { ...sluiceHeaders, ...own, id }
  return { id, timestamp: '', signature: fixedHeaders[profile] }
}

/** The header beside a signature header that carries the signatures of older secrets. */
export function olderHeader(name: string): string {
  return `${name}-old`
}
