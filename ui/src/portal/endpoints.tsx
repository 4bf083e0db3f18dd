import { useMemo } from 'preact/hooks'
import { usePages } from '../api/ask.ts'
import { call } from '../api/call.ts'
import type { EndpointOut } from '../api/schema.ts'
import { useSparklines } from '../pages/sparklines.tsx'
import { useRepeat } from '../pages/use-repeat.ts'
import { Icon } from '../parts/icon.tsx'
import { Empty, Failure, Page, SearchField } from '../parts/page.tsx'
import { Pill } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { count, shortUrl } from '../parts/text.ts'
import { query, setQuery } from '../router.ts'
import { mayManage } from '../session.ts'
import { ownApp } from './portal-session.ts'

/** The endpoints of the application, with their health. */
export function EndpointsPage() {
  const app_id = ownApp()
  const search = query.value.get('search') ?? ''
  const list = usePages<EndpointOut>(app_id, (iterator) =>
    call('GET /app/{app_id}/endpoint', {
      path: { app_id },
      query: { limit: 100, ...(iterator !== undefined && { iterator }) },
    }),
  )
  useRepeat(list.refresh, list.rows.length <= 100 ? 5000 : undefined)
  const wanted = search.toLowerCase()
  const rows = list.rows.filter(({ url, description, id }) =>
    `${url} ${description} ${id}`.toLowerCase().includes(wanted),
  )
  const lines = useSparklines(rows)
  const columns = useMemo(() => columnsOf(lines), [lines])
  const isEmpty = list.rows.length === 0 && !list.isLoading && list.error === undefined
  return (
    <Page title="Endpoints" actions={mayManage() && !isEmpty && <AddLink />}>
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      {isEmpty ? (
        <div class="card">
          <Empty title="No endpoints yet" action={mayManage() && <AddLink />}>
            An endpoint is a URL of yours that events are delivered to, as signed HTTP requests.
          </Empty>
        </div>
      ) : (
        <>
          {list.rows.length > 5 && (
            <div class="toolbar">
              <SearchField
                value={search}
                label="Search by URL or description"
                onChange={(text) => setQuery({ search: text })}
              />
            </div>
          )}
          {rows.length > 0 || list.isLoading ? (
            <div class="card">
              <Table
                label="Endpoints"
                columns={columns}
                rows={rows}
                keyOf={({ id }) => id}
                hrefOf={({ id }) => `/portal/endpoint/${id}`}
                rowHeight={60}
                onEnd={list.more}
                isLoading={list.isLoading}
              />
            </div>
          ) : (
            list.error === undefined && (
              <div class="card">
                <Empty title="No endpoint matches" />
              </div>
            )
          )}
        </>
      )}
    </Page>
  )
}

function AddLink() {
  return (
    <a class="button primary" href="/portal/new">
      <Icon name="plus" size={14} />
      Add endpoint
    </a>
  )
}

function columnsOf(lines: ReturnType<typeof useSparklines>): Column<EndpointOut>[] {
  return [
    {
      name: 'Endpoint',
      width: 'minmax(0, 3fr)',
      cell: ({ url, description, id }) => (
        <span class="two-lines">
          <span class="strong">{shortUrl(url)}</span>
          <span>{description || id}</span>
        </span>
      ),
    },
    { name: 'State', width: 'minmax(120px, 1fr)', cell: (endpoint) => <EndpointState endpoint={endpoint} /> },
    {
      name: 'Events',
      width: 'minmax(0, 1.4fr)',
      narrow: 'hide',
      cell: ({ eventTypes }) => <span class="soft">{eventsOf(eventTypes)}</span>,
    },
    { name: 'Last 24 hours', width: '112px', narrow: 'hide', cell: lines.cell },
  ]
}

const reasons: Readonly<Record<string, string>> = {
  gone: 'Disabled: it answered 410',
  failing: 'Disabled: it failed for too long',
}

export function EndpointState({ endpoint: { state, disabledReason } }: { endpoint: EndpointOut }) {
  const why = state === 'disabled' ? reasons[disabledReason ?? ''] : undefined
  if (why !== undefined) return <Pill state={state} tone="bad" label={why} />
  return state === 'circuit_open' ? <Pill state={state} label="Failing" /> : <Pill state={state} />
}

export function eventsOf(eventTypes: readonly string[] | null): string {
  if (eventTypes === null) return 'All events'
  return eventTypes.length <= 2 ? eventTypes.join(', ') : count(eventTypes.length, 'event type')
}
