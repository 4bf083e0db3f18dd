import { useState } from 'preact/hooks'
import { type DeadReason, deadReasons } from '../../../src/domain/judge.ts'
import { span } from '../../../src/domain/phrases.ts'
import { useAsk, usePages } from '../api/ask.ts'
import { call, send, urlOf } from '../api/call.ts'
import type { DeadLetterOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button } from '../parts/button.tsx'
import { confirm, Dialog } from '../parts/dialog.tsx'
import { Menu } from '../parts/menu.tsx'
import { Empty, Failure, Page } from '../parts/page.tsx'
import { Status } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { capital, count, exact, shortUrl, words } from '../parts/text.ts'
import { Ago } from '../parts/time.tsx'
import { say } from '../parts/toast.tsx'
import { query, setQuery } from '../router.ts'
import { isAdmin, maySendAgain } from '../session.ts'
import { ApplicationPicker } from './application-picker.tsx'
import { chosenLimit, countDead, type DeadListFilter, ReplayDead } from './replay-dead.tsx'
import { TaskProgress } from './task-progress.tsx'
import { SaveView } from './views.tsx'

/** Deliveries that used up their attempts or their time. They can be sent again, exported, imported and deleted. */
export function DeadPage() {
  const app = query.value.get('app') ?? ''
  const reason = query.value.get('reason') ?? ''
  const type = query.value.get('type') ?? ''
  const since = query.value.get('since') ?? ''
  const filter: DeadListFilter = {
    ...(reason !== '' && { reason: reason as DeadReason }),
    ...(type !== '' && { event_types: type.split(',') }),
    ...(since !== '' && {
      after: new Date(Math.floor(Date.now() / 60_000) * 60_000 - Number(since) * 1000).toISOString(),
    }),
  }
  const list = usePages<DeadLetterOut>(`${app} ${reason} ${type} ${since}`, (iterator) => {
    const asked = { limit: 100, ...filter, ...(iterator !== undefined && { iterator }) }
    return app === ''
      ? call('GET /dead', { query: asked })
      : call('GET /app/{app_id}/dead', { path: { app_id: app }, query: asked })
  })
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set())
  const [shown, setShown] = useState<'replay' | 'replay chosen' | 'import'>()
  const [purging, setPurging] = useState<string>()
  const isFiltered = app + reason + type + since !== ''

  const chosen = list.rows.filter((row) => selected.has(keyOf(row)))
  const isAllLoaded = chosen.length > 0 && chosen.length === list.rows.length

  async function ended(): Promise<void> {
    setSelected(new Set())
    await list.refresh()
  }

  async function purge(): Promise<void> {
    const { count: found, more, before } = await countDead(app, filter)
    const what = more ? `${exact(found)}+ dead letters` : count(found, 'dead letter')
    const go = await confirm({
      title: `Delete ${what}${isFiltered ? ' of this filter' : ''}?`,
      text: 'They cannot be sent again afterwards. Export them first if in doubt.',
      action: 'Delete',
      kind: 'danger',
      typed: 'delete',
    })
    if (!go) return
    const query = { ...filter, before }
    const { id } =
      app === ''
        ? await call('DELETE /dead', { query })
        : await call('DELETE /app/{app_id}/dead', { path: { app_id: app }, query })
    setPurging(id)
  }

  const exportTo = urlOf(app === '' ? '/dead/export' : '/app/{app_id}/dead/export', { app_id: app }, filter)
  return (
    <Page
      title="Dead letters"
      actions={
        <>
          <SaveView
            of="dead-letters"
            filter={{
              ...(app !== '' && { app }),
              ...(reason !== '' && { reason: reason as DeadReason }),
              ...(type !== '' && { eventTypes: type.split(',') }),
              ...(since !== '' && { withinSeconds: Number(since) }),
            }}
          />
          {maySendAgain() && chosen.length > 0 && chosen.length <= chosenLimit && (
            <Button icon="refresh" onPress={() => setShown('replay chosen')}>
              Replay {exact(chosen.length)}…
            </Button>
          )}
          {maySendAgain() && list.rows.length > 0 && (
            <Button icon="refresh" kind="primary" onPress={() => setShown('replay')}>
              {isFiltered ? 'Replay these…' : 'Replay all…'}
            </Button>
          )}
          <Menu
            label="More actions"
            items={[
              { label: 'Export as JSON lines', icon: 'external', onPress: () => download(exportTo) },
              ...(isAdmin()
                ? [
                    { label: 'Import…', icon: 'plus' as const, onPress: () => setShown('import') },
                    { label: 'Delete…', icon: 'dead' as const, tone: 'bad' as const, apart: true, onPress: purge },
                  ]
                : []),
            ]}
          />
        </>
      }
    >
      <div class="toolbar">
        <ApplicationPicker none="All applications" value={app} onChange={(chosen) => setQuery({ app: chosen })} />
        <select
          aria-label="Reason"
          name="reason"
          value={reason}
          onChange={(event) => setQuery({ reason: event.currentTarget.value })}
        >
          <option value="">Any reason</option>
          {deadReasons.map((each) => (
            <option key={each} value={each}>
              {capital(each)}
            </option>
          ))}
        </select>
        <select
          aria-label="Died within"
          name="since"
          value={since}
          onChange={(event) => setQuery({ since: event.currentTarget.value })}
        >
          <option value="">Any time</option>
          <option value="3600">Last hour</option>
          <option value="86400">Last 24 hours</option>
          <option value="604800">Last 7 days</option>
          {since !== '' && !['3600', '86400', '604800'].includes(since) && (
            <option value={since}>Last {span(Number(since) * 1000)}</option>
          )}
        </select>
        <input
          name="type"
          aria-label="Event type"
          placeholder="Event type"
          value={type}
          onInput={(event) => setQuery({ type: event.currentTarget.value.trim() })}
        />
      </div>
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      {maySendAgain() && (chosen.length > chosenLimit || (isAllLoaded && !list.done)) && (
        <p class="callout" data-tone="info" role="status">
          {chosen.length > chosenLimit
            ? `${exact(chosen.length)} rows are selected; up to ${exact(chosenLimit)} can be replayed one by one. `
            : `${exact(chosen.length)} rows are selected, and there are more. `}
          <Button kind="plain" onPress={() => setShown('replay')}>
            {isFiltered ? 'Replay all that match…' : 'Replay all of them…'}
          </Button>
        </p>
      )}
      <div class="card">
        <Table
          label="Dead letters"
          columns={columns}
          rows={list.rows}
          keyOf={keyOf}
          hrefOf={({ appId, msgId }) => `/app/${appId}/msg/${msgId}`}
          rowHeight={56}
          onEnd={list.more}
          isLoading={list.isLoading}
          {...(maySendAgain() && { selected, onSelect: setSelected })}
          empty={
            isFiltered ? (
              <Empty title="No dead letter matches" />
            ) : (
              <Empty title="No dead letters">Every delivery arrived, or still has attempts left.</Empty>
            )
          }
        />
      </div>
      {shown?.startsWith('replay') && (
        <ReplayDead
          app={app}
          filter={filter}
          chosen={shown === 'replay chosen' ? chosen : undefined}
          onClose={() => {
            setShown(undefined)
            // The dialog may be closed before it has noticed the end of the task.
            void list.refresh()
          }}
          onEnd={ended}
        />
      )}
      {purging !== undefined && (
        <Dialog title="Deleting dead letters" onClose={() => setPurging(undefined)}>
          <div class="body">
            <TaskProgress app={app} task={purging} onEnd={ended} />
          </div>
        </Dialog>
      )}
      {shown === 'import' && <ImportDead app={app} onClose={() => setShown(undefined)} onDone={list.refresh} />}
    </Page>
  )
}

