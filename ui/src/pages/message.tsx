import { useEffect, useState } from 'preact/hooks'
import { pageItems } from '../../../src/domain/api.ts'
import { toApiError, useAsk } from '../api/ask.ts'
import { type ApiError, call, send } from '../api/call.ts'
import { rawField } from '../api/raw.ts'
import type { MessageAttemptOut, MessageEndpointOut, MessageOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button, copy, Id } from '../parts/button.tsx'
import { Code, indent, Payload } from '../parts/code.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Empty, Facts, Failure, Loading, Page, Section } from '../parts/page.tsx'
import { Pill, Status, Tag } from '../parts/pill.tsx'
import { localTime, shortUrl, span, words } from '../parts/text.ts'
import { Ago, toMs } from '../parts/time.tsx'
import { say } from '../parts/toast.tsx'
import { type Params, query, setQuery } from '../router.ts'
import { maySendAgain } from '../session.ts'

/** One message in the dashboard. */
export function MessagePage({ params }: { params: Params }) {
  const at = { app_id: params.app ?? '', msg_id: params.message ?? '' }
  const app = useAsk('GET /app/{app_id}', { path: at })
  const up = [
    ['Applications', '/applications'],
    [app.data?.name ?? at.app_id, `/app/${at.app_id}`],
  ] as const
  return <MessageView at={at} up={up} endpointHref={(id) => `/app/${at.app_id}/endpoint/${id}`} />
}

interface MessageViewProps {
  readonly at: MessagePath
  /** The way back up: label and path. */
  readonly up: readonly (readonly [label: string, to: string])[]
  endpointHref(id: string): string
}

/** One message: its payload, and each destination as a timeline of attempts. */
export function MessageView({ at, up, endpointHref }: MessageViewProps) {
  const message = useMessage(at)
  const destinations = useAsk(
    'GET /app/{app_id}/msg/{msg_id}/endpoint',
    { path: at, query: { limit: pageItems.most } },
    3000,
  )
  const attempts = useAsk(
    'GET /app/{app_id}/attempt/msg/{msg_id}',
    { path: at, query: { limit: pageItems.most, order: 'ascending' } },
    3000,
  )
  const setShown = (attempt: MessageAttemptOut | undefined) => setQuery({ attempt: attempt?.id })
  const shown = attempts.data?.data.find(({ id }) => id === query.value.get('attempt'))
  if (message.error) {
    return (
      <Page title="Message" up={up}>
        <Failure error={message.error} />
      </Page>
    )
  }
  if (message.data === undefined) return <Loading />
  const { data, payload } = message
  const refresh = async () => {
    await Promise.all([destinations.refresh(), attempts.refresh()])
  }
  return (
    <Page title={data.eventType} up={up}>
      <p class="sub">
        <Id id={data.id} />
        {data.eventId && <Tag>{data.eventId}</Tag>}
        <span class="soft">
          accepted <Ago at={data.timestamp} />
        </span>
      </p>
      <div class="columns main-side">
        <Section title="Destinations" note={destinations.data && `${destinations.data.data.length}`}>
          {destinations.error && <Failure error={destinations.error} />}
          {destinations.data?.data.length === 0 && (
            <Empty title="No endpoint wanted this message">
              No endpoint of the application subscribed to {data.eventType} when the message was accepted.
            </Empty>
          )}
          {destinations.data?.data.map((endpoint) => (
            <Destination
              key={endpoint.id}
              at={at}
              href={endpointHref(endpoint.id)}
              message={data}
              payload={payload}
              endpoint={endpoint}
              attempts={attempts.data?.data.filter(({ endpointId }) => endpointId === endpoint.id) ?? []}
              onShow={setShown}
              onChange={refresh}
            />
          ))}
        </Section>
        <div>
          <Section title="Payload">
            <div class="inside stack">
              {payload === undefined ? (
                <p class="soft">The payload was erased or has expired.</p>
              ) : (
                <Payload raw={payload} label="payload" />
              )}
            </div>
          </Section>
          <Section title="About">
            <Facts
              facts={[
                ['Accepted', localTime(toMs(data.timestamp) ?? 0)],
                ...(data.deliverAt ? [['Deliver at', localTime(toMs(data.deliverAt) ?? 0)] as const] : []),
                ...(data.expiresAt ? [['Expires', localTime(toMs(data.expiresAt) ?? 0)] as const] : []),
                ['Channels', data.channels?.join(', ') || '–'],
                ['Tags', data.tags?.join(', ') || '–'],
                ...(data.orderingKey ? [['Ordering key', data.orderingKey] as const] : []),
              ]}
            />
          </Section>
        </div>
      </div>
      {shown && <AttemptDialog attempt={shown} payload={payload} onClose={() => setShown(undefined)} />}
    </Page>
  )
}

