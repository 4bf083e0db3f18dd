import { pageItems } from '../../../src/domain/api.ts'
import { useAsk, usePages } from '../api/ask.ts'
import { call } from '../api/call.ts'
import type { BackgroundTaskOut } from '../api/schema.ts'
import { Id } from '../parts/button.tsx'
import { Code } from '../parts/code.tsx'
import { Empty, Facts, Failure, Loading, Page, Section } from '../parts/page.tsx'
import { Pill } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { capital, perSecond, words } from '../parts/text.ts'
import { Ago } from '../parts/time.tsx'
import type { Params } from '../router.ts'
import { isAdmin } from '../session.ts'
import { Progress, TaskButtons } from './task-progress.tsx'
import { useRepeat } from './use-repeat.ts'

/** Work that goes on in the background: replays, purges, counts. */
export function TasksPage() {
  const list = usePages<BackgroundTaskOut>('', (iterator) =>
    call('GET /background-task', { query: { limit: pageItems.usual, ...(iterator !== undefined && { iterator }) } }),
  )
  useRepeat(list.refresh, list.rows.length <= pageItems.usual ? 2000 : undefined)
  return (
    <Page title="Tasks">
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      <div class="card">
        <Table
          label="Tasks"
          columns={columns}
          rows={list.rows}
          keyOf={({ id }) => id}
          hrefOf={({ id }) => `/tasks/${id}`}
          onEnd={list.more}
          isLoading={list.isLoading}
          empty={
            <Empty title="No tasks yet">
              Sending many messages again, deleting dead letters and the like show here with their progress.
            </Empty>
          }
        />
      </div>
    </Page>
  )
}

const columns: Column<BackgroundTaskOut>[] = [
  { name: 'Task', width: 'minmax(0, 1.4fr)', cell: ({ task }) => titleOf(task) },
  { name: 'State', width: '110px', cell: ({ state }) => <Pill state={state} /> },
  { name: 'Progress', width: 'minmax(0, 2fr)', narrow: 'hide', cell: (task) => <Progress task={task} /> },
  {
    name: 'Pace',
    width: '72px',
    align: 'end',
    narrow: 'hide',
    cell: ({ perSecond: pace }) => (pace === null ? 'free' : perSecond(pace)),
  },
  { name: 'Started', width: '84px', align: 'end', narrow: 'hide', cell: ({ createdAt }) => <Ago at={createdAt} /> },
]

function titleOf(task: string): string {
  return capital(words(task))
}

/** One task with its live progress. */
export function TaskPage({ params }: { params: Params }) {
  const path = { task_id: params.task ?? '' }
  const task = useAsk('GET /background-task/{task_id}', { path }, 1000)
  const { data } = task
  if (task.error && data === undefined) {
    return (
      <Page title="Task" up={[['Tasks', '/tasks']]}>
        <Failure error={task.error} retry={task.refresh} />
      </Page>
    )
  }
  if (data === undefined) return <Loading />
  const isOpen = data.state === 'running' || data.state === 'paused'
  return (
    <Page
      title={titleOf(data.task)}
      up={[['Tasks', '/tasks']]}
      note={<Pill state={data.state} />}
      actions={isAdmin() && isOpen && <TaskButtons task={data} onChange={task.refresh} />}
    >
      <p class="sub">
        <Id id={data.id} />
      </p>
      <Section title="Progress">
        <div class="inside">
          <Progress task={data} />
        </div>
        <Facts
          facts={[
            ['Started', <Ago key="created" at={data.createdAt} />],
            ['Last change', <Ago key="updated" at={data.updatedAt} />],
            ['Pace', data.perSecond === null ? 'As fast as the limits allow' : perSecond(data.perSecond)],
          ]}
        />
      </Section>
      <Section title="Result">
        <div class="inside">
          <Code text={JSON.stringify(data.data, null, 2)} label="result" />
        </div>
      </Section>
    </Page>
  )
}
