import { signedOut } from '../api/call.ts'
import { Empty, Failure, Page } from '../parts/page.tsx'
import { matchRoute, path, type Route } from '../router.ts'
import { loadSession, session } from '../session.ts'
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
import { SchedulePage, SchedulesPage } from './schedules.tsx'
import { SettingsPage } from './settings.tsx'
import { Shell } from './shell.tsx'
import { SignInPage } from './sign-in.tsx'
import { SourcePage } from './source.tsx'
import { SourcesPage } from './sources.tsx'
import { TaskPage, TasksPage } from './tasks.tsx'
import { ViewsPage } from './views.tsx'
import { WorkersPage } from './workers.tsx'

const routes: readonly Route[] = [
  { path: '/', page: OverviewPage },
  { path: '/endpoints', page: EndpointsPage },
  { path: '/applications', page: ApplicationsPage },
  { path: '/app/:app', page: ApplicationPage },
  { path: '/app/:app/endpoint/:endpoint', page: EndpointPage },
  { path: '/app/:app/msg/:message', page: MessagePage },
  { path: '/app/:app/schedule/:schedule', page: SchedulePage },
  { path: '/app/:app/source/:source', page: SourcePage },
  { path: '/dead', page: DeadPage },
  { path: '/alerts', page: AlertsPage },
  { path: '/views', page: ViewsPage },
  { path: '/workers', page: WorkersPage },
  { path: '/schedules', page: SchedulesPage },
  { path: '/sources', page: SourcesPage },
  { path: '/tasks', page: TasksPage },
  { path: '/tasks/:task', page: TaskPage },
  { path: '/event-types', page: EventTypesPage },
  { path: '/event-types/:name', page: EventTypePage },
  { path: '/keys', page: KeysPage },
  { path: '/audit', page: AuditPage },
  { path: '/operational-webhooks', page: OperationalWebhooksPage },
  { path: '/settings', page: SettingsPage },
]

/** The dashboard of operators. */
export function Dashboard() {
  const here = session.value
  if (here.state === 'unknown') return null
  if (here.state === 'unreachable') return <Failure error={here.error} retry={loadSession} />
  if (here.state === 'out') return <SignInPage note={here.note} />
  if (signedOut.value) return <SignInPage note="Your session has ended." />
  const found = matchRoute(routes, path.value)
  return (
    <Shell>
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
