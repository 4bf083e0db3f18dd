import type { Operation } from '../../src/http/operations/operation.ts'
import { type Api, openApi } from './api.ts'

/** Ids by the names the routes give the parts of their paths. */
export type Ids = Readonly<Record<string, string>>

export interface Populated extends Api {
  /** Things of one application … */
  readonly mine: Ids
  /** … and of another. */
  readonly theirs: Ids
}

/** An API in which two applications have one of everything that a path can name. */
export async function openPopulated(overrides: Parameters<typeof openApi>[0] = {}): Promise<Populated> {
  const api = await openApi(overrides)
  const populate = async (uid: string): Promise<Ids> => {
    const app = (await ok(api.ask('POST', '/app', { name: uid, uid }))).id
    const endpoint = (await ok(api.ask('POST', `/app/${app}/endpoint`, { url: 'https://example.com/' }))).id
    const message = (await ok(api.ask('POST', `/app/${app}/msg`, { eventType: 'x', payload: { of: uid } }))).id
    const key = (await ok(api.ask('POST', '/api/v1/api-key', { name: uid, scopes: ['read'], app }))).id
    const name = `${uid}.happened`
    await ok(api.ask('POST', '/api/v1/event-type', { name, description: uid, schemas: { 1: { type: 'object' } } }))
    return { app, endpoint, message, key, name }
  }
  return { ...api, mine: await populate('mine'), theirs: await populate('theirs') }
}

async function ok(asked: ReturnType<Api['ask']>) {
  const answer = await asked
  if (answer.status >= 300) throw new Error(`${answer.status} ${answer.text}`)
  return answer.json
}

/** A route's path with ids in it. */
export function fill(path: string, ids: Ids): string {
  return path.replaceAll(/:(\w+)/g, (_, name: string) => {
    const id = ids[name]
    if (id === undefined) throw new Error(`There is no ${name} to put into ${path}.`)
    return encodeURIComponent(id)
  })
}

/** Whether an operation takes a JSON body. */
export function takesJson({ body }: Operation): boolean {
  return typeof body === 'object'
}