interface MessagePath {
  readonly app_id: string
  readonly msg_id: string
}

/** The payload of a message whose content is gone. */
const erased = '{"expired":true}'

/** A message with its payload as the text that was published; undefined when it is erased. */
function useMessage(at: MessagePath): { data?: MessageOut; payload: string | undefined; error?: ApiError } {
  const [state, setState] = useState<{ data?: MessageOut; payload: string | undefined; error?: ApiError }>({
    payload: undefined,
  })
  useEffect(() => {
    send('GET /app/{app_id}/msg/{msg_id}', { path: at, query: { with_content: true } })
      .then((response) => response.text())
      .then((text) => {
        const raw = rawField(text, 'payload')
        const payload = raw === erased ? undefined : raw
        setState({ data: JSON.parse(text) as MessageOut, payload })
      })
      .catch((error: unknown) => setState({ payload: undefined, error: toApiError(error) }))
  }, [at.app_id, at.msg_id])
  return state
}

interface DestinationProps {
  readonly at: MessagePath
  readonly href: string
  readonly message: MessageOut
  readonly payload: string | undefined
  readonly endpoint: MessageEndpointOut
  readonly attempts: readonly MessageAttemptOut[]
  onShow(attempt: MessageAttemptOut): void
  onChange(): Promise<void>
}

/** One endpoint that the message is for: its state in a sentence, and its attempts with the waits between them. */
function Destination({ at, href, message, payload, endpoint, attempts, onShow, onChange }: DestinationProps) {
  const path = { ...at, endpoint_id: endpoint.id }
  const isOpen = endpoint.statusText === 'pending' || endpoint.statusText === 'sending'
  const why = useAsk(
    'GET /app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/why',
    endpoint.deleted ? null : { path },
    isOpen ? 3000 : undefined,
  )
  return (
    <article class="destination">
      <header>
        <Pill state={endpoint.statusText} label={statusLabels[endpoint.statusText]} />
        <a class="cut" href={href}>
          {shortUrl(endpoint.url)}
        </a>
        <div class="actions">
          {payload !== undefined && (
            <Button
              icon="copy"
              kind="plain"
              onPress={async () => {
                await copy(curlOf(endpoint, message, payload))
                say('The command is on the clipboard.')
              }}
            >
              curl
            </Button>
          )}
          {maySendAgain() && !endpoint.deleted && payload !== undefined && (
            <Button
              icon="refresh"
              onPress={async () => {
                await act(
                  () => call('POST /app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend', { path }),
                  'It is sent again.',
                )
                await onChange()
              }}
            >
              Resend
            </Button>
          )}
        </div>
      </header>
      {why.data && <p class="soft">{why.data.detail}</p>}
      <ol class="timeline">
        {attempts.map((attempt, i) => {
          const before = attempts[i - 1]
          const start = toMs(attempt.timestamp) ?? 0
          const waited =
            start -
            (before === undefined
              ? (toMs(message.timestamp) ?? start)
              : (toMs(before.timestamp) ?? start) + before.responseDurationMs)
          return (
            <li key={attempt.id}>
              <span class="waited">{waited >= 5 ? `after ${span(waited)}` : 'at once'}</span>
              <button
                type="button"
                class="plain attempt"
                data-tone={attempt.statusText === 'success' ? 'good' : 'bad'}
                onClick={() => onShow(attempt)}
              >
                <span class="dot" />
                <Status code={attempt.responseStatusCode} />
                <span class="cut soft">
                  {attempt.code === 'delivered' ? 'Delivered' : (attempt.error ?? words(attempt.code))}
                </span>
                <span class="faint">{span(attempt.responseDurationMs)}</span>
                <span class="faint when">
                  <Ago at={attempt.timestamp} />
                </span>
              </button>
            </li>
          )
        })}
        {isOpen && endpoint.nextAttempt !== null && (
          <li>
            <span class="waited">next</span>
            <span class="attempt" data-tone="quiet">
              <span class="dot" />
              <span class="soft">
                Attempt {attempts.length + 1} <Ago at={endpoint.nextAttempt} />
              </span>
            </span>
          </li>
        )}
      </ol>
    </article>
  )
}

