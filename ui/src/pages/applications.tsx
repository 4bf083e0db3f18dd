import { useState } from 'preact/hooks'
import { pageItems } from '../../../src/domain/api.ts'
import { useAsk, usePages } from '../api/ask.ts'
import { call } from '../api/call.ts'
import { forms } from '../api/forms.ts'
import type { ApplicationOut, MessageOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button, Id } from '../parts/button.tsx'
import { Code } from '../parts/code.tsx'
import { confirm, Dialog } from '../parts/dialog.tsx'
import { Form } from '../parts/form.tsx'
import { Menu } from '../parts/menu.tsx'
import { Empty, Failure, Loading, Page, SearchField, Section, Segmented } from '../parts/page.tsx'
import { Tag } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Ago } from '../parts/time.tsx'
import { say } from '../parts/toast.tsx'
import { navigate, type Params, query, setQuery } from '../router.ts'
import { isAdmin, mayManage } from '../session.ts'
import { EndpointList } from './endpoints.tsx'
import { ErasePerson, Erasures } from './erase.tsx'
import { ApplicationCharts } from './history.tsx'
import { AddEndpoint, SendMessage } from './new.tsx'
import { useRepeat } from './use-repeat.ts'

const applicationGroups = [
  { title: 'Name', fields: ['name', 'uid', 'metadata'] },
  {
    title: 'Limits',
    fields: ['throttleRate', 'maxInFlight', 'defaultRate', 'defaultPeriodSeconds', 'defaultBurst', 'dedupeSeconds'],
  },
  { title: 'Request', fields: ['signatureHeaders', 'headerTemplates'] },
  { title: 'Data protection', fields: ['subjectPointers', 'eraseDelivered'] },
] as const

/** All applications, newest first. */
export function ApplicationsPage() {
  const [isNew, setNew] = useState(false)
  const search = query.value.get('search') ?? ''
  const list = usePages<ApplicationOut>(search, (iterator) =>
    call('GET /app', {
      query: { limit: 100, ...(search !== '' && { search }), ...(iterator !== undefined && { iterator }) },
    }),
  )
  return (
    <Page
      title="Applications"
      actions={
        isAdmin() && (
          <Button icon="plus" kind="primary" onPress={() => setNew(true)}>
            Add application
          </Button>
        )
      }
    >
      <div class="toolbar">
        <SearchField value={search} label="Search by name, uid or id" onChange={(text) => setQuery({ search: text })} />
      </div>
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      <div class="card">
        <Table
          label="Applications"
          columns={applicationColumns}
          rows={list.rows}
          keyOf={({ id }) => id}
          hrefOf={({ id }) => `/app/${id}`}
          onEnd={list.more}
          isLoading={list.isLoading}
          empty={
            search === '' ? (
              <Empty title="No applications yet">An application is one tenant: it owns endpoints and messages.</Empty>
            ) : (
              <Empty title="No application matches">Nothing has “{search}” in its name, uid or id.</Empty>
            )
          }
        />
      </div>
      {isNew && (
        <Dialog title="Add an application" onClose={() => setNew(false)}>
          <Form
            schema={forms.ApplicationIn}
            groups={[{ fields: ['name', 'uid'] }]}
            action="Add"
            onCancel={() => setNew(false)}
            onSave={async (body) => {
              const { id } = await call('POST /app', { body: body as { name: string } })
              say('Added.')
              navigate(`/app/${id}`)
            }}
          />
        </Dialog>
      )}
    </Page>
  )
}

const applicationColumns: Column<ApplicationOut>[] = [
  { name: 'Name', width: 'minmax(0, 2fr)', cell: ({ name }) => name },
  {
    name: 'Uid',
    width: 'minmax(0, 1fr)',
    cell: ({ uid }) => (uid === null ? <span class="faint">–</span> : <Tag>{uid}</Tag>),
  },
  { name: 'Id', width: 'minmax(0, 2fr)', narrow: 'hide', cell: ({ id }) => <code class="faint">{id}</code> },
  { name: 'Created', width: '100px', align: 'end', narrow: 'hide', cell: ({ createdAt }) => <Ago at={createdAt} /> },
]

type View = 'endpoints' | 'messages' | 'erasures' | 'settings'

