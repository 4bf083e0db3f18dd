import { pageItems } from '../../../src/domain/api.ts'
import { usePages } from '../api/ask.ts'
import { call } from '../api/call.ts'
import { forms } from '../api/forms.ts'
import type { ErasureOut, SubjectEraseIn } from '../api/schema.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Form } from '../parts/form.tsx'
import { Empty, Failure } from '../parts/page.tsx'
import { Pill } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { count, exact } from '../parts/text.ts'
import { Ago } from '../parts/time.tsx'
import { say } from '../parts/toast.tsx'
import { setQuery } from '../router.ts'
import { useRepeat } from './use-repeat.ts'

/** Asks for a person, and starts to erase that person from the messages of an application. */
export function ErasePerson({ app, onClose }: { app: string; onClose(): void }) {
  return (
    <Dialog title="Erase a person" onClose={onClose}>
      <div class="body">
        <p class="soft">
          Every payload of this application that names the person is erased, with the answers of receivers. This cannot
          be undone.
        </p>
      </div>
      <Form
        schema={forms.SubjectEraseIn}
        groups={[{ fields: ['subject', 'waiting'] }]}
        action="Erase for good"
        kind="danger"
        onCancel={onClose}
        onSave={async (body) => {
          await call('POST /app/{app_id}/subject/erase', { path: { app_id: app }, body: body as SubjectEraseIn })
          say('Erasing.')
          setQuery({ view: 'erasures' })
          onClose()
        }}
      />
    </Dialog>
  )
}

/** The erasures of an application with their progress and their signed reports, newest first. */
export function Erasures({ app }: { app: string }) {
  const list = usePages<ErasureOut>(app, (iterator) =>
    call('GET /app/{app_id}/erasure', {
      path: { app_id: app },
      query: { limit: pageItems.usual, ...(iterator !== undefined && { iterator }) },
    }),
  )
  useRepeat(list.refresh, list.rows.some(({ state }) => state === 'running') ? 1000 : 5000)
  return (
    <>
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      <div class="card">
        <Table
          label="Erasures"
          columns={columns}
          rows={list.rows}
          keyOf={({ id }) => id}
          onEnd={list.more}
          isLoading={list.isLoading}
          empty={<Empty title="No erasures yet">Erased persons show here, each with a signed report.</Empty>}
        />
      </div>
    </>
  )
}

const columns: Column<ErasureOut>[] = [
  { name: 'Person (keyed hash)', width: 'minmax(0, 1.4fr)', cell: ({ subject }) => <code>{subject}</code> },
  { name: 'State', width: '110px', cell: ({ state }) => <Pill state={state} /> },
  {
    name: 'Done',
    width: 'minmax(0, 2fr)',
    narrow: 'hide',
    cell: (erasure) => <span class="soft">{doneOf(erasure)}</span>,
  },
  { name: 'Started', width: '84px', align: 'end', narrow: 'hide', cell: ({ createdAt }) => <Ago at={createdAt} /> },
  {
    name: 'Report',
    width: '104px',
    align: 'end',
    cell: (erasure) =>
      erasure.report === null ? (
        <span class="faint">–</span>
      ) : (
        <Button onPress={() => download(erasure)}>Download</Button>
      ),
  },
]

function doneOf({ error, erased, scanned }: ErasureOut): string {
  if (error !== null) return error
  const { messages, rewritten, cancelled } = erased
  const parts = [`${exact(messages)} of ${count(scanned, 'message')} erased`]
  if (rewritten > 0) parts.push(`${exact(rewritten)} rewritten`)
  if (cancelled > 0) parts.push(`${count(cancelled, 'delivery', 'deliveries')} cancelled`)
  return parts.join(', ')
}

/** Saves the report with its signature as a file, in the form that `sluice erase verify` reads. */
function download({ id, report, signature }: ErasureOut): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(
    new Blob([JSON.stringify({ report, signature }, null, 2)], { type: 'application/json' }),
  )
  link.download = `erasure-${id}.json`
  link.click()
  URL.revokeObjectURL(link.href)
}
