import { allAtOnce } from '../../src/domain/turns.ts'
import type { Arrival, Judgement } from '../../src/sources/arrival.ts'
import { KeySets } from '../../src/sources/key-sets.ts'
import type { ProviderName } from '../../src/sources/providers.ts'
import type { Settings } from '../../src/sources/settings.ts'
import { openVerifier, type Verifier } from '../../src/sources/verifier.ts'

/** A request with a JSON body, unless it says otherwise. */
export function arrivalOf(
  given: Partial<Omit<Arrival, 'body'>> & { readonly body?: string | Uint8Array } = {},
): Arrival {
  return {
    method: given.method ?? 'POST',
    url: given.url ?? 'https://sluice.example/in/token',
    headers: { 'content-type': 'application/json', ...given.headers },
    body: typeof given.body === 'string' || given.body === undefined ? Buffer.from(given.body ?? '{}') : given.body,
  }
}

/** Key sets that no test fetches. */
export const noKeySets = new KeySets(() => Promise.reject(new Error('No keys are fetched here.')))

interface Given {
  readonly secret?: string
  readonly settings?: Settings
}

export function verifierOf(
  provider: ProviderName,
  { secret, settings = {} }: Given = {},
  keySets = noKeySets,
): Verifier {
  const secrets = secret === undefined ? [] : [{ secret, expiresAt: null }]
  return openVerifier({ provider, settings, secrets }, { keySets, compute: allAtOnce })
}

export function judged(
  provider: ProviderName,
  given: Given,
  arrival: Arrival,
  nowMs = 1_700_000_000_000,
): Promise<Judgement> {
  return verifierOf(provider, given).judge(arrival, nowMs)
}

export function secondsOf(ms: number): string {
  return String(Math.floor(ms / 1000))
}
