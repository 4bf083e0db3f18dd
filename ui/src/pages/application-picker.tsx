import { useState } from 'preact/hooks'
import { pageItems } from '../../../src/domain/api.ts'
import { useAsk } from '../api/ask.ts'

interface PickerProps {
  /** The name of the field in its form; `app` by default. */
  readonly name?: string
  /** The text of the choice of no application; without it one is always chosen. */
  readonly none?: string
  /** The id of the chosen application; the form keeps it when it is absent. */
  readonly value?: string
  onChange?(app: string): void
}

const { most } = pageItems

/** A choice among the applications. Where there are more than the list has, a search narrows it on the server. */
export function ApplicationPicker({ name: field = 'app', none, value, onChange }: PickerProps) {
  const [search, setSearch] = useState('')
  const first = useAsk('GET /app', { query: { limit: most } })
  const found = useAsk('GET /app', { query: { limit: most, ...(search !== '' && { search }) } })
  const known = useAsk('GET /app/{app_id}', value ? { path: { app_id: value } } : null)
  const listed = found.data?.data ?? []
  // The chosen one stays a choice when the search leaves it out.
  const isMissing = known.data !== undefined && !listed.some(({ id, uid }) => id === value || uid === value)
  return (
    <>
      {first.data?.done === false && (
        <input
          type="search"
          name="searchApplication"
          aria-label="Search applications"
          placeholder="Search applications"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value.trim())}
        />
      )}
      <select
        name={field}
        aria-label="Application"
        {...(value !== undefined && { value })}
        onChange={(event) => onChange?.(event.currentTarget.value)}
      >
        {none !== undefined && <option value="">{none}</option>}
        {isMissing && <option value={value}>{known.data?.name}</option>}
        {listed.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </>
  )
}
