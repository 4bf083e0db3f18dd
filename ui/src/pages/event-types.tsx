import { useState } from 'preact/hooks'
import { pageItems } from '../../../src/domain/api.ts'
import { eventType } from '../../../src/features/event-types/noun.ts'
import { useAsk, usePages } from '../api/ask.ts'
import { call } from '../api/call.ts'
import { forms } from '../api/forms.ts'
import type { EventTypeIn, EventTypeOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button } from '../parts/button.tsx'
import { Code } from '../parts/code.tsx'
import { confirm, Dialog } from '../parts/dialog.tsx'
import { Form, formFields } from '../parts/form.tsx'
import { Menu } from '../parts/menu.tsx'
import { Empty, Failure, Loading, Page, SearchField, Section } from '../parts/page.tsx'
import { Tag } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { say } from '../parts/toast.tsx'
import { navigate, type Params, query, setQuery } from '../router.ts'
import { isAdmin } from '../session.ts'

const fields = formFields(eventType)

/** The catalogue of event types. */
export function EventTypesPage() {
  const [isNew, setNew] = useState(false)
  const search = query.value.get('search') ?? ''
  const list = usePages<EventTypeOut>(search, (iterator) =>
    call('GET /event-type', {
      query: {
        limit: pageItems.most,
        include_archived: true,
        ...(search !== '' && { search }),
        ...(iterator !== undefined && { iterator }),
      },
    }),
  )
  return (
    <Page
      title="Event types"
      actions={
        isAdmin() && (
          <Button icon="plus" kind="primary" onPress={() => setNew(true)}>
            Add event type
          </Button>
        )
      }
    >
      <div class="toolbar">
        <SearchField
          value={search}
          label="Search by name or description"
          onChange={(text) => setQuery({ search: text })}
        />
      </div>
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      <div class="card">
        <Table
          label="Event types"
          columns={columns}
          rows={list.rows}
          keyOf={({ name }) => name}
          hrefOf={({ name }) => `/event-types/${encodeURIComponent(name)}`}
          onEnd={list.more}
          isLoading={list.isLoading}
          empty={
            search === '' ? (
              <Empty title="No event types yet">
                Describe the events that you send, so that customers can pick them and see an example.
              </Empty>
            ) : (
              <Empty title="No event type matches" />
            )
          }
        />
      </div>
      {isNew && (
        <Dialog title="Add an event type" onClose={() => setNew(false)}>
          <Form
            schema={forms.EventTypeIn}
            groups={[{ fields }]}
            action="Add"
            onCancel={() => setNew(false)}
            onSave={async (body) => {
              await call('POST /event-type', { body: body as EventTypeIn })
              say('Added.')
              navigate(`/event-types/${encodeURIComponent(String(body.name))}`)
            }}
          />
        </Dialog>
      )}
    </Page>
  )
}

const columns: Column<EventTypeOut>[] = [
  { name: 'Name', width: 'minmax(0, 1fr)', cell: ({ name }) => name },
  {
    name: 'Description',
    width: 'minmax(0, 2fr)',
    narrow: 'hide',
    cell: ({ description }) => <span class="soft">{description}</span>,
  },
  {
    name: 'Marks',
    width: '180px',
    cell: ({ archived, deprecated, schemas }) => (
      <span class="row">
        {schemas !== null && <Tag>schema</Tag>}
        {deprecated && <Tag>deprecated</Tag>}
        {archived && <Tag>archived</Tag>}
      </span>
    ),
  },
]

/** One event type: its schema, as customers see it. */
export function EventTypePage({ params }: { params: Params }) {
  const path = { event_type_name: params.name ?? '' }
  const type = useAsk('GET /event-type/{event_type_name}', { path })
  const [isEdited, setEdited] = useState(false)
  const { data } = type
  if (type.error && data === undefined) {
    return (
      <Page title="Event type" up={[['Event types', '/event-types']]}>
        <Failure error={type.error} retry={type.refresh} />
      </Page>
    )
  }
  if (data === undefined) return <Loading />
  const change = async (body: { archived?: boolean; deprecated?: boolean }, done: string) => {
    await act(() => call('PATCH /event-type/{event_type_name}', { path, body }), done)
    await type.refresh()
  }
  return (
    <Page
      title={data.name}
      up={[['Event types', '/event-types']]}
      note={
        <span class="row">
          {data.deprecated && <Tag>deprecated</Tag>}
          {data.archived && <Tag>archived</Tag>}
        </span>
      }
      actions={
        isAdmin() && (
          <>
            <Button icon="settings" onPress={() => setEdited(true)}>
              Change
            </Button>
            <Menu
              label="More actions"
              items={[
                {
                  label: data.archived ? 'Restore' : 'Archive',
                  icon: 'audit',
                  onPress: () => change({ archived: !data.archived }, data.archived ? 'Restored.' : 'Archived.'),
                },
                {
                  label: 'Delete…',
                  icon: 'dead',
                  tone: 'bad',
                  apart: true,
                  onPress: async () => {
                    const text = 'Endpoints that subscribe to it keep the name. This cannot be undone.'
                    if (!(await confirm({ title: `Delete ${data.name}?`, text, action: 'Delete', kind: 'danger' })))
                      return
                    const done = await act(
                      () => call('DELETE /event-type/{event_type_name}', { path, query: { expunge: true } }),
                      'Deleted.',
                    )
                    if (done) navigate('/event-types')
                  },
                },
              ]}
            />
          </>
        )
      }
    >
      <p class="sub">
        <span class="soft">{data.description}</span>
      </p>
      {Object.entries(data.schemas ?? {}).map(([version, schema]) => (
        <Section key={version} title={`Schema, version ${version}`}>
          <div class="inside">
            <Code text={JSON.stringify(schema, null, 2)} label={`schema ${version}`} />
          </div>
        </Section>
      ))}
      {(data.schemas === null || Object.keys(data.schemas).length === 0) && (
        <div class="card">
          <Empty title="No schema">A JSON Schema describes the payload, and test events are made from it.</Empty>
        </div>
      )}
      {isEdited && (
        <Dialog title={`Change ${data.name}`} onClose={() => setEdited(false)}>
          <Form
            schema={forms.EventTypeIn}
            groups={[{ fields: fields.slice(1) }]}
            values={data}
            changesOnly
            action="Save"
            onCancel={() => setEdited(false)}
            onSave={async (body) => {
              await call('PATCH /event-type/{event_type_name}', { path, body })
              say('Saved.')
              setEdited(false)
              await type.refresh()
            }}
          />
        </Dialog>
      )}
    </Page>
  )
}
