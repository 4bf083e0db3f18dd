import type { Store } from '../../store/store.ts'
import { managementApplication } from '../endpoints/rules.ts'
import type { AcceptedSpan, Task } from '../tasks/rules.ts'
import { keysOf, reading, type Step } from '../tasks/step.ts'

const messagesCounted = 1000

const applicationsPerStep = 50

interface AppStats {
  readonly appId: string
  readonly appUid: string | null
  readonly messageDestinations: number
}

/** Counts a part of one application's messages. The cursor is the application and the last message counted. */
export async function countDestinations(
  store: Store,
  task: Task,
  input: AcceptedSpan & { readonly apps: readonly number[] | null },
): Promise<Step> {
  const { apps } = input
  const [current = apps?.[0] ?? managementApplication + 1, after = 0] = task.cursor ?? []
  const stats = (task.data.appStats ?? []) as readonly AppStats[]
  const [app] = (await store.listApplications({ after: current - 1, order: 'ascending', limit: 1 })).items
  const isGone = app === undefined || (apps !== null && app.key !== current)
  if (app === undefined && apps === null) return reading({ appStats: stats }, null)

  const key = isGone ? current : app.key
  const range = { ...keysOf(input), after: key === current ? after : 0, limit: messagesCounted }
  const counted = isGone ? undefined : await store.countDestinations(key, range)
  const before = stats.find((entry) => entry.appId === app?.id)
  const entry = app && {
    appId: app.id,
    appUid: app.uid,
    messageDestinations: (before?.messageDestinations ?? 0) + (counted?.destinations ?? 0),
  }
  const appStats = isGone || entry === undefined ? stats : [...stats.filter((other) => other !== before), entry]
  if (counted?.messages === messagesCounted) return reading({ appStats }, [key, counted.last as number])
  const next = apps === null ? key + 1 : apps[apps.indexOf(current) + 1]
  return reading({ appStats }, next === undefined ? null : [next, 0])
}

export async function listSubscriptions(store: Store, task: Task): Promise<Step> {
  const after = task.cursor?.[0] ?? null
  const { items, done } = await store.listApplications({ after, order: 'ascending', limit: applicationsPerStep })
  const found = await Promise.all(
    items.map(async ({ key, id }) => {
      const { list = [] } = (await store.subscriptions(key)) ?? {}
      const types = new Set(list.flatMap(({ eventTypes }) => eventTypes ?? []))
      return {
        appId: id,
        explicitlySubscribedEventTypes: [...types].sort(),
        hasCatchAllEndpoint: list.some(({ eventTypes }) => eventTypes === null),
      }
    }),
  )
  const known = (task.data.event_types ?? []) as readonly unknown[]
  const last = items.at(-1)
  return reading({ event_types: [...known, ...found] }, done || last === undefined ? null : [last.key])
}
