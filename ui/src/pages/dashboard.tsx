import { signedOut } from '../api/call.ts'
import type { IconName } from '../parts/icon.tsx'
import { Empty, Failure, Page } from '../parts/page.tsx'
import { matchRoute, path, type Route } from '../router.ts'
import { hadFrame, loadSession, session } from '../session.ts'
import { AlertsPage } from './alerts.tsx'
import { ApplicationPage, ApplicationsPage } from './applications.tsx'
import { AuditPage } from './audit.tsx'
import { DeadPage } from './dead.tsx'
import { EndpointPage } from './endpoint.tsx'
import { EndpointsPage } from './endpoints.tsx'
import { EventTypePage, EventTypesPage } from './event-types.tsx'
import { KeysPage } from './keys.tsx'
import { MessagePage } from './message.tsx'
import { OperationalWebhooksPage } from './operational-webhooks.tsx'
import { OverviewPage } from './overview.tsx'
import type { Goal } from './palette.tsx'
import { SchedulePage, SchedulesPage } from './schedules.tsx'
import { SettingsPage } from './settings.tsx'
import { Shell } from './shell.tsx'
import { SignInPage } from './sign-in.tsx'
import { SourcePage } from './source.tsx'
import { SourcesPage } from './sources.tsx'
import { TaskPage, TasksPage } from './tasks.tsx'
import { ViewsPage } from './views.tsx'
import { WorkersPage } from './workers.tsx'

/** The pages of the dashboard. Those with a place are in the side, group by group; its label also finds them in the palette. */
const pages: readonly (Route & { readonly place?: Place })[][] = [
  [
    { path: '/', page: OverviewPage, place: ['Overview', 'overview'] },
    { path: '/endpoints', page: EndpointsPage, place: ['Endpoints', 'endpoints'] },
    { path: '/applications', page: ApplicationsPage, place: ['Applications', 'applications'] },
    { path: '/sources', page: SourcesPage, place: ['Sources', 'sources'] },
    { path: '/dead', page: DeadPage, place: ['Dead letters', 'dead'] },
    { path: '/alerts', page: AlertsPage, place: ['Alerts', 'warning'] },
    { path: '/views', page: ViewsPage, place: ['Views', 'view'] },
    { path: '/app/:app', page: ApplicationPage },
    { path: '/app/:app/endpoint/:endpoint', page: EndpointPage },
    { path: '/app/:app/msg/:message', page: MessagePage },
    { path: '/app/:app/source/:source', page: SourcePage },
  ],
  [
    { path: '/workers', page: WorkersPage, place: ['Workers', 'workers'] },
    { path: '/schedules', page: SchedulesPage, place: ['Schedules', 'schedules'] },
    { path: '/app/:app/schedule/:schedule', page: SchedulePage },
    { path: '/tasks', page: TasksPage, place: ['Tasks', 'tasks'] },
    { path: '/tasks/:task', page: TaskPage },
    { path: '/event-types', page: EventTypesPage, place: ['Event types', 'types'] },
    { path: '/event-types/:name', page: EventTypePage },
  ],
  [
    { path: '/keys', page: KeysPage, place: ['Keys and sessions', 'keys'] },
    { path: '/audit', page: AuditPage, place: ['Audit', 'audit'] },
    { path: '/operational-webhooks', page: OperationalWebhooksPage, place: ['Operational webhooks', 'hooks'] },
    { path: '/settings', page: SettingsPage, place: ['Settings', 'settings'] },
  ],
]
const routes = pages.flat()
const places = pages.map((group) =>
  group.flatMap(({ path: to, place }): Goal[] =>
    place === undefined ? [] : [{ to, label: place[0], icon: place[1] }],
  ),
)

type Place = readonly [label: string, icon: IconName]

/** The dashboard of operators. */
export function Dashboard() {
  const here = session.value
  if (here.state === 'unknown') {
    if (!hadFrame()) return null
    return (
      <Shell places={places}>
        <div class="charts-place" aria-busy="true" />
      </Shell>
    )
  }
  if (here.state === 'unreachable') return <Failure error={here.error} retry={loadSession} />
  if (here.state === 'out') return <SignInPage note={here.note} />
  if (signedOut.value) return <SignInPage note="Your session has ended." />
  const found = matchRoute(routes, path.value)
  return (
    <Shell places={places}>
      {found === undefined ? (
        <Page title="Not found">
          <Empty title="There is no such page" />
        </Page>
      ) : (
        <found.route.page key={path.value} params={found.params} />
      )}
    </Shell>
  )
}