function keyOf({ msgId, endpointId }: DeadLetterOut): string {
  return `${msgId} ${endpointId}`
}

function download(url: string): void {
  const link = document.createElement('a')
  link.href = url
  link.download = 'dead-letters.jsonl'
  link.click()
}

const columns: Column<DeadLetterOut>[] = [
  {
    name: 'Message',
    width: 'minmax(0, 1.6fr)',
    cell: ({ eventType, eventId, msgId }) => (
      <span class="two-lines">
        <span>{eventType}</span>
        <span>{eventId ?? msgId}</span>
      </span>
    ),
  },
  { name: 'Endpoint', width: 'minmax(0, 1.6fr)', narrow: 'hide', cell: ({ url }) => shortUrl(url) },
  {
    name: 'Reason',
    width: 'minmax(0, 2fr)',
    narrow: 'hide',
    cell: ({ reason, error, code }) => (
      <span class="two-lines">
        <span>{capital(reason)}</span>
        <span title={error ?? ''}>{error ?? words(code)}</span>
      </span>
    ),
  },
  {
    name: 'Answer',
    width: '64px',
    narrow: 'hide',
    cell: ({ responseStatusCode, attempts }) =>
      attempts === 0 ? <span class="faint">–</span> : <Status code={responseStatusCode} />,
  },
  { name: 'Tries', width: '48px', align: 'end', narrow: 'hide', cell: ({ attempts }) => attempts },
  { name: 'Died', width: '84px', align: 'end', cell: ({ diedAt }) => <Ago at={diedAt} /> },
]

interface ImportProps {
  readonly app: string
  onClose(): void
  onDone(): Promise<void>
}

/** Takes exported dead letters back in. */
function ImportDead({ app, onClose, onDone }: ImportProps) {
  const apps = useAsk('GET /app', { query: { limit: 1 } })
  const [chosen, setChosen] = useState(app)
  const into = chosen === '' ? apps.data?.data[0]?.id : chosen
  return (
    <Dialog title="Import dead letters" onClose={onClose}>
      <form
        onSubmit={async (event) => {
          event.preventDefault()
          const form = new FormData(event.currentTarget)
          const file = form.get('file') as File
          const done = await act(async () => {
            const response = await send('POST /app/{app_id}/dead/import', {
              path: { app_id: String(form.get('into')) },
              body: await file.text(),
              contentType: 'application/jsonl',
            })
            const { imported, unchanged } = (await response.json()) as { imported: number; unchanged: number }
            say(`${count(imported, 'dead letter')} imported, ${unchanged} unchanged.`)
          }, 'Imported.')
          if (done) onClose()
          await onDone()
        }}
      >
        <div class="body">
          <div class="field">
            <span class="label">Application</span>
            <ApplicationPicker name="into" value={into ?? ''} onChange={setChosen} />
          </div>
          <label class="field">
            <span class="label">File</span>
            <input name="file" type="file" accept=".jsonl,.json,.txt" required />
            <span class="hint">JSON lines, as the export writes them.</span>
          </label>
        </div>
        <footer>
          <Button onPress={onClose}>Cancel</Button>
          <Button type="submit" kind="primary">
            Import
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}
