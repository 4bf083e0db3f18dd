import { useAsk } from '../api/ask.ts'
import type { WorkerOut } from '../api/schema.ts'
import { Empty, Failure, Page, Segmented, Stat } from '../parts/page.tsx'
import { Pill, Tag } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { figure } from '../parts/text.ts'
import { Ago, Since } from '../parts/time.tsx'
import { query, setQuery } from '../router.ts'

/** The processes that deliver. */
export function WorkersPage() {
  const ended = query.value.get('ended') === 'true'
  const workers = useAsk('GET /worker', { query: { ended } }, 3000)
  const leader = useAsk('GET /leader', {}, 5000)
  const rows = workers.data?.data ?? []
  const alive = rows.filter(({ state }) => state === 'alive')
  const versions = new Set(alive.map(({ version }) => version))
  return (
    <Page title="Workers">
      <div class="stats">
        <Stat name="Alive" value={figure(alive.length)} tone={workers.data && alive.length === 0 ? 'bad' : undefined} />
        <Stat name="Lanes" value={figure(alive.reduce((sum, { lanes }) => sum + lanes, 0))} />
        <Stat name="In flight" value={figure(alive.reduce((sum, { inFlight }) => sum + (inFlight ?? 0), 0))} />
        <Stat
          name="Versions"
          value={figure(versions.size)}
          tone={versions.size > 1 ? 'wait' : undefined}
          note={[...versions].join(', ')}
        />
        <Stat
          name="Leader"
          value={leader.data?.leader ? <Since at={leader.data.leader.since} /> : 'None'}
          tone={leader.data && leader.data.leader === null ? 'wait' : undefined}
          note={leader.data?.leader ? `number ${leader.data.leader.epoch}` : undefined}
        />
      </div>
      <div class="toolbar">
        <Segmented<'alive' | 'all'>
          label="Workers"
          value={ended ? 'all' : 'alive'}
          choices={[
            ['alive', 'Alive'],
            ['all', 'Last week'],
          ]}
          onChange={(next) => setQuery({ ended: next === 'all' ? 'true' : undefined })}
        />
      </div>
      {workers.error && <Failure error={workers.error} retry={workers.refresh} />}
      <div class="card">
        <Table
          label="Workers"
          columns={columns}
          rows={rows}
          keyOf={({ id }) => String(id)}
          rowHeight={56}
          isLoading={workers.isLoading}
          empty={
            <Empty title="No worker is alive">Nothing is delivered until `sluice serve` or `sluice worker` runs.</Empty>
          }
        />
      </div>
    </Page>
  )
}

const columns: Column<WorkerOut>[] = [
  {
    name: 'Worker',
    width: 'minmax(0, 2.4fr)',
    cell: ({ name, host, pid, regions }) => (
      <span class="two-lines">
        <span title={name}>{name}</span>
        <span>
          {[
            host,
            pid === null ? undefined : `process ${pid}`,
            regions === null ? undefined : `regions ${regions.join(' ')}`,
          ]
            .filter(Boolean)
            .join(', ')}
        </span>
      </span>
    ),
  },
  {
    name: 'State',
    width: '150px',
    cell: ({ state, isLeader }) => (
      <span class="row">
        <Pill state={state} />
        {isLeader && <Tag>leader</Tag>}
      </span>
    ),
  },
  { name: 'Version', width: '72px', narrow: 'hide', cell: ({ version }) => version ?? '–' },
  { name: 'Lanes', width: '56px', align: 'end', narrow: 'hide', cell: ({ lanes }) => figure(lanes) },
  { name: 'In flight', width: '64px', align: 'end', narrow: 'hide', cell: ({ inFlight }) => figure(inFlight) },
  { name: 'Up', width: '92px', align: 'end', narrow: 'hide', cell: ({ startedAt }) => <Since at={startedAt} /> },
  { name: 'Last seen', width: '84px', align: 'end', narrow: 'hide', cell: ({ lastSeenAt }) => <Ago at={lastSeenAt} /> },
]
