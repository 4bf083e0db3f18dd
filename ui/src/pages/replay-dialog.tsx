import { useState } from 'preact/hooks'
import { useAsk } from '../api/ask.ts'
import { call } from '../api/call.ts'
import { Segmented } from '../parts/page.tsx'
import type { EndpointPath } from './endpoint.tsx'
import { SendAgain, type Size } from './send-again.tsx'

type Replay = 'recover' | 'replay-missing' | 'bulk-replay'

const replays: Readonly<Record<Replay, string>> = {
  recover: 'Messages whose deliveries failed for good (dead letters) are sent again.',
  'replay-missing': "Messages that match the endpoint's filters and that it never received are sent.",
  'bulk-replay': 'All messages that were sent to the endpoint are sent again, also those that arrived.',
}

const ranges = [
  ['3600', 'Last hour'],
  ['86400', 'Last 24 hours'],
  ['604800', 'Last 7 days'],
  ['2592000', 'Last 30 days'],
] as const
/** Dead letters of older messages are replayed by the page of dead letters. */
const longestRecoverySeconds = 1_209_600

interface ReplayDialogProps {
  readonly at: EndpointPath
  onClose(): void
  onStarted?(task: string): void
  onEnd?(): unknown
}

/** Sends messages to an endpoint again, at a pace. */
export function ReplayDialog({ at, onClose, onStarted, onEnd }: ReplayDialogProps) {
  const [kind, setKind] = useState<Replay>('recover')
  const [seconds, setSeconds] = useState('86400')
  const [openedAt] = useState(() => Date.now())
  const since = new Date(openedAt - Number(seconds) * 1000).toISOString()
  const counted = useAsk('GET /app/{app_id}/endpoint/{endpoint_id}/replayable', { path: at, query: { since } })
  return (
    <SendAgain
      title="Send messages again"
      app={at.app_id}
      noun={['message', 'messages']}
      size={counted.data && sizeOf(kind, counted.data)}
      problem={counted.error?.message}
      request={(perSecond) => {
        const body = { since, until: counted.data?.until ?? null, perSecond }
        return (once) => call(`POST /app/{app_id}/endpoint/{endpoint_id}/${kind}`, { path: at, body, once })
      }}
      onClose={onClose}
      onStarted={onStarted}
      onEnd={onEnd}
    >
      <Segmented<Replay>
        label="Messages"
        value={kind}
        choices={[
          ['recover', 'Failed'],
          ['replay-missing', 'Missed'],
          ['bulk-replay', 'All'],
        ]}
        onChange={(chosen) => {
          setKind(chosen)
          if (chosen === 'recover' && Number(seconds) > longestRecoverySeconds) setSeconds('604800')
        }}
      />
      <p class="soft">{replays[kind]}</p>
      <label class="field">
        <span class="label">Published within</span>
        <select name="since" value={seconds} onChange={(event) => setSeconds(event.currentTarget.value)}>
          {ranges
            .filter(([length]) => kind !== 'recover' || Number(length) <= longestRecoverySeconds)
            .map(([length, label]) => (
              <option key={length} value={length}>
                {label}
              </option>
            ))}
        </select>
      </label>
    </SendAgain>
  )
}

interface Replayable {
  readonly failed: number
  readonly failedMore: boolean
  readonly messages: number
  readonly messagesMore: boolean
}

/** Which messages an endpoint missed, or was sent, is found out on the way. */
function sizeOf(kind: Replay, { failed, failedMore, messages, messagesMore }: Replayable): Size {
  if (kind === 'recover') return { count: failed, more: failedMore }
  return { count: messages, more: messagesMore, atMost: true }
}
