import { useAsk } from '../api/ask.ts'
import { Code } from '../parts/code.tsx'
import type { FormSchema } from '../parts/form.tsx'
import { Empty, Failure, Loading, Page, SearchField, Section } from '../parts/page.tsx'
import { Tag } from '../parts/pill.tsx'
import { type Params, query, setQuery } from '../router.ts'
import { groupsOf, useEventTypes } from './event-picker.tsx'

/** Every event that can come, with what it means. */
export function EventsPage() {
  const { types, error, refresh } = useEventTypes()
  const search = query.value.get('search') ?? ''
  const wanted = search.toLowerCase()
  const shown = types?.filter(({ name, description }) => `${name} ${description}`.toLowerCase().includes(wanted)) ?? []
  return (
    <Page title="Event catalogue">
      {error && types === undefined && <Failure error={error} retry={refresh} />}
      {types?.length === 0 && (
        <div class="card">
          <Empty title="The catalogue is empty">Events are not described yet. An endpoint can take all of them.</Empty>
        </div>
      )}
      {types !== undefined && types.length > 0 && (
        <div class="toolbar">
          <SearchField
            value={search}
            label="Search by name or description"
            onChange={(text) => setQuery({ search: text })}
          />
        </div>
      )}
      {groupsOf(shown).map(([group, members], _i, all) => (
        <Section
          key={group}
          title={group === '' ? (all.length > 1 ? 'Others' : 'Events') : group}
          note={members.length}
        >
          <ul class="events">
            {members.map(({ name, description, deprecated }) => (
              <li key={name}>
                <a href={`/portal/events/${encodeURIComponent(name)}`}>
                  <span>
                    <code>{name}</code> {deprecated && <Tag>deprecated</Tag>}
                  </span>
                  <span class="soft">{description}</span>
                </a>
              </li>
            ))}
          </ul>
        </Section>
      ))}
      {types !== undefined && types.length > 0 && shown.length === 0 && (
        <div class="card">
          <Empty title="No event type matches" />
        </div>
      )}
    </Page>
  )
}

interface Schema extends FormSchema {
  readonly examples?: readonly unknown[]
}

/** One event type: its fields, an example and the whole schema. */
export function EventPage({ params }: { params: Params }) {
  const type = useAsk('GET /event-type/{event_type_name}', { path: { event_type_name: params.name ?? '' } })
  const up = [['Event catalogue', '/portal/events']] as const
  const { data } = type
  if (data === undefined) {
    if (type.error === undefined) return <Loading />
    return (
      <Page title="Event type" up={up}>
        <Failure error={type.error} retry={type.refresh} />
      </Page>
    )
  }
  const newest = Object.entries(data.schemas ?? {}).at(-1)
  const schema = newest?.[1] as Schema | undefined
  const fields = Object.entries(schema?.properties ?? {})
  const example = schema?.examples?.[0]
  return (
    <Page title={data.name} up={up} note={data.deprecated && <Tag>deprecated</Tag>}>
      {data.description !== '' && (
        <p class="sub">
          <span class="soft">{data.description}</span>
        </p>
      )}
      {schema === undefined && (
        <div class="card">
          <Empty title="No schema">The fields of this event are not described.</Empty>
        </div>
      )}
      {fields.length > 0 && (
        <Section title="Fields">
          <ul class="fields">
            {fields.map(([name, field]) => (
              <li key={name}>
                <span>
                  <code>{name}</code>
                  <span class="faint"> {[field.type ?? []].flat().join(' or ')}</span>
                  {schema?.required?.includes(name) && <Tag>always</Tag>}
                </span>
                {field.description && <span class="soft">{field.description}</span>}
              </li>
            ))}
          </ul>
        </Section>
      )}
      {example !== undefined && (
        <Section title="Example">
          <div class="inside">
            <Code text={JSON.stringify(example, null, 2)} label="example" />
          </div>
        </Section>
      )}
      {schema !== undefined && (
        <Section title="JSON Schema" note={`version ${newest?.[0]}`}>
          <div class="inside">
            <Code text={JSON.stringify(schema, null, 2)} label="schema" />
          </div>
        </Section>
      )}
    </Page>
  )
}
