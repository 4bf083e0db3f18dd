import { useEffect, useState } from 'preact/hooks'
import { pageItems } from '../../../src/domain/api.ts'
import { toApiError, useAsk, usePages } from '../api/ask.ts'
import { call } from '../api/call.ts'
import { forms } from '../api/forms.ts'
import type { ScheduleIn, ScheduleSummaryOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button, Id } from '../parts/button.tsx'
import { Code } from '../parts/code.tsx'
import { confirm, Dialog } from '../parts/dialog.tsx'
import { Form } from '../parts/form.tsx'
import { Menu } from '../parts/menu.tsx'
import { Empty, Facts, Failure, Loading, Page, Section } from '../parts/page.tsx'
import { Pill, Tag } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { count, localTime } from '../parts/text.ts'
import { Ago, toMs } from '../parts/time.tsx'
import { say } from '../parts/toast.tsx'
import { navigate, type Params } from '../router.ts'
import { isAdmin } from '../session.ts'
import { ApplicationPicker } from './application-picker.tsx'
import { useRepeat } from './use-repeat.ts'

/** Messages that are repeated by a cron expression, of all applications. */
export function SchedulesPage() {
  const [isNew, setNew] = useState(false)
  const list = usePages<ScheduleSummaryOut>('', (iterator) =>
    call('GET /schedule', { query: { limit: pageItems.usual, ...(iterator !== undefined && { iterator }) } }),
  )
  useRepeat(list.refresh, list.rows.length <= pageItems.usual ? 5000 : undefined)
  return (
    <Page
      title="Schedules"
      actions={
        isAdmin() && (
          <Button icon="plus" kind="primary" onPress={() => setNew(true)}>
            Add schedule
          </Button>
        )
      }
    >
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      <div class="card">
        <Table
          label="Schedules"
          columns={columns}
          rows={list.rows}
          keyOf={({ id }) => id}
          hrefOf={({ appId, id }) => `/app/${appId}/schedule/${id}`}
          rowHeight={56}
          onEnd={list.more}
          isLoading={list.isLoading}
          empty={
            <Empty title="No schedules yet">
              A schedule publishes a message again and again, by a cron expression in a time zone.
            </Empty>
          }
        />
      </div>
      {isNew && <AddSchedule onClose={() => setNew(false)} />}
    </Page>
  )
}

const columns: Column<ScheduleSummaryOut>[] = [
  {
    name: 'Schedule',
    width: 'minmax(0, 1.6fr)',
    cell: ({ uid, id, eventType }) => (
      <span class="two-lines">
        <span>{uid ?? id}</span>
        <span>{eventType}</span>
      </span>
    ),
  },
  {
    name: 'Expression',
    width: 'minmax(0, 1.4fr)',
    narrow: 'hide',
    cell: ({ cron, timezone }) => (
      <span class="two-lines">
        <code>{cron}</code>
        <span>{timezone}</span>
      </span>
    ),
  },
  { name: 'Application', width: 'minmax(0, 1fr)', narrow: 'hide', cell: ({ appUid, appId }) => appUid ?? appId },
  {
    name: 'Last run',
    width: 'minmax(0, 1fr)',
    narrow: 'hide',
    cell: ({ lastRuns: [last] }) =>
      last === undefined ? <span class="faint">never</span> : <Pill state={last.state} />,
  },
  {
    name: 'Next',
    width: '96px',
    align: 'end',
    cell: ({ paused, nextRuns }) => (paused ? <span class="faint">paused</span> : <Ago at={nextRuns[0]} />),
  },
]

/** The next runs of an expression, as it is written; or why it is none. */
function Preview({ cron, timezone }: { cron: string; timezone: string }) {
  const [state, setState] = useState<{ runs: readonly string[]; problem?: string }>({ runs: [] })
  useEffect(() => {
    if (cron.trim() === '') return setState({ runs: [] })
    const timer = setTimeout(async () => {
      try {
        const zone = timezone.trim()
        const { nextRuns } = await call('GET /schedule/preview', {
          query: { cron, ...(zone !== '' && { timezone: zone }) },
        })
        setState({ runs: nextRuns })
      } catch (error) {
        setState({ runs: [], problem: toApiError(error).message })
      }
    }, 250)
    return () => clearTimeout(timer)
  }, [cron, timezone])
  return (
    <div class="preview" aria-live="polite">
      <span class="label">Next runs</span>
      {state.problem !== undefined && <p class="problem">{state.problem}</p>}
      {state.runs.length === 0 && state.problem === undefined && (
        <p class="hint">They show as the expression is written.</p>
      )}
      <ol>
        {state.runs.slice(0, 5).map((at) => (
          <li key={at}>
            {localTime(toMs(at) ?? 0).slice(0, 19)}{' '}
            <span class="faint">
              <Ago at={at} />
            </span>
          </li>
        ))}
      </ol>
    </div>
  )
}

const scheduleFields = ['cron', 'timezone', 'eventType', 'payload', 'uid', 'missed'] as const

