import { refuse } from './answer.ts'
import { keptRoute } from './kept-routes.ts'
import { type Env, leastToken, type Route, routesOf } from './route.ts'
import { attempted } from './storage.ts'

const page = 50
const largest = Number.MAX_SAFE_INTEGER

/**
 * The paths for the operator, below `/-/`. All but the health need `EDGE_TOKEN` as bearer token.
 *
 *   GET    /-/health                         whether every route can be used
 *   GET    /-/status                         the routes, and the problems of those that cannot be used
 *   GET    /-/status/{route}                 the figures of a route, summed over its shards
 *   GET    /-/failures/{route}               failures from the newest on, a page per shard
 *   GET    /-/failures/{route}/{failure}     the request of a failure as it came
 *   POST   /-/failures/{route}/{failure}     forwards it again
 *   DELETE /-/failures/{route}/{failure}     deletes it
 */
export async function operate(request: Request, env: Env, path: readonly string[]): Promise<Response> {
  const routes = routesOf(env)
  const isHealthy = routes.problems.size === 0 && (routes.byName.size > 0 || env.ROUTES !== undefined)
  if (path.length === 1 && path[0] === 'health') {
    return Response.json({ healthy: isHealthy, routes: routes.byName.size }, { status: isHealthy ? 200 : 500 })
  }
  if (!(await isOperator(request, env))) {
    return refuse('unauthorized', 'Send the secret EDGE_TOKEN as bearer token.', { 'www-authenticate': 'Bearer' })
  }
  const [noun, name = '', failure] = path
  if (noun === 'status' && path.length === 1) return overview(env)
  const kept = routes.byName.has(name) ? undefined : await keptRoute(name, env, Date.now())
  const route = routes.byName.get(name) ?? (kept && 'route' in kept ? kept.route : undefined)
  if (route !== undefined && noun === 'status' && path.length === 2) return status(env, route)
  if (route === undefined || noun !== 'failures' || path.length > 3) {
    return refuse('not_found', `There is no ${request.method} /-/${path.join('/').slice(0, 100)}.`)
  }
  if (failure === undefined) return listFailures(request, env, route)
  return oneFailure(request, env, route, failure)
}

/** Whether the request carries the token. Digests are compared, so that the time says nothing about the token. */
async function isOperator(request: Request, { EDGE_TOKEN: token }: Env): Promise<boolean> {
  const given = /^Bearer (\S+)$/i.exec(request.headers.get('authorization') ?? '')?.[1]
  if (token === undefined || token.length < leastToken || given === undefined) return false
  const digest = (text: string) => crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))
  return crypto.subtle.timingSafeEqual(await digest(given), await digest(token))
}

function overview(env: Env): Response {
  const { byName, problems } = routesOf(env)
  // Only the origin: a path may hold the token of a source.
  const routes = [...byName.values()].map(({ name, mode, to, shards }) => [
    name,
    { mode, to: new URL(to).origin, shards },
  ])
  return Response.json({ routes: Object.fromEntries(routes), problems: Object.fromEntries(problems) })
}

async function status(env: Env, route: Route): Promise<Response> {
  const shards = await Promise.all(shardNames(route).map((name) => attempted(() => shardStatus(env, route, name))))
  const figures: Record<string, number | string | null> = {}
  for (const shard of shards) {
    for (const [figure, value] of Object.entries(shard ?? {})) {
      const known = figures[figure]
      figures[figure] = typeof value === 'number' ? Number(known ?? 0) + value : (value ?? known ?? null)
    }
  }
  return Response.json({ ...figures, silentShards: shards.filter((shard) => shard === undefined).length })
}

async function shardStatus(env: Env, route: Route, name: string): Promise<object> {
  if (route.mode !== 'relay') return { ...(await env.OUTBOX.getByName(name).status()) }
  return route.dedupe === 'object' ? { ...(await env.LEDGER.getByName(name).status()) } : {}
}

async function listFailures(request: Request, env: Env, route: Route): Promise<Response> {
  if (route.mode === 'relay') return Response.json({ failures: [] })
  const before = new URL(request.url).searchParams.get('before')
  const [inShard, bySeq] = before === null ? [undefined, largest] : (readFailure(before) ?? [undefined, 0])
  const lists = await Promise.all(
    shardNames(route).map(async (name, shard) => {
      if (inShard !== undefined && inShard !== shard) return []
      const failures = await env.OUTBOX.getByName(name).listFailures(bySeq, page)
      return failures.map((failure) => ({ ...failure, failure: `${shard}-${failure.failure}` }))
    }),
  )
  const failures = lists.flat().sort((a, b) => (a.failedAt < b.failedAt ? 1 : -1))
  return Response.json({ failures })
}

async function oneFailure(request: Request, env: Env, route: Route, text: string): Promise<Response> {
  const missing = () =>
    refuse('not_found', `The route ${route.name} has no failure ${JSON.stringify(text.slice(0, 40))}.`)
  const [shard, failure] = readFailure(text) ?? []
  if (shard === undefined || failure === undefined || shard >= route.shards || route.mode === 'relay') return missing()
  const outbox = env.OUTBOX.getByName(shardNames(route)[shard] as string)
  switch (request.method) {
    case 'GET': {
      const found = await outbox.readFailure(failure)
      if (found === undefined) return missing()
      // The headers of a stranger's request are shown as data, so that none of them acts in a browser.
      return Response.json({ headers: found.headers, body: Buffer.from(found.body).toString('base64') })
    }
    case 'POST':
      return (await outbox.retryFailure(failure)) ? Response.json({ outcome: 'stored' }, { status: 202 }) : missing()
    case 'DELETE':
      return (await outbox.deleteFailure(failure)) ? new Response(null, { status: 204 }) : missing()
    default:
      return refuse('method_not_allowed', 'Use GET, POST or DELETE.', { allow: 'GET, POST, DELETE' })
  }
}

/** The shard and the number of a failure, such as `3-17`. */
function readFailure(text: string): [number, number] | undefined {
  const found = /^(\d{1,3})-(\d{1,15})$/.exec(text)
  return found === null ? undefined : [Number(found[1]), Number(found[2])]
}

function shardNames({ name, shards }: Route): string[] {
  return Array.from({ length: shards }, (_, shard) => `${name}/${shard}`)
}
