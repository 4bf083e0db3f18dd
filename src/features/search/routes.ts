import { Type } from 'typebox'
import { decodeKey } from '../../domain/ids.ts'
import { Turns } from '../../domain/turns.ts'
import { read } from '../../operations/access.ts'
import { nullable, text } from '../../operations/fields.ts'
import { isRef } from '../../operations/lookup.ts'
import { type Noun, type Out, route } from '../../operations/route.ts'
import type { Services } from '../../operations/services.ts'
import type { Store } from '../../store/store.ts'
import { searchEndpoints } from './list-routes.ts'

const kinds = ['application', 'endpoint', 'message', 'schedule', 'source', 'task'] as const

const FoundOut = Type.Object({
  kind: Type.Enum([...kinds], { description: 'Kind of thing.' }),
  id: text('Its id.'),
  appId: nullable(text('Id of its application; null for a task.')),
  name: text('Its display name, URL, event type or kind of work.'),
})

type SearchHit = Out<typeof FoundOut>

const FindOut = Type.Object({ data: Type.Array(FoundOut, { description: 'The best match first, up to 20.' }) })

const most = 20

/** Applications that are searched by name, and for a message by its eventId. */
const searchedApps = 2000

const appsAtOnce = 100

export const finding = {
  tag: 'Find',
  description: 'Search for objects by id, uid, URL or name.',
  schemas: { FoundOut, FindOut },
  routes: [
    route('GET /find', read, {
      id: 'v1.find.get',
      summary: 'Find things by an id, a uid, a URL or a name',
      description:
        'An id or a uid of an application, endpoint, message, schedule, source or task; the eventId of a message; a part of the URL of an endpoint or of the name of an application. Of very many applications the newest 2,000 are searched by name and for an eventId.',
      query: Type.Object({
        text: Type.String({ minLength: 1, maxLength: 256, description: 'The name, or a part of it.' }),
      }),
      answers: { 200: FindOut },
      handle: async ({ query }, services) => {
        const wanted = query.text.trim()
        const exact = await byId(services.store, wanted)
        const data = exact.length > 0 ? exact : await byName(services, wanted)
        return { data: data.slice(0, most) }
      },
    }),
  ],
} satisfies Noun

type SearchServices = Pick<Services, 'store' | 'clock'>

/** The thing that an id names. An id begins with its key, so that each is one read. */
async function byId(store: Store, id: string): Promise<SearchHit[]> {
  if (!isRef(id)) return []
  const prefixes = ['app', 'ep', 'msg', 'sch', 'src'] as const
  const [app, endpoint, message, schedule, source] = prefixes.map((prefix) => decodeKey(prefix, id))
  if (app !== undefined) {
    const found = await store.findApplication(id)
    return found === undefined ? [] : [{ kind: 'application', id, appId: id, name: found.name }]
  }
  if (endpoint !== undefined) {
    const [found] = await store.loadEndpoints([endpoint])
    return found?.id === id ? within(store, found.app, { kind: 'endpoint', id, name: found.url }) : []
  }
  if (message !== undefined) {
    const [found] = await store.loadSummaries([message])
    return found?.id === id ? within(store, found.app, { kind: 'message', id, name: found.eventType }) : []
  }
  if (schedule !== undefined) {
    const page = await store.listSchedules(null, { after: schedule - 1, limit: 1, order: 'ascending' })
    const [found] = page.items
    return found?.id === id ? within(store, found.app, { kind: 'schedule', id, name: found.cron }) : []
  }
  if (source !== undefined) {
    const found = await store.sourceAt(source)
    return found?.id === id ? [{ kind: 'source', id, appId: found.appId, name: found.name }] : []
  }
  if (decodeKey('qtask', id) === undefined) return []
  const task = await store.findTask(id)
  return task === undefined ? [] : [{ kind: 'task', id, appId: null, name: task.work.type }]
}

async function within(store: Store, app: number, found: Omit<SearchHit, 'appId'>): Promise<SearchHit[]> {
  const ref = (await store.applicationRefs([app])).get(app)
  return ref === undefined ? [] : [{ ...found, appId: ref.id }]
}

/** Things whose names contain a text: uids and eventIds as a whole, URLs and display names in part. */
async function byName(sources: SearchServices, name: string): Promise<SearchHit[]> {
  const { store, clock } = sources
  const found: SearchHit[] = []
  const wanted = name.toLowerCase()
  const canBeRef = isRef(name)
  const turns = Turns.by(clock)
  for (let seen = 0, after: number | null = null; seen < searchedApps && found.length < most; ) {
    const page = await store.listApplications({ after, limit: appsAtOnce, order: 'descending' })
    for (const { key, id, uid, name: display } of page.items) {
      after = key
      if (uid === name) found.unshift({ kind: 'application', id, appId: id, name: display })
      else if (display.toLowerCase().includes(wanted) || uid?.toLowerCase().includes(wanted)) {
        found.push({ kind: 'application', id, appId: id, name: display })
      }
      const message = canBeRef ? await store.findMessage(key, name) : undefined
      if (message !== undefined) found.unshift({ kind: 'message', id: message.id, appId: id, name: message.eventType })
    }
    if (page.done) break
    seen += page.items.length
    await turns.next()
  }
  for (const { id, app, name: display } of canBeRef ? await store.sourcesNamed(name) : []) {
    found.push(...(await within(store, app, { kind: 'source', id, name: display })))
  }
  const endpoints = await searchEndpoints(sources, null, name, null, most)
  const refs = await store.applicationRefs(endpoints.found.map(({ app }) => app))
  for (const { id, url, app } of endpoints.found) {
    const ref = refs.get(app)
    if (ref !== undefined) found.push({ kind: 'endpoint', id, appId: ref.id, name: url })
  }
  return found
}
