import { useState } from 'preact/hooks'
import { pageItems } from '../../../src/domain/api.ts'
import { usePages } from '../api/ask.ts'
import { call } from '../api/call.ts'
import { forms } from '../api/forms.ts'
import type { EndpointOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button } from '../parts/button.tsx'
import { Code } from '../parts/code.tsx'
import { confirm, Dialog } from '../parts/dialog.tsx'
import { Form } from '../parts/form.tsx'
import { Menu } from '../parts/menu.tsx'
import { Empty, Failure, Page } from '../parts/page.tsx'
import { Pill } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { shortUrl } from '../parts/text.ts'
import { Ago } from '../parts/time.tsx'
import { say } from '../parts/toast.tsx'
import { isAdmin } from '../session.ts'

const fields = ['url', 'description', 'uid', 'eventTypes', 'throttleRate', 'disabled'] as const

/** Endpoints for events of the server itself, such as an endpoint that was disabled. */
export function OperationalWebhooksPage() {
  const list = usePages<EndpointOut>('', (iterator) =>
    call('GET /operational-webhook/endpoint', {
      query: { limit: pageItems.usual, ...(iterator !== undefined && { iterator }) },
    }),
  )
  const [edited, setEdited] = useState<EndpointOut | 'new'>()
  const [secret, setSecret] = useState<string>()

  async function remove({ id, url }: EndpointOut): Promise<void> {
    const text = `${shortUrl(url)} gets no more events of the server.`
    if (!(await confirm({ title: 'Delete this endpoint?', text, action: 'Delete', kind: 'danger' }))) return
    await act(
      () => call('DELETE /operational-webhook/endpoint/{endpoint_id}', { path: { endpoint_id: id } }),
      'Deleted.',
    )
    await list.refresh()
  }

  const columns: Column<EndpointOut>[] = [
    {
      name: 'Endpoint',
      width: 'minmax(0, 2fr)',
      cell: ({ url, description, id }) => (
        <span class="two-lines">
          <span>{shortUrl(url)}</span>
          <span>{description || id}</span>
        </span>
      ),
    },
    {
      name: 'Events',
      width: 'minmax(0, 1.4fr)',
      narrow: 'hide',
      cell: ({ eventTypes }) => eventTypes?.join(', ') ?? 'all',
    },
    { name: 'State', width: '120px', narrow: 'hide', cell: ({ state }) => <Pill state={state} /> },
    { name: 'Created', width: '84px', align: 'end', narrow: 'hide', cell: ({ createdAt }) => <Ago at={createdAt} /> },
    {
      name: 'Actions',
      width: '40px',
      align: 'end',
      cell: (endpoint) => (
        <Menu
          label={`Actions of ${shortUrl(endpoint.url)}`}
          items={[
            { label: 'Change…', icon: 'settings', onPress: () => setEdited(endpoint) },
            {
              label: 'Show the secret',
              icon: 'keys',
              onPress: async () => {
                const path = { endpoint_id: endpoint.id }
                setSecret((await call('GET /operational-webhook/endpoint/{endpoint_id}/secret', { path })).key)
              },
            },
            { label: 'Delete…', icon: 'dead', tone: 'bad', apart: true, onPress: () => remove(endpoint) },
          ]}
        />
      ),
    },
  ]

  return (
    <Page
      title="Operational webhooks"
      actions={
        isAdmin() && (
          <Button icon="plus" kind="primary" onPress={() => setEdited('new')}>
            Add endpoint
          </Button>
        )
      }
    >
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      <div class="card">
        <Table
          label="Endpoints of operational webhooks"
          columns={columns}
          rows={list.rows}
          keyOf={({ id }) => id}
          rowHeight={56}
          onEnd={list.more}
          isLoading={list.isLoading}
          empty={
            <Empty title="No endpoints yet">
              Add one to be notified when an endpoint is disabled, a message is exhausted, or a circuit opens.
            </Empty>
          }
        />
      </div>
      {edited !== undefined && (
        <Dialog
          title={edited === 'new' ? 'Add an endpoint' : 'Change the endpoint'}
          onClose={() => setEdited(undefined)}
        >
          <Form
            schema={forms.EndpointIn}
            groups={[{ fields }]}
            {...(edited !== 'new' && { values: edited, changesOnly: true })}
            action={edited === 'new' ? 'Add' : 'Save'}
            onCancel={() => setEdited(undefined)}
            onSave={async (body) => {
              if (edited === 'new') await call('POST /operational-webhook/endpoint', { body: body as { url: string } })
              else
                await call('PATCH /operational-webhook/endpoint/{endpoint_id}', {
                  path: { endpoint_id: edited.id },
                  body,
                })
              say(edited === 'new' ? 'Added.' : 'Saved.')
              setEdited(undefined)
              await list.refresh()
            }}
          />
        </Dialog>
      )}
      {secret !== undefined && (
        <Dialog title="Signing secret" onClose={() => setSecret(undefined)}>
          <div class="body">
            <Code text={secret} label="secret" />
          </div>
        </Dialog>
      )}
    </Page>
  )
}
