import { useState } from 'preact/hooks'
import { useAsk } from '../api/ask.ts'
import { Empty, Failure, Page, SearchField, Segmented } from '../parts/page.tsx'
import { Tag } from '../parts/pill.tsx'

/** The settings of the server, with their origins. They change with a restart. */
export function SettingsPage() {
  const settings = useAsk('GET /setting', {})
  const [search, setSearch] = useState('')
  const [which, setWhich] = useState<'all' | 'set'>('all')
  const wanted = search.toLowerCase()
  const rows = (settings.data?.data ?? []).filter(
    ({ name, help, variable, origin }) =>
      `${name} ${help} ${variable}`.toLowerCase().includes(wanted) && (which === 'all' || origin !== 'default'),
  )
  return (
    <Page title="Settings" note={<span class="soft">of this server process; changes need a restart</span>}>
      <div class="toolbar">
        <SearchField value={search} label="Search" onChange={setSearch} />
        <Segmented<'all' | 'set'>
          label="Settings"
          value={which}
          choices={[
            ['all', 'All'],
            ['set', 'Changed'],
          ]}
          onChange={setWhich}
        />
      </div>
      {settings.error && <Failure error={settings.error} retry={settings.refresh} />}
      {settings.data && rows.length === 0 && (
        <div class="card">
          <Empty title="No setting matches" />
        </div>
      )}
      {rows.length > 0 && (
        <dl class="card settings-list">
          {rows.map(({ name, value, origin, variable, help }) => (
            <div key={name}>
              <dt>
                <b>{name}</b>
                <span class="faint">{variable}</span>
              </dt>
              <dd>
                <span class="row">
                  <code>{value}</code>
                  {origin !== 'default' && <Tag>{origin}</Tag>}
                </span>
                <span class="hint">{help}</span>
              </dd>
            </div>
          ))}
        </dl>
      )}
    </Page>
  )
}
