import { openApi } from './api.ts'
import { isOfOperations } from './paths.ts'

export interface DeclaredRoute {
  readonly method: string
  readonly url: string
}

/** The routes the API has, as it declares them: without HEAD, which comes with GET, and what answers other methods. */
export async function declaredRoutes(): Promise<DeclaredRoute[]> {
  const { app } = await openApi()
  const declared = new Map<string, DeclaredRoute>()
  let ofOperations = true
  app.addHook('onRoute', ({ method, url }) => {
    // The answers to other methods come last, and with them the first OPTIONS.
    if (method === 'OPTIONS') ofOperations = false
    if (!ofOperations || !isOfOperations(url)) return
    for (const name of [method].flat()) if (name !== 'HEAD') declared.set(`${name} ${url}`, { method: name, url })
  })
  await app.ready()
  return [...declared.values()]
}