const statusLabels = {
  success: 'Delivered',
  pending: 'Waiting',
  sending: 'Sending',
  fail: 'Failed',
  canceled: 'Canceled',
} as const

/** One attempt: its request, its answer, and its times. */
function AttemptDialog({
  attempt,
  payload,
  onClose,
}: {
  attempt: MessageAttemptOut
  payload: string | undefined
  onClose(): void
}) {
  const { timings } = attempt
  const headers = Object.entries(attempt.responseHeaders ?? {})
  return (
    <Dialog title={`Attempt ${attempt.attempt}`} wide onClose={onClose}>
      <div class="body">
        <Facts
          facts={[
            ['Answer', <Status key="status" code={attempt.responseStatusCode} />],
            ...(attempt.code === 'delivered' ? [] : [['Problem', attempt.error ?? words(attempt.code)] as const]),
            ['Started', localTime(toMs(attempt.timestamp) ?? 0)],
            ['Sent to', attempt.url],
            ['Id', <Id key="id" id={attempt.id} />],
          ]}
        />
        <Timing total={attempt.responseDurationMs} timings={timings} />
        <h3>Answer</h3>
        {headers.length > 0 && (
          <Code text={headers.map(([name, value]) => `${name}: ${value}`).join('\n')} label="response headers" />
        )}
        {attempt.response === '' ? (
          <p class="soft">The receiver sent no body.</p>
        ) : (
          <Code text={indent(attempt.response)} label="response body" />
        )}
        <h3>Request</h3>
        <p class="soft">The same bytes with each attempt.</p>
        {payload !== undefined && <Code text={indent(payload)} label="request body" />}
      </div>
    </Dialog>
  )
}

/** Where the time of an attempt went, as one bar. */
function Timing({ total, timings }: { total: number; timings: MessageAttemptOut['timings'] }) {
  const parts = [
    ['DNS', timings?.dnsMs ?? 0, '--chart-2'],
    ['Connect', timings?.connectMs ?? 0, '--chart-3'],
    ['TLS', timings?.tlsMs ?? 0, '--wait'],
    ['First byte', timings?.firstByteMs ?? 0, '--info'],
  ] as const
  const known = parts.reduce((sum, [, ms]) => sum + ms, 0)
  const rest = Math.max(0, total - known)
  const all = [...parts, [timings === null ? 'Total' : 'Body', rest, '--good'] as const].filter(([, ms]) => ms > 0)
  return (
    <div class="timing">
      <div class="bar" role="img" aria-label={all.map(([name, ms]) => `${name} ${span(ms)}`).join(', ')}>
        {all.map(([name, ms, colour]) => (
          <i key={name} style={{ flexGrow: ms, background: `var(${colour})` }} />
        ))}
      </div>
      <div class="keys">
        {all.map(([name, ms, colour]) => (
          <span key={name}>
            <i style={{ background: `var(${colour})` }} />
            {name} <b>{span(ms)}</b>
          </span>
        ))}
        <span class="faint">
          {span(total)} in all{timings?.reused ? ', on a connection that was open' : ''}
        </span>
      </div>
    </div>
  )
}

/** A command that sends the same body to the same URL, without a signature. */
function curlOf(endpoint: MessageEndpointOut, message: MessageOut, payload: string): string {
  const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`
  return [
    `curl -X ${endpoint.method} ${quote(endpoint.url)}`,
    `-H 'content-type: application/json'`,
    `-H ${quote(`webhook-id: ${message.id}`)}`,
    `--data-raw ${quote(payload)}`,
  ].join(' \\\n  ')
}
