import { useState } from 'preact/hooks'
import { usePages } from '../api/ask.ts'
import { call } from '../api/call.ts'
import type { AuditOut, AuditVerifyOut } from '../api/schema.ts'
import { Button } from '../parts/button.tsx'
import { Code } from '../parts/code.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Empty, Facts, Failure, Page } from '../parts/page.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { exact, localTime } from '../parts/text.ts'
import { Ago, toMs } from '../parts/time.tsx'
import { query, setQuery } from '../router.ts'

/** Every change, its author and its time. Each row is chained to the one before it. */
export function AuditPage() {
  const actor = query.value.get('actor') ?? ''
  const action = query.value.get('action') ?? ''
  const list = usePages<AuditOut>(`${actor} ${action}`, (iterator) =>
    call('GET /audit', {
      query: {
        limit: 100,
        ...(actor !== '' && { actor }),
        ...(action !== '' && { action }),
        ...(iterator !== undefined && { iterator }),
      },
    }),
  )
  const [verified, setVerified] = useState<AuditVerifyOut>()
  const [shown, setShown] = useState<AuditOut>()
  return (
    <Page
      title="Audit"
      actions={
        <Button icon="check" onPress={async () => setVerified(await call('GET /audit/verify'))}>
          Verify
        </Button>
      }
    >
      {verified && (
        <p class="callout" data-tone={verified.whole ? 'good' : 'bad'} role="status">
          {verified.whole
            ? `The log is whole: ${exact(verified.rows)} rows, each chained to the one before it${verified.trimmed === 0 ? '' : `; a signed checkpoint stands for the first ${exact(verified.trimmed)}`}.`
            : `The log was changed: the chain breaks at row ${verified.brokenAt}.`}
        </p>
      )}
      <div class="toolbar">
        <input
          name="actor"
          aria-label="Author"
          placeholder="Author: id of a key"
          value={actor}
          onInput={(event) => setQuery({ actor: event.currentTarget.value.trim() })}
        />
        <input
          name="action"
          aria-label="Operation"
          placeholder="Operation, such as POST /app"
          value={action}
          onInput={(event) => setQuery({ action: event.currentTarget.value.trim() })}
        />
      </div>
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      <div class="card">
        <Table
          label="Audit log"
          columns={columnsOf(setShown)}
          rows={list.rows}
          keyOf={({ id }) => id}
          onEnd={list.more}
          isLoading={list.isLoading}
          empty={
            <Empty title="No changes">
              {actor + action === '' ? 'Changes through the API show here.' : 'No change matches this filter.'}
            </Empty>
          }
        />
      </div>
      {shown && (
        <Dialog title={shown.action} wide onClose={() => setShown(undefined)}>
          <div class="body">
            <Facts
              facts={[
                ['When', localTime(toMs(shown.timestamp) ?? 0)],
                ['Author', shown.actor],
                ['Address', shown.ip ?? '–'],
                ['Application', shown.appId ?? '–'],
                ['Target', shown.target ?? '–'],
                ['Hash', <code key="hash">{shown.hash}</code>],
              ]}
            />
            {shown.before != null && <Code text={JSON.stringify(shown.before, null, 2)} label="state before" />}
            {shown.after != null && <Code text={JSON.stringify(shown.after, null, 2)} label="request" />}
          </div>
        </Dialog>
      )}
    </Page>
  )
}

function columnsOf(show: (row: AuditOut) => void): Column<AuditOut>[] {
  return [
    {
      name: 'Operation',
      width: 'minmax(0, 1.6fr)',
      cell: (row) => (
        <button type="button" class="plain linkish" onClick={() => show(row)}>
          {row.action}
        </button>
      ),
    },
    {
      name: 'Target',
      width: 'minmax(0, 1.6fr)',
      narrow: 'hide',
      cell: ({ target }) => <code class="faint">{target ?? '–'}</code>,
    },
    { name: 'Author', width: 'minmax(0, 1.4fr)', narrow: 'hide', cell: ({ actor }) => actor },
    { name: 'Address', width: '120px', narrow: 'hide', cell: ({ ip }) => ip ?? '–' },
    { name: 'When', width: '84px', align: 'end', cell: ({ timestamp }) => <Ago at={timestamp} /> },
  ]
}
