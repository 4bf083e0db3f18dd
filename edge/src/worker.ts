import { refuse } from './answer.ts'
import { coalesce } from './coalesce.ts'
import { type Incoming, readIncoming } from './incoming.ts'
import { ingress } from './ingress.ts'
import { keptRoute } from './kept-routes.ts'
import { operate } from './operator.ts'
import { relay } from './relay.ts'
import { type Env, type Route, routesOf } from './route.ts'

export { DeliveryLedger } from './ledger.ts'
export { Outbox } from './outbox.ts'

/** The Worker: `/{route}` takes webhooks, `/-/…` is for the operator. The path chooses the route and nothing else. */
const worker: ExportedHandler<Env> = {
  async fetch(request, env, context) {
    // A sender that hangs up must not stop a delivery halfway, between the receiver's answer and its record.
    const handled = handle(request, env).catch((error: unknown) => {
      console.error(JSON.stringify({ event: 'bug', problem: String(error).slice(0, 500) }))
      return refuse('storage_unavailable', 'The edge failed; its log says why.', { 'retry-after': '1' })
    })
    context.waitUntil(handled)
    return handled
  },
}

// biome-ignore lint/style/noDefaultExport: the handlers of a Worker are its default export.
export default worker

async function handle(request: Request, env: Env): Promise<Response> {
  const [, first = '', ...rest] = new URL(request.url).pathname.split('/')
  if (first === '-') return operate(request, env, rest)
  const routes = routesOf(env)
  const kept =
    routes.byName.has(first) || routes.problems.has(first) ? undefined : await keptRoute(first, env, Date.now())
  const problem = routes.problems.get(first) ?? (kept && 'problem' in kept ? kept.problem : undefined)
  if (problem !== undefined) return refuse('misconfigured', 'The route is not set up right; see the log of the Worker.')
  const route = routes.byName.get(first) ?? (kept && 'route' in kept ? kept.route : undefined)
  if (route === undefined || rest.length > 0) return refuse('unknown_route', 'No route has this path.')
  // A provider may shake hands with GET; its judge decides.
  if (request.method !== 'POST' && route.mode !== 'ingress') {
    return refuse('method_not_allowed', 'Send webhooks with POST.', { allow: 'POST' })
  }
  const incoming = await readIncoming(request, route.maxBodyBytes)
  return incoming instanceof Response ? incoming : dispatch(route, env, incoming)
}

function dispatch(route: Route, env: Env, incoming: Incoming): Promise<Response> | Response {
  switch (route.mode) {
    case 'relay':
      return relay(route, env, incoming)
    case 'coalesce':
      return coalesce(route, env, incoming)
    case 'ingress':
      return ingress(route, env, incoming)
  }
}
