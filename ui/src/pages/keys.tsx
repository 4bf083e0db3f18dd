import { useState } from 'preact/hooks'
import { usePages } from '../api/ask.ts'
import { type Answer, call } from '../api/call.ts'
import type { ApiKeyIn, ApiKeyOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button } from '../parts/button.tsx'
import { Code } from '../parts/code.tsx'
import { confirm, Dialog } from '../parts/dialog.tsx'
import { Empty, Failure, Page, Section } from '../parts/page.tsx'
import { Pill, Tag } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Ago, now, toMs } from '../parts/time.tsx'
import { isAdmin } from '../session.ts'
import { ApplicationPicker } from './application-picker.tsx'

type WebSession = Answer<'GET /auth/session'>['data'][number]

/** API keys, and the browsers that are signed in. */
export function KeysPage() {
  return (
    <Page title="Keys and sessions">
      {isAdmin() && <Keys />}
      <Sessions />
    </Page>
  )
}

function Keys() {
  const [isNew, setNew] = useState(false)
  const list = usePages<ApiKeyOut>('', (iterator) =>
    call('GET /api-key', { query: { limit: 100, ...(iterator !== undefined && { iterator }) } }),
  )
  const columns: Column<ApiKeyOut>[] = [
    {
      name: 'Name',
      width: 'minmax(0, 1.6fr)',
      cell: ({ name, id }) => (
        <span class="two-lines">
          <span>{name}</span>
          <span>{id}</span>
        </span>
      ),
    },
    {
      name: 'Scopes',
      width: 'minmax(0, 1fr)',
      narrow: 'hide',
      cell: ({ scopes }) => (
        <span class="row">
          {scopes.map((scope) => (
            <Tag key={scope}>{scope}</Tag>
          ))}
        </span>
      ),
    },
    {
      name: 'Application',
      width: 'minmax(0, 1fr)',
      narrow: 'hide',
      cell: ({ appId }) => appId ?? <span class="faint">all</span>,
    },
    {
      name: 'State',
      width: '96px',
      narrow: 'hide',
      cell: (key) => <Pill state={stateOf(key)} tone={stateOf(key) === 'active' ? 'good' : 'quiet'} />,
    },
    {
      name: 'Last used',
      width: '84px',
      align: 'end',
      narrow: 'hide',
      cell: ({ lastUsedAt }) => <Ago at={lastUsedAt} none="never" />,
    },
    {
      name: 'Actions',
      width: '84px',
      align: 'end',
      cell: (key) =>
        key.revokedAt === null && (
          <Button
            onPress={async () => {
              const text = 'Requests with it are refused at once, and its sessions end.'
              if (!(await confirm({ title: `Revoke ${key.name}?`, text, action: 'Revoke', kind: 'danger' }))) return
              await act(() => call('DELETE /api-key/{key_id}', { path: { key_id: key.id } }), 'Revoked.')
              await list.refresh()
            }}
          >
            Revoke
          </Button>
        ),
    },
  ]
  return (
    <Section
      title="API keys"
      actions={
        <Button icon="plus" kind="primary" onPress={() => setNew(true)}>
          Add key
        </Button>
      }
    >
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      <Table
        label="API keys"
        columns={columns}
        rows={list.rows}
        keyOf={({ id }) => id}
        rowHeight={56}
        onEnd={list.more}
        isLoading={list.isLoading}
        empty={<Empty title="No keys in the store">The server's own admin key comes from its settings.</Empty>}
      />
      {isNew && (
        <AddKey
          onClose={() => {
            setNew(false)
            void list.refresh()
          }}
        />
      )}
    </Section>
  )
}

function stateOf({ revokedAt, expiresAt }: ApiKeyOut): string {
  if (revokedAt !== null) return 'revoked'
  return (toMs(expiresAt) ?? Number.POSITIVE_INFINITY) <= now.value ? 'expired' : 'active'
}

const scopes = [
  ['read', 'Reads everything'],
  ['publish', 'Publishes messages'],
  ['admin', 'May do everything'],
] as const

function AddKey({ onClose }: { onClose(): void }) {
  const [token, setToken] = useState<string>()
  return (
    <Dialog title="Add an API key" onClose={onClose}>
      {token === undefined ? (
        <form
          onSubmit={async (event) => {
            event.preventDefault()
            const form = new FormData(event.currentTarget)
            const days = Number(form.get('days'))
            const body: ApiKeyIn = {
              name: String(form.get('name')),
              scopes: [String(form.get('scope')) as 'read'],
              ...(form.get('app') !== '' && { app: String(form.get('app')) }),
              ...(days > 0 && { expiresInSeconds: days * 86_400 }),
            }
            await act(async () => setToken((await call('POST /api-key', { body })).token), 'Added.')
          }}
        >
          <div class="body">
            <label class="field">
              <span class="label">Name</span>
              <input name="name" required maxLength={256} autocomplete="off" placeholder="billing-service" />
            </label>
            <label class="field">
              <span class="label">Scope</span>
              <select name="scope">
                {scopes.map(([scope, meaning]) => (
                  <option key={scope} value={scope}>
                    {scope}: {meaning}
                  </option>
                ))}
              </select>
            </label>
            <div class="field">
              <span class="label">Application</span>
              <ApplicationPicker none="All applications" />
            </div>
            <label class="field">
              <span class="label">Ends</span>
              <select name="days">
                <option value="0">never</option>
                <option value="1">after a day</option>
                <option value="30">after 30 days</option>
                <option value="365">after a year</option>
              </select>
            </label>
          </div>
          <footer>
            <Button onPress={onClose}>Cancel</Button>
            <Button type="submit" kind="primary">
              Add
            </Button>
          </footer>
        </form>
      ) : (
        <>
          <div class="body">
            <p>Copy the key now: it is not shown again.</p>
            <Code text={token} label="key" />
          </div>
          <footer>
            <Button kind="primary" onPress={onClose}>
              Done
            </Button>
          </footer>
        </>
      )}
    </Dialog>
  )
}

function Sessions() {
  const list = usePages<WebSession>('', (iterator) =>
    call('GET /auth/session', { query: { limit: 100, ...(iterator !== undefined && { iterator }) } }),
  )
  const columns: Column<WebSession>[] = [
    {
      name: 'Browser',
      width: 'minmax(0, 2fr)',
      cell: ({ userAgent, address, current }) => (
        <span class="two-lines">
          <span title={userAgent ?? ''}>
            {browserOf(userAgent)}
            {current ? ', this one' : ''}
          </span>
          <span>{address ?? 'unknown address'}</span>
        </span>
      ),
    },
    {
      name: 'Key',
      width: 'minmax(0, 1fr)',
      narrow: 'hide',
      cell: ({ name, keyId }) => name ?? keyId ?? 'admin key of the settings',
    },
    { name: 'Kind', width: '92px', narrow: 'hide', cell: ({ kind }) => <Tag>{kind}</Tag> },
    {
      name: 'Last used',
      width: '84px',
      align: 'end',
      narrow: 'hide',
      cell: ({ lastUsedAt, createdAt }) => <Ago at={lastUsedAt ?? createdAt} />,
    },
    { name: 'Ends', width: '72px', align: 'end', narrow: 'hide', cell: ({ expiresAt }) => <Ago at={expiresAt} /> },
    {
      name: 'Actions',
      width: '84px',
      align: 'end',
      cell: ({ id, current }) =>
        !current && (
          <Button
            onPress={async () => {
              await act(
                () => call('DELETE /auth/session/{session_id}', { path: { session_id: id } }),
                'The session is over.',
              )
              await list.refresh()
            }}
          >
            End
          </Button>
        ),
    },
  ]
  return (
    <Section
      title="Sessions"
      note="Browsers that are signed in"
      actions={
        list.rows.length > 1 && (
          <Button
            onPress={async () => {
              await act(() => call('POST /auth/session/end-all'), 'All other sessions are over.')
              await list.refresh()
            }}
          >
            End all others
          </Button>
        )
      }
    >
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      <Table
        label="Sessions"
        columns={columns}
        rows={list.rows}
        keyOf={({ id }) => id}
        rowHeight={56}
        onEnd={list.more}
        isLoading={list.isLoading}
        empty={<Empty title="No browser is signed in" />}
      />
    </Section>
  )
}

/** The name of a browser and its system, as far as its own text tells. */
function browserOf(agent: string | null): string {
  if (agent === null) return 'Unknown browser'
  const [, name] = /(Edg|OPR|Firefox|Chrome|Safari)\//.exec(agent) ?? []
  const [system] = /Windows|Mac OS X|Android|iPhone|iPad|Linux/.exec(agent) ?? []
  if (name === undefined) return agent
  return `${{ Edg: 'Edge', OPR: 'Opera' }[name] ?? name}${system === undefined ? '' : ` on ${system.replace(' OS X', '')}`}`
}
