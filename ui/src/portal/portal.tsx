import type { ComponentChildren } from 'preact'
import { useEffect } from 'preact/hooks'
import { call, signedOut } from '../api/call.ts'
import { silentSince } from '../api/heard.ts'
import { Button } from '../parts/button.tsx'
import { ConfirmDialog } from '../parts/dialog.tsx'
import { Icon } from '../parts/icon.tsx'
import { Empty, Failure, Page } from '../parts/page.tsx'
import { Silence } from '../parts/silence.tsx'
import { chosenTheme, theme } from '../parts/theme.ts'
import { Toasts } from '../parts/toast.tsx'
import { matchRoute, path, type Route } from '../router.ts'
import { session, signOut } from '../session.ts'
import { EventPage, EventsPage } from './catalogue.tsx'
import { EndpointPage } from './endpoint.tsx'
import { EndpointsPage } from './endpoints.tsx'
import { look } from './look.ts'
import { MessagePage, MessagesPage } from './messages.tsx'
import { NewEndpointPage } from './new-endpoint.tsx'
import { isPart, isRefused, offered, ownApp, startPortalSession, useLink } from './portal-session.ts'

const routes: readonly Route[] = [
  { path: '/portal', page: EndpointsPage },
  { path: '/portal/new', page: NewEndpointPage },
  { path: '/portal/endpoint/:endpoint', page: EndpointPage },
  { path: '/portal/messages', page: MessagesPage },
  { path: '/portal/message/:message', page: MessagePage },
  { path: '/portal/events', page: EventsPage },
  { path: '/portal/events/:name', page: EventPage },
]

/** The portal of one application, for its customer. */
export function Portal() {
  const here = session.value
  const app = ownApp()
  useEffect(() => {
    look.value = undefined
    // A link may have ended this session between the drawing of the page and now.
    if (app === '' || ownApp() !== app) return
    void call('GET /app/{app_id}/portal', { path: { app_id: app } }).then(
      (found) => {
        look.value = found
      },
      // The portal works without its look; a lost session shows by itself.
      () => undefined,
    )
  }, [app])
  if (offered.value !== undefined) return <AskWhich />
  if (here.state === 'unknown') return null
  if (here.state === 'unreachable') return <Failure error={here.error} retry={startPortalSession} />
  if (here.state === 'out' || signedOut.value) return <SignedOut />
  const found = matchRoute(routes, path.value)
  return (
    <Frame>
      {found === undefined ? (
        <Page title="Not found">
          <Empty title="There is no such page" />
        </Page>
      ) : (
        <found.route.page key={path.value} params={found.params} />
      )}
    </Frame>
  )
}

const places = [
  ['Endpoints', '/portal', /^\/portal(\/(new|endpoint)\b|\/?$)/],
  ['Messages', '/portal/messages', /^\/portal\/message/],
  ['Event catalogue', '/portal/events', /^\/portal\/events/],
] as const

/** The frame of every page: whose portal it is, and its places. */
function Frame({ children }: { children: ComponentChildren }) {
  const { name, logo } = look.value ?? {}
  return (
    <div class="portal">
      <a class="skip" href="#main">
        Skip to content
      </a>
      <header class="portal-head">
        <div class="portal-bar">
          <a class="portal-brand" href="/portal">
            {logo != null && <img src={logo} alt="" />}
            <span class="cut">{name ?? ' '}</span>
          </a>
          <div class="tools">
            <Button
              kind="plain"
              icon={theme.value === 'dark' ? 'sun' : 'moon'}
              label={theme.value === 'dark' ? 'Light colours' : 'Dark colours'}
              onPress={() => {
                chosenTheme.value = theme.value === 'dark' ? 'light' : 'dark'
              }}
            />
            {!isPart && <Button kind="plain" icon="out" label="Log out" onPress={signOut} />}
          </div>
        </div>
        <nav aria-label="Main">
          {places.map(([label, to, within]) => (
            <a key={to} href={to} aria-current={within.test(path.value) ? 'page' : undefined}>
              {label}
            </a>
          ))}
        </nav>
      </header>
      <main id="main" tabIndex={-1} data-silent={silentSince.value !== undefined}>
        <Silence />
        {children}
      </main>
      <ConfirmDialog />
      <Toasts />
    </div>
  )
}

function SignedOut() {
  // After logging out, a request that was under way may still be refused.
  const isExpired = isRefused.value || (signedOut.value && session.value.state === 'in')
  return (
    <main class="sign-in">
      <div class="box">
        <span class="portal-mark">
          <Icon name="endpoints" size={20} />
        </span>
        <h1>{isExpired ? 'This link has expired' : 'Webhooks'}</h1>
        <p class="soft">
          {isExpired
            ? 'Ask for a new one where you got it.'
            : 'Open this page with the link that you were given, or from the product that sends you webhooks.'}
        </p>
      </div>
    </main>
  )
}

/** Asks before another application takes the place of the one that this browser shows. */
function AskWhich() {
  const link = offered.value
  return (
    <main class="sign-in">
      <div class="box">
        <h1>Open another application?</h1>
        <p class="soft">
          You are signed in to {look.value?.name ?? 'an application'}. The link opens another one, in its place.
        </p>
        <div class="row box-actions">
          <Button
            onPress={() => {
              offered.value = undefined
            }}
          >
            Stay
          </Button>
          <Button kind="primary" onPress={() => link && useLink(link)}>
            Open the other
          </Button>
        </div>
      </div>
    </main>
  )
}
