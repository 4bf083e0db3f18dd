import { useMemo } from 'preact/hooks'
import { usePages } from '../api/ask.ts'
import { call } from '../api/call.ts'
import type { EndpointSummaryOut } from '../api/schema.ts'
import { Empty, Failure, Page, SearchField, Segmented } from '../parts/page.tsx'
import { Pill } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { shortUrl, waitingFigure } from '../parts/text.ts'
import { Age } from '../parts/time.tsx'
import { query, setQuery } from '../router.ts'
import { ApplicationPicker } from './application-picker.tsx'
import { useSparklines } from './sparklines.tsx'
import { useRepeat } from './use-repeat.ts'
import { SaveView } from './views.tsx'

const sorts = [
  ['created', 'Newest'],
  ['waiting', 'Waiting'],
  ['oldest', 'Oldest wait'],
  ['failing', 'Failing'],
] as const
type Sort = (typeof sorts)[number][0]

/** All endpoints: searched, or the worst first. */
export function EndpointsPage() {
  const [app, search, sort] = ['app', 'search', 'sort'].map((name) => query.value.get(name) ?? '')
  const filter = { ...(app && { app }), ...(search && { search }), ...(sort && { sort: sort as Sort }) }
  return (
    <Page title="Endpoints" actions={<SaveView of="endpoints" filter={filter} />}>
      <EndpointList {...(app && { app })} picksApp />
    </Page>
  )
}

/** The endpoints of all applications, or of one. */
export function EndpointList({ app, picksApp = false }: { app?: string; picksApp?: boolean }) {
  const search = query.value.get('search') ?? ''
  const sort = (query.value.get('sort') ?? 'created') as Sort
  const key = `${app} ${sort} ${sort === 'created' ? search : ''}`
  const list = usePages<EndpointSummaryOut>(key, async (iterator) =>
    call('GET /endpoint', {
      query: {
        ...(app !== undefined && { app }),
        ...(sort === 'created' && search !== '' && { search }),
        ...(iterator !== undefined && { iterator }),
        sort,
        limit: sort === 'created' ? 50 : 100,
      },
    }),
  )
  useRepeat(list.refresh, list.rows.length <= 100 ? 5000 : undefined)
  const wanted = search.toLowerCase()
  const rows =
    sort === 'created' || wanted === ''
      ? list.rows
      : list.rows.filter(({ url, uid, id }) => `${url} ${uid} ${id}`.toLowerCase().includes(wanted))
  const lines = useSparklines(rows)
  const columns = useMemo(() => columnsOf(app === undefined, lines), [app, lines])

  return (
    <>
      <div class="toolbar">
        {picksApp && (
          <ApplicationPicker
            none="All applications"
            value={app ?? ''}
            onChange={(chosen) => setQuery({ app: chosen })}
          />
        )}
        <SearchField
          value={search}
          label="Search by URL, uid, id or description"
          onChange={(text) => setQuery({ search: text })}
        />
        <Segmented<Sort>
          label="Sort by"
          value={sort}
          choices={sorts}
          onChange={(next) => setQuery({ sort: next === 'created' ? undefined : next })}
        />
      </div>
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      <div class="card">
        <Table
          label="Endpoints"
          columns={columns}
          rows={rows}
          keyOf={({ id }) => id}
          hrefOf={({ appId, id }) => `/app/${appId}/endpoint/${id}`}
          rowHeight={56}
          onEnd={list.more}
          isLoading={list.isLoading}
          empty={list.error ? <span /> : <NoEndpoints sort={sort} search={search} />}
        />
      </div>
    </>
  )
}

function NoEndpoints({ sort, search }: { sort: Sort; search: string }) {
  if (search !== '')
    return <Empty title="No endpoint matches">Nothing has “{search}” in its URL, uid, id or description.</Empty>
  if (sort === 'failing') return <Empty title="No endpoint is failing">Every receiver took its latest delivery.</Empty>
  if (sort !== 'created') return <Empty title="Nothing waits">Every delivery has been made.</Empty>
  return (
    <Empty title="No endpoints yet">
      An endpoint is a URL that messages are delivered to. Open an application to add one.
    </Empty>
  )
}

function columnsOf(withApp: boolean, lines: ReturnType<typeof useSparklines>): Column<EndpointSummaryOut>[] {
  const columns: Column<EndpointSummaryOut>[] = [
    {
      name: 'Endpoint',
      width: 'minmax(0, 2fr)',
      cell: ({ url, uid, description, id }) => (
        <span class="two-lines">
          <span>{shortUrl(url)}</span>
          <span>{description || uid || id}</span>
        </span>
      ),
    },
    {
      name: 'Application',
      width: 'minmax(0, 1.1fr)',
      narrow: 'hide',
      cell: ({ appName, appId }) => (
        <a class="quiet-link" href={`/app/${appId}`}>
          {appName}
        </a>
      ),
    },
    {
      name: 'State',
      width: 'minmax(0, 3fr)',
      cell: ({ state, detail }) => (
        <span class="two-lines">
          <Pill state={state} />
          <span class="wide-only" title={detail}>
            {detail}
          </span>
        </span>
      ),
    },
    { name: 'Last day', width: '100px', narrow: 'hide', cell: lines.cell },
    {
      name: 'Waiting',
      width: '64px',
      align: 'end',
      narrow: 'hide',
      cell: ({ waiting }) => (waiting.total === 0 ? <span class="faint">0</span> : waitingFigure(waiting)),
    },
    {
      name: 'Oldest',
      width: '64px',
      align: 'end',
      narrow: 'hide',
      cell: ({ oldestSince }) => <Age at={oldestSince} />,
    },
  ]
  return withApp ? columns : columns.filter(({ name }) => name !== 'Application')
}