/** One application: its endpoints, its messages and its settings. */
export function ApplicationPage({ params }: { params: Params }) {
  const at = { app_id: params.app ?? '' }
  const app = useAsk('GET /app/{app_id}', { path: at })
  const why = useAsk('GET /app/{app_id}/why', { path: at }, 5000)
  const [shown, setShown] = useState<'endpoint' | 'message' | 'portal' | 'erase'>()
  const view = (query.value.get('view') ?? 'endpoints') as View
  if (app.error && app.data === undefined) {
    return (
      <Page title="Application" up={[['Applications', '/applications']]}>
        <Failure error={app.error} retry={app.refresh} />
      </Page>
    )
  }
  if (app.data === undefined) return <Loading />
  const { data } = app
  return (
    <Page
      title={data.name}
      up={[['Applications', '/applications']]}
      actions={
        <>
          {isAdmin() && (
            <Button icon="send" onPress={() => setShown('message')}>
              Send message
            </Button>
          )}
          {mayManage() && (
            <Button icon="plus" kind="primary" onPress={() => setShown('endpoint')}>
              Add endpoint
            </Button>
          )}
          {isAdmin() && (
            <Menu
              label="More actions"
              items={[
                { label: 'Portal link…', icon: 'external', onPress: () => setShown('portal') },
                ...(data.subjectPointers === null
                  ? []
                  : [{ label: 'Erase a person…', icon: 'close' as const, onPress: () => setShown('erase') }]),
                { label: 'Dead letters', icon: 'dead', onPress: () => navigate(`/dead?app=${data.id}`) },
                { label: 'Delete…', icon: 'close', tone: 'bad', apart: true, onPress: () => removeApplication(data) },
              ]}
            />
          )}
        </>
      }
    >
      <p class="sub">
        <Id id={data.id} />
        {data.uid && <Tag>{data.uid}</Tag>}
        <span class="soft">{why.data?.detail}</span>
      </p>
      <ApplicationCharts app={data.id} />
      <div class="toolbar">
        <Segmented<View>
          label="View"
          value={view}
          choices={[
            ['endpoints', 'Endpoints'],
            ['messages', 'Messages'],
            ...(isAdmin() && data.subjectPointers !== null ? ([['erasures', 'Erasures']] as const) : []),
            ['settings', 'Settings'],
          ]}
          onChange={(next) =>
            setQuery({ view: next === 'endpoints' ? undefined : next, search: undefined, sort: undefined })
          }
        />
      </div>
      {view === 'endpoints' && <EndpointList app={data.id} />}
      {view === 'messages' && <Messages app={data.id} />}
      {view === 'erasures' && <Erasures app={data.id} />}
      {view === 'settings' && (
        <Section title="Settings">
          {isAdmin() ? (
            <Form
              key={data.updatedAt}
              layout="grid"
              schema={forms.ApplicationIn}
              groups={applicationGroups}
              values={data}
              changesOnly
              action="Save changes"
              onSave={async (body) => {
                if (Object.keys(body).length === 0) return say('Nothing was changed.')
                await call('PATCH /app/{app_id}', { path: at, body })
                say('Settings saved.')
                await app.refresh()
              }}
            />
          ) : (
            <p class="inside soft">This key may not change the application.</p>
          )}
        </Section>
      )}
      {shown === 'endpoint' && <AddEndpoint app={data.id} onClose={() => setShown(undefined)} />}
      {shown === 'message' && <SendMessage app={data.id} onClose={() => setShown(undefined)} />}
      {shown === 'erase' && <ErasePerson app={data.id} onClose={() => setShown(undefined)} />}
      {shown === 'portal' && <PortalLink app={data.id} onClose={() => setShown(undefined)} />}
    </Page>
  )
}

async function removeApplication({ id, name, uid }: ApplicationOut): Promise<void> {
  const go = await confirm({
    title: `Delete ${name}?`,
    text: 'Its endpoints are deleted and its waiting deliveries cancelled. This cannot be undone.',
    action: 'Delete',
    kind: 'danger',
    typed: uid ?? name,
  })
  if (!go) return
  if (await act(() => call('DELETE /app/{app_id}', { path: { app_id: id } }), 'Deleted.')) navigate('/applications')
}

/** The messages of an application, newest first. */
function Messages({ app }: { app: string }) {
  const type = query.value.get('type') ?? ''
  const list = usePages<MessageOut>(`${app} ${type}`, (iterator) =>
    call('GET /app/{app_id}/msg', {
      path: { app_id: app },
      query: {
        limit: pageItems.usual,
        with_content: false,
        ...(type !== '' && { event_types: [type] }),
        ...(iterator !== undefined && { iterator }),
      },
    }),
  )
  useRepeat(list.refresh, list.rows.length <= pageItems.usual ? 3000 : undefined)
  return (
    <>
      <div class="toolbar">
        <SearchField
          value={type}
          label="Event type, such as video.* or video.trending"
          onChange={(text) => setQuery({ type: text.trim() })}
        />
      </div>
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      <div class="card">
        <Table
          label="Messages"
          columns={messageColumns}
          rows={list.rows}
          keyOf={({ id }) => id}
          hrefOf={({ id }) => `/app/${app}/msg/${id}`}
          onEnd={list.more}
          isLoading={list.isLoading}
          empty={<Empty title="No messages">Messages show here as soon as one is published.</Empty>}
        />
      </div>
    </>
  )
}

const messageColumns: Column<MessageOut>[] = [
  { name: 'Event type', width: 'minmax(0, 1.4fr)', cell: ({ eventType }) => eventType },
  {
    name: 'Event id',
    width: 'minmax(0, 1.4fr)',
    narrow: 'hide',
    cell: ({ eventId }) => eventId ?? <span class="faint">–</span>,
  },
  { name: 'Id', width: 'minmax(0, 2fr)', narrow: 'hide', cell: ({ id }) => <code class="faint">{id}</code> },
  { name: 'Accepted', width: '100px', align: 'end', cell: ({ timestamp }) => <Ago at={timestamp} /> },
]

/** Makes a link to the portal of an application. */
function PortalLink({ app, onClose }: { app: string; onClose(): void }) {
  const [link, setLink] = useState<string>()
  return (
    <Dialog title="Portal link" onClose={onClose}>
      <div class="body">
        <p class="soft">The customer sees this application alone: its endpoints, messages and attempts.</p>
        {link === undefined ? (
          <div class="row">
            <Button kind="primary" onPress={() => makePortalLink(app, false).then(setLink)}>
              Make a link
            </Button>
            <Button onPress={() => makePortalLink(app, true).then(setLink)}>Make a read-only link</Button>
          </div>
        ) : (
          <Code text={link} label="link" />
        )}
      </div>
    </Dialog>
  )
}

async function makePortalLink(app: string, readOnly: boolean): Promise<string> {
  const { url } = await call('POST /auth/app-portal-access/{app_id}', { path: { app_id: app }, body: { readOnly } })
  return url
}
