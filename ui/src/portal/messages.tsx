import { useState } from 'preact/hooks'
import { pageItems } from '../../../src/domain/api.ts'
import { useAsk, usePages } from '../api/ask.ts'
import { ApiError, call } from '../api/call.ts'
import type { MessageOut } from '../api/schema.ts'
import { MessageView } from '../pages/message.tsx'
import { ReplayDead } from '../pages/replay-dead.tsx'
import { useRepeat } from '../pages/use-repeat.ts'
import { Button } from '../parts/button.tsx'
import { Empty, Failure, Page, Segmented } from '../parts/page.tsx'
import { Pill } from '../parts/pill.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Ago } from '../parts/time.tsx'
import { say } from '../parts/toast.tsx'
import { navigate, type Params, query, setQuery } from '../router.ts'
import { maySendAgain } from '../session.ts'
import { ownApp } from './portal-session.ts'

type Wanted = 'all' | 'success' | 'waiting' | 'fail'

const times = [
  ['1', 'Last hour'],
  ['24', 'Last 24 hours'],
  ['168', 'Last 7 days'],
  ['', 'Last 90 days'],
] as const

/** The messages of the application, with how they went. */
export function MessagesPage() {
  const app_id = ownApp()
  const status = (query.value.get('status') ?? 'all') as Wanted
  const eventType = query.value.get('event') ?? ''
  const hours = query.value.get('hours') ?? ''
  const types = useAsk('GET /event-type', { query: { limit: pageItems.most } })
  const list = usePages<MessageOut>(`${app_id} ${status} ${eventType} ${hours}`, (iterator) =>
    call('GET /app/{app_id}/msg', {
      path: { app_id },
      query: {
        limit: pageItems.usual,
        with_content: false,
        with_status: true,
        ...(status !== 'all' && { delivery_status: status }),
        ...(eventType !== '' && { event_types: [eventType] }),
        ...(hours !== '' && { after: new Date(Date.now() - Number(hours) * 3_600_000).toISOString() }),
        ...(iterator !== undefined && { iterator }),
      },
    }),
  )
  useRepeat(list.refresh, list.rows.length <= pageItems.usual ? 4000 : undefined)
  const [isReplaying, setReplaying] = useState(false)
  const isFiltered = status !== 'all' || eventType !== '' || hours !== ''
  return (
    <Page
      title="Messages"
      actions={
        status === 'fail' &&
        list.rows.length > 0 &&
        maySendAgain() && (
          <Button icon="refresh" onPress={() => setReplaying(true)}>
            Send failed again…
          </Button>
        )
      }
    >
      <div class="toolbar">
        <Segmented<Wanted>
          label="Status"
          value={status}
          choices={[
            ['all', 'All'],
            ['success', 'Delivered'],
            ['waiting', 'Waiting'],
            ['fail', 'Failed'],
          ]}
          onChange={(next) => setQuery({ status: next === 'all' ? undefined : next })}
        />
        <select
          name="event"
          aria-label="Event type"
          value={eventType}
          onChange={(event) => setQuery({ event: event.currentTarget.value })}
        >
          <option value="">All event types</option>
          {types.data?.data.map(({ name }) => (
            <option key={name} value={name}>
              {name}
            </option>
          ))}
        </select>
        <select
          name="hours"
          aria-label="Time"
          value={hours}
          onChange={(event) => setQuery({ hours: event.currentTarget.value })}
        >
          {times.map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </select>
        <GoTo app={app_id} />
      </div>
      {list.error && <Failure error={list.error} retry={list.refresh} />}
      <div class="card">
        <Table
          label="Messages"
          columns={columns}
          rows={list.rows}
          keyOf={({ id }) => id}
          hrefOf={({ id }) => `/portal/message/${id}`}
          onEnd={list.more}
          isLoading={list.isLoading}
          empty={
            isFiltered ? (
              <Empty title="No message matches">Choose another status, event type or time.</Empty>
            ) : (
              <Empty title="No messages yet">Messages show here as soon as an event is sent to you.</Empty>
            )
          }
        />
      </div>
      {isReplaying && (
        <ReplayDead
          app={app_id}
          filter={eventType === '' ? {} : { event_types: [eventType] }}
          onClose={() => setReplaying(false)}
          onEnd={list.refresh}
        >
          <p>
            All failed deliveries{eventType !== '' && ` of ${eventType}`} are sent to their endpoints again, after
            everything that is new.
          </p>
        </ReplayDead>
      )}
    </Page>
  )
}

/** Opens a message by its id. */
function GoTo({ app }: { app: string }) {
  const [text, setText] = useState('')
  return (
    <form
      class="search"
      onSubmit={async (event) => {
        event.preventDefault()
        const wanted = text.trim()
        if (wanted === '') return
        try {
          const path = { app_id: app, msg_id: wanted }
          const { id } = await call('GET /app/{app_id}/msg/{msg_id}', { path, query: { with_content: false } })
          navigate(`/portal/message/${id}`)
        } catch (error) {
          const isUnknown = error instanceof ApiError && error.status === 404
          say(isUnknown ? `There is no message ${wanted}.` : String(error), 'bad')
        }
      }}
    >
      <input
        type="search"
        name="id"
        placeholder="Go to a message by id"
        aria-label="Go to a message by id"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </form>
  )
}

const columns: Column<MessageOut>[] = [
  { name: 'Event type', width: 'minmax(0, 1.4fr)', cell: ({ eventType }) => <span class="strong">{eventType}</span> },
  { name: 'Status', width: 'minmax(108px, 1fr)', cell: ({ deliveries }) => <MessageState deliveries={deliveries} /> },
  {
    name: 'Message',
    width: 'minmax(0, 2fr)',
    narrow: 'hide',
    cell: ({ id, eventId }) => <code class="faint">{eventId ?? id}</code>,
  },
  { name: 'Accepted', width: '96px', align: 'end', narrow: 'hide', cell: ({ timestamp }) => <Ago at={timestamp} /> },
]

/** One word for all deliveries of a message: the worst of them. */
function MessageState({ deliveries }: { deliveries: MessageOut['deliveries'] }) {
  if (deliveries == null) return <span class="faint">–</span>
  const { success, waiting, fail, canceled } = deliveries
  const all = success + waiting + fail + canceled
  const part = (n: number) => (all > 1 && n < all ? ` ${n} of ${all}` : '')
  if (fail > 0) return <Pill state="fail" label={`Failed${part(fail)}`} />
  if (waiting > 0) return <Pill state="pending" label={`Waiting${part(waiting)}`} />
  if (success > 0) return <Pill state="success" label={`Delivered${part(success)}`} />
  return <Pill state="canceled" label={canceled > 0 ? 'Canceled' : 'No endpoint'} />
}

/** One message: its payload, and the result of each attempt. */
export function MessagePage({ params }: { params: Params }) {
  const at = { app_id: ownApp(), msg_id: params.message ?? '' }
  return <MessageView at={at} up={[['Messages', '/portal/messages']]} endpointHref={(id) => `/portal/endpoint/${id}`} />
}
