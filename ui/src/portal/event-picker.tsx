import { useMemo, useState } from 'preact/hooks'
import { pageItems } from '../../../src/domain/api.ts'
import { useAsk } from '../api/ask.ts'
import type { EventTypeOut } from '../api/schema.ts'
import { Segmented } from '../parts/page.tsx'
import { Tag } from '../parts/pill.tsx'
import { count } from '../parts/text.ts'

interface PickerProps {
  /** Null for all events. */
  readonly value: readonly string[] | null
  onChange(value: readonly string[] | null): void
}

/** The event types that the caller may see; those that are archived are left out. */
export function useEventTypes() {
  const asked = useAsk('GET /event-type', { query: { limit: pageItems.most } })
  const types = useMemo(() => asked.data?.data.filter(({ archived }) => !archived), [asked.data])
  return { ...asked, types }
}

/** Event types by group, with those without a group last. */
export function groupsOf(types: readonly EventTypeOut[]): (readonly [group: string, types: readonly EventTypeOut[]])[] {
  const groups = Map.groupBy(types, ({ groupName }) => groupName ?? '')
  return [...groups].sort(([a], [b]) => (a === '' ? 1 : b === '' ? -1 : a.localeCompare(b)))
}

/** Chooses event types from the catalogue, or all of them. */
export function EventPicker({ value, onChange }: PickerProps) {
  const { types = [] } = useEventTypes()
  const [search, setSearch] = useState('')
  const chosen = new Set(value)
  const wanted = search.toLowerCase()
  const shown = types.filter(({ name, description }) => `${name} ${description}`.toLowerCase().includes(wanted))
  const others = [...chosen].filter((name) => !types.some((type) => type.name === name))
  const toggle = (names: readonly string[], on: boolean) => {
    const next = new Set(chosen)
    for (const name of names) {
      if (on) next.add(name)
      else next.delete(name)
    }
    onChange([...next])
  }
  return (
    <div class="picker">
      <Segmented<'all' | 'some'>
        label="Events"
        value={value === null ? 'all' : 'some'}
        choices={[
          ['all', 'All events'],
          ['some', 'Selected events'],
        ]}
        onChange={(next) => onChange(next === 'all' ? null : [])}
      />
      {value === null ? (
        <p class="hint">Including event types that are added later.</p>
      ) : (
        <>
          {types.length > 0 && (
            <div class="picker-box">
              <div class="picker-head">
                <input
                  type="search"
                  name="eventSearch"
                  placeholder="Find an event type"
                  aria-label="Find an event type"
                  value={search}
                  onInput={(event) => setSearch(event.currentTarget.value)}
                />
                <span class="faint">{count(chosen.size, 'selected', 'selected')}</span>
              </div>
              {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls is reached by the keyboard. */}
              <div class="picker-list" role="group" aria-label="Event types" tabIndex={0}>
                {groupsOf(shown).map(([group, members]) => (
                  <div key={group}>
                    {group !== '' && (
                      <label class="pick group">
                        <input
                          type="checkbox"
                          checked={members.every(({ name }) => chosen.has(name))}
                          onChange={(event) =>
                            toggle(
                              members.map(({ name }) => name),
                              event.currentTarget.checked,
                            )
                          }
                        />
                        <span>{group}</span>
                      </label>
                    )}
                    {members.map(({ name, description, deprecated }) => (
                      <label key={name} class="pick">
                        <input
                          type="checkbox"
                          value={name}
                          checked={chosen.has(name)}
                          onChange={(event) => toggle([name], event.currentTarget.checked)}
                        />
                        <span>
                          <code>{name}</code> {deprecated && <Tag>deprecated</Tag>}
                          {description !== '' && <span class="soft about">{description}</span>}
                        </span>
                      </label>
                    ))}
                  </div>
                ))}
                {shown.length === 0 && <p class="soft none">No event type matches.</p>}
              </div>
            </div>
          )}
          <OtherNames
            key={others.length === 0 ? 'none' : 'some'}
            names={others}
            onChange={(next) => {
              const known = [...chosen].filter((name) => types.some((type) => type.name === name))
              onChange([...known, ...next])
            }}
          />
        </>
      )}
    </div>
  )
}

/** Names that are not in the catalogue, and patterns such as `video.*`. */
function OtherNames({ names, onChange }: { names: readonly string[]; onChange(names: readonly string[]): void }) {
  return (
    <label class="field">
      <span class="label">
        Names and patterns <span class="optional">optional</span>
      </span>
      <input
        name="patterns"
        autocomplete="off"
        spellcheck={false}
        placeholder="video.*"
        defaultValue={names.join(', ')}
        onChange={(event) => onChange(event.currentTarget.value.split(/[\s,]+/).filter(Boolean))}
      />
      <span class="hint">Separated by commas. video.* stands for every event type that begins with video.</span>
    </label>
  )
}
