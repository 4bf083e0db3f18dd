import type { Env, RelayRoute } from './route.ts'
import { namePattern, problemOf, readRoute, secretsIn } from './route.ts'

/** A Worker may have 64 or 128 variables; these routes are entries of the KV namespace ROUTES, as many as there are receivers. */
type Kept = { readonly route: RelayRoute } | { readonly problem: string } | undefined

/** How long an isolate goes by an entry that it read, and by its absence. */
const keptMs = 30_000
/** Entries that an isolate remembers. */
const mostKept = 2000

const kept = new Map<string, { readonly until: number; readonly route: Kept }>()

/**
 * The route of an entry `orders` in KV, such as `{"to": "https://…", "secret": "whsec_…"}`; undefined without one. Only
 * relays can be there: those that store requests send them later, and by then the entry may be another's.
 */
export async function keptRoute(name: string, env: Env, now: number): Promise<Kept> {
  if (env.ROUTES === undefined || !namePattern.test(name)) return undefined
  const known = kept.get(name)
  if (known !== undefined && known.until > now) return known.route
  // Each request reads for itself: a request must not wait for the reading of another.
  const route = await readKept(name, env, env.ROUTES)
  kept.delete(name)
  if (kept.size >= mostKept) kept.delete(kept.keys().next().value as string)
  kept.set(name, { until: now + keptMs, route })
  return route
}

async function readKept(name: string, env: Env, namespace: KVNamespace): Promise<Kept> {
  const text = await namespace.get(name)
  if (text === null) return undefined
  try {
    const { secret, ...fields } = JSON.parse(text) as Readonly<Record<string, unknown>>
    const route = readRoute(name, env, { mode: 'relay', ...fields }, secretsIn(secret))
    if (route.mode !== 'relay') throw new RangeError('field mode must be relay for a route in KV')
    return { route }
  } catch (error) {
    const problem = `${name} of ROUTES: ${problemOf(error)}`
    console.error(JSON.stringify({ event: 'misconfigured', route: name, problem }))
    return { problem }
  }
}
