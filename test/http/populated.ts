import { encodeId } from '../../src/domain/ids.ts'
import type { Verdict } from '../../src/domain/judge.ts'
import type { Route } from '../../src/operations/route.ts'
import { systemRandomText } from '../../src/runtime/random.ts'
import type { Store } from '../../src/store/store.ts'
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
  const mine = await populate(api, 'mine')
  const theirs = await populate(api, 'theirs')
  const attempts = await failOnce(api.store)
  const withAttempt = (ids: Ids) => ({ ...ids, attempt: attempts.get(ids.endpoint ?? '') ?? '' })
  return { ...api, mine: withAttempt(mine), theirs: withAttempt(theirs) }
}

async function populate({ ask }: Api, uid: string): Promise<Ids> {
  const make = async (path: string, body: unknown): Promise<string> => {
    const { status, text, json } = await ask('POST', `/api/v1${path}`, body)
    if (status >= 300) throw new Error(`${status} ${text}`)
    return json.id
  }
  const app = await make('/app', { name: uid, uid, subjectPointers: ['/of'] })
  const endpoint = await make(`/app/${app}/endpoint`, { url: 'https://example.com/' })
  const message = await make(`/app/${app}/msg`, { eventType: 'x', payload: { of: uid } })
  const key = await make('/api-key', { name: uid, scopes: ['read'], app })
  const session = (await ask('POST', '/api/v1/session')).json.sessionId
  const name = `${uid}.happened`
  await make('/event-type', { name, description: uid, schemas: { 1: { type: 'object' } } })
  const operational = await make('/operational-webhook/endpoint', { url: 'https://example.com/' })
  const task = await make(`/app/${app}/dead/replay`, {})
  const erasure = await make(`/app/${app}/subject/erase`, { subject: 'nobody' })
  const schedule = await make(`/app/${app}/schedule`, { cron: '0 7 * * *', eventType: 'x', payload: {} })
  const { id: source, url } = (await ask('POST', `/api/v1/app/${app}/source`, { provider: 'github' })).json
  const token = new URL(url).pathname.slice('/in/'.length)
  const region = `region-${uid}-${'0'.repeat(18)}`
  await make(`/app/${app}/region`, { name: region })
  const silence = await make('/alert/silence', { seconds: 60 })
  const view = await make('/view', { name: uid, of: 'endpoints' })
  const things = { schedule, source, token, region, session, silence, view }
  return { app, endpoint, message, key, name, operational, task, erasure, ...things }
}

/** Plays a worker whose every attempt fails with this verdict. Gives the id of the attempt by that of the endpoint. */
export async function failOnce(
  store: Store,
  verdict: Verdict = { state: 'dead', reason: 'exhausted' },
): Promise<Map<string, string>> {
  const worker = await store.join({ leaseMs: 60_000, description: 'test' })
  const { lanes } = await store.claim(worker, 10)
  const attempts = new Map<string, string>()
  for (const { endpoint } of lanes) {
    const [due] = await store.readDue([{ endpoint: endpoint.key, class: 0, after: null, limit: 1 }])
    const row = due?.rows[0]
    if (row === undefined) continue
    const id = encodeId('atmpt', endpoint.key, systemRandomText)
    const attempt = {
      id,
      startedAgoMs: () => 5,
      durationMs: 4,
      status: 500,
      code: 'refused' as const,
      error: null,
      response: Buffer.from('no'),
    }
    await store.settle(worker, [{ endpoint: endpoint.key, app: endpoint.app, row, attempt, verdict }], {
      holds: [],
      disable: [],
      health: [],
    })
    attempts.set(endpoint.id, id)
  }
  return attempts
}

/** A route's path with ids in it. */
export function fill(path: string, ids: Ids): string {
  return path.replaceAll(/:(\w+)/g, (_, name: string) => {
    const id = ids[path.startsWith('/operational-webhook') ? 'operational' : name]
    if (id === undefined) throw new Error(`There is no ${name} to put into ${path}.`)
    return encodeURIComponent(id)
  })
}

/** Whether an operation takes a JSON body. */
export function takesJson({ body }: Route): boolean {
  return typeof body === 'object' && !('lines' in body)
}