function AddSchedule({ onClose }: { onClose(): void }) {
  const apps = useAsk('GET /app', { query: { limit: 1 } })
  const [written, setWritten] = useState({ cron: '', timezone: '' })
  const [app, setApp] = useState('')
  const chosen = app === '' ? apps.data?.data[0]?.id : app
  return (
    <Dialog title="Add a schedule" wide onClose={onClose}>
      <div
        class="split"
        onInput={(event) => {
          const { name, value } = event.target as HTMLInputElement
          if (name === 'cron' || name === 'timezone') setWritten((before) => ({ ...before, [name]: value }))
        }}
      >
        <div>
          <div class="field inside">
            <span class="label">Application</span>
            <ApplicationPicker value={chosen ?? ''} onChange={setApp} />
          </div>
          <Form
            schema={forms.ScheduleIn}
            groups={[{ fields: scheduleFields }]}
            values={{ payload: {} }}
            action="Add"
            onCancel={onClose}
            onSave={async (body) => {
              if (chosen === undefined) return
              const made = await call('POST /app/{app_id}/schedule', {
                path: { app_id: chosen },
                body: body as ScheduleIn,
              })
              say('Added.')
              navigate(`/app/${chosen}/schedule/${made.id}`)
            }}
          />
        </div>
        <Preview {...written} />
      </div>
    </Dialog>
  )
}

/** One schedule: when it ran, when it will, and its message. */
export function SchedulePage({ params }: { params: Params }) {
  const path = { app_id: params.app ?? '', schedule_id: params.schedule ?? '' }
  const schedule = useAsk('GET /app/{app_id}/schedule/{schedule_id}', { path, query: { next_runs: 10 } }, 5000)
  const [isEdited, setEdited] = useState(false)
  const { data } = schedule
  if (schedule.error && data === undefined) {
    return (
      <Page title="Schedule" up={[['Schedules', '/schedules']]}>
        <Failure error={schedule.error} retry={schedule.refresh} />
      </Page>
    )
  }
  if (data === undefined) return <Loading />
  const run = async (operation: 'pause' | 'resume' | 'run', done: string) => {
    await act(() => call(`POST /app/{app_id}/schedule/{schedule_id}/${operation}`, { path }), done)
    await schedule.refresh()
  }
  return (
    <Page
      title={data.uid ?? data.eventType}
      up={[
        ['Schedules', '/schedules'],
        [path.app_id, `/app/${path.app_id}`],
      ]}
      note={<Pill state={data.paused ? 'paused' : data.failures > 0 ? 'failing' : 'active'} />}
      actions={
        isAdmin() && (
          <>
            {data.paused ? (
              <Button icon="play" kind="primary" onPress={() => run('resume', 'Resumed.')}>
                Resume
              </Button>
            ) : (
              <Button icon="pause" onPress={() => run('pause', 'Paused.')}>
                Pause
              </Button>
            )}
            <Button icon="send" onPress={() => run('run', 'Its message is published.')}>
              Run now
            </Button>
            <Menu
              label="More actions"
              items={[
                { label: 'Change…', icon: 'settings', onPress: () => setEdited(true) },
                {
                  label: 'Delete…',
                  icon: 'dead',
                  tone: 'bad',
                  apart: true,
                  onPress: async () => {
                    const text = 'Messages that it published stay.'
                    if (!(await confirm({ title: 'Delete this schedule?', text, action: 'Delete', kind: 'danger' })))
                      return
                    const done = await act(
                      () => call('DELETE /app/{app_id}/schedule/{schedule_id}', { path }),
                      'Deleted.',
                    )
                    if (done) navigate('/schedules')
                  },
                },
              ]}
            />
          </>
        )
      }
    >
      <p class="sub">
        <Id id={data.id} />
        <Tag>{data.cron}</Tag>
        <span class="soft">{data.timezone}</span>
      </p>
      <div class="columns">
        <Section title="Next runs">
          {data.nextRuns.length === 0 ? (
            <Empty title={data.paused ? 'Paused' : 'No next run is known'} />
          ) : (
            <Facts
              facts={data.nextRuns.map(
                (at) => [localTime(toMs(at) ?? 0).slice(0, 19), <Ago key={at} at={at} />] as const,
              )}
            />
          )}
        </Section>
        <Section title="Last runs">
          {data.lastRuns.length === 0 ? (
            <Empty title="It has not run yet" />
          ) : (
            <Facts
              facts={data.lastRuns.map((each) => [
                localTime(toMs(each.at) ?? 0).slice(0, 19),
                <span key={each.at} class="row">
                  <Pill state={each.state} />
                  {each.msgId && (
                    <a class="inline" href={`/app/${path.app_id}/msg/${each.msgId}`}>
                      message
                    </a>
                  )}
                  {each.count > 1 && <span class="faint">{count(each.count, 'time')}</span>}
                  {each.error && <span class="soft">{each.error}</span>}
                </span>,
              ])}
            />
          )}
        </Section>
      </div>
      <Section title="Message" note={data.eventType}>
        <div class="inside">
          <Code text={JSON.stringify(data.payload, null, 2)} label="payload" />
        </div>
      </Section>
      {isEdited && (
        <Dialog title="Change the schedule" onClose={() => setEdited(false)}>
          <Form
            schema={forms.ScheduleIn}
            groups={[{ fields: scheduleFields }]}
            values={data}
            changesOnly
            action="Save"
            onCancel={() => setEdited(false)}
            onSave={async (body) => {
              await call('PATCH /app/{app_id}/schedule/{schedule_id}', { path, body })
              say('Saved.')
              setEdited(false)
              await schedule.refresh()
            }}
          />
        </Dialog>
      )}
    </Page>
  )
}
