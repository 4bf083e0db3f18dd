import { signal } from '@preact/signals'
import { useEffect, useState } from 'preact/hooks'
import { pageItems } from '../../../src/domain/api.ts'
import { ownParts } from '../../../src/features/views/noun.ts'
import { toApiError } from '../api/ask.ts'
import { type Answer, type ApiError, call } from '../api/call.ts'
import { forms } from '../api/forms.ts'
import type { ViewIn, ViewOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button } from '../parts/button.tsx'
import { confirm, Dialog } from '../parts/dialog.tsx'
import { Form, labelOf, type Values } from '../parts/form.tsx'
import { Icon } from '../parts/icon.tsx'
import { Empty, Failure, Page } from '../parts/page.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { say } from '../parts/toast.tsx'
import { path, query } from '../router.ts'
import { isAdmin } from '../session.ts'

/** The views of the server by name, for the side and the page; undefined until they have been read. */
const saved = signal<readonly ViewOut[] | undefined>(undefined)

/** Why they could not be read. */
const trouble = signal<ApiError | undefined>(undefined)

/** Reads all views: a server has 500 at most. */
async function loadViews(): Promise<void> {
  try {
    saved.value = await allViews()
    trouble.value = undefined
  } catch (error) {
    trouble.value = toApiError(error)
    // The side keeps those that it had, but not those of a caller who may see more.
    if ([401, 403].includes(trouble.value.status)) saved.value = undefined
  }
}

async function allViews(): Promise<ViewOut[]> {
  const all: ViewOut[] = []
  for (let iterator: string | null = null, done = false; !done; ) {
    const page: Answer<'GET /view'> = await call('GET /view', {
      query: { limit: pageItems.most, ...(iterator !== null && { iterator }) },
    })
    all.push(...page.data)
    iterator = page.iterator
    done = page.done
  }
  return all.toSorted((a, b) => a.name.localeCompare(b.name))
}

/** The list of a view: the page with its filter in the address. */
function hrefOf({ of, app, search, sort, reason, eventTypes, withinSeconds }: ViewOut): string {
  const parts = { app, search, sort, reason, type: eventTypes?.join(','), since: withinSeconds?.toString() }
  const given = Object.entries(parts).filter((part): part is [string, string] => part[1] != null)
  const text = new URLSearchParams(given).toString()
  return `${of === 'endpoints' ? '/endpoints' : '/dead'}${text === '' ? '' : `?${text}`}`
}

/** Whether the page that is shown has the filter of a view: the order of its parts does not count. */
function isShown(view: ViewOut): boolean {
  const [to, text = ''] = hrefOf(view).split('?')
  const inOrder = (parts: URLSearchParams) => [...parts].map(String).sort().join()
  return to === path.value && inOrder(new URLSearchParams(text)) === inOrder(query.value)
}

/** The views in the side of every page. */
export function SideViews() {
  useEffect(() => void loadViews(), [])
  const list = saved.value ?? []
  if (list.length === 0) return null
  return (
    <ul aria-label="Views">
      {list.map((each) => (
        <li key={each.id}>
          <a href={hrefOf(each)} aria-current={isShown(each) ? 'page' : undefined}>
            <Icon name="view" />
            <span class="cut">{each.name}</span>
          </a>
        </li>
      ))}
    </ul>
  )
}

/** A button that saves the filter of a list as a view. */
export function SaveView({ of, filter }: { of: ViewIn['of']; filter: Omit<ViewIn, 'name' | 'of'> }) {
  const [isOpen, setOpen] = useState(false)
  const isFiltered = Object.values(filter).some((value) => value != null && value !== '')
  if (!isAdmin() || !isFiltered) return null
  return (
    <>
      <Button icon="view" onPress={() => setOpen(true)}>
        Save view…
      </Button>
      {isOpen && (
        <Dialog title="Save this filter as a view" onClose={() => setOpen(false)}>
          <Form
            schema={forms.ViewIn}
            groups={[{ fields: ['name', 'uid'] }]}
            action="Save"
            onCancel={() => setOpen(false)}
            onSave={async (body) => {
              await call('POST /view', { body: { ...filter, ...body, of } as ViewIn })
              say('Saved. All operators see it in the side bar.')
              setOpen(false)
              await loadViews()
            }}
          />
        </Dialog>
      )}
    </>
  )
}

/** All views, to change and delete them. */
export function ViewsPage() {
  const [edited, setEdited] = useState<ViewOut>()
  useEffect(() => void loadViews(), [])
  const columns: Column<ViewOut>[] = [
    {
      name: 'View',
      width: 'minmax(0, 1fr)',
      cell: ({ name, uid, id }) => (
        <span class="two-lines">
          <span>{name}</span>
          <span>{uid ?? id}</span>
        </span>
      ),
    },
    { name: 'Of', width: '120px', narrow: 'hide', cell: ({ of }) => of.replace('-', ' ') },
    {
      name: 'Filter',
      width: 'minmax(0, 2fr)',
      narrow: 'hide',
      cell: (each) => <span class="soft">{filterText(each)}</span>,
    },
    {
      name: 'Actions',
      width: '180px',
      align: 'end',
      cell: (each) =>
        isAdmin() && (
          <span class="row">
            <Button onPress={() => setEdited(each)}>Change</Button>
            <Button onPress={() => remove(each)}>Delete</Button>
          </span>
        ),
    },
  ]
  return (
    <Page title="Views">
      {trouble.value && <Failure error={trouble.value} retry={loadViews} />}
      <div class="card">
        <Table
          label="Views"
          columns={columns}
          rows={saved.value ?? []}
          keyOf={({ id }) => id}
          hrefOf={hrefOf}
          rowHeight={56}
          onEnd={() => {}}
          isLoading={saved.value === undefined && trouble.value === undefined}
          empty={
            trouble.value ? (
              <span />
            ) : (
              <Empty title="No views yet">
                Filter the endpoints or the dead letters, and save the filter: all operators see it in the side bar.
              </Empty>
            )
          }
        />
      </div>
      {edited !== undefined && (
        <Dialog title={`Change ${edited.name}`} onClose={() => setEdited(undefined)}>
          <Form
            schema={forms.ViewIn}
            groups={[{ fields: ['name', 'uid', 'app', ...ownParts[edited.of]] }]}
            values={edited as unknown as Values}
            changesOnly
            action="Save"
            onCancel={() => setEdited(undefined)}
            onSave={async (body) => {
              await call('PATCH /view/{view_id}', { path: { view_id: edited.id }, body })
              say('Saved.')
              setEdited(undefined)
              await loadViews()
            }}
          />
        </Dialog>
      )}
    </Page>
  )
}

function filterText(each: ViewOut): string {
  const values = new Map<string, unknown>(Object.entries(each))
  const given = ['app', ...ownParts[each.of]].filter((name) => values.get(name) != null)
  return given.map((name) => `${labelOf(name)}: ${values.get(name)}`).join(' · ')
}

async function remove({ id, name }: ViewOut): Promise<void> {
  const text = 'All operators lose it. The endpoints or dead letters that it shows stay.'
  if (!(await confirm({ title: `Delete the view ${name}?`, text, action: 'Delete', kind: 'danger' }))) return
  await act(() => call('DELETE /view/{view_id}', { path: { view_id: id } }), 'Deleted.')
  await loadViews()
}
