import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { useAsk } from '../api/ask.ts'
import { call } from '../api/call.ts'
import type { DeadCountOut, DeadLetterOut, DeadReplayIn } from '../api/schema.ts'
import { toMs } from '../parts/time.tsx'
import { SendAgain } from './send-again.tsx'

/** Dead letters as the parameters of a list choose them. */
export interface DeadListFilter {
  readonly reason?: DeadLetterOut['reason']
  readonly event_types?: string[]
  readonly after?: string
}

/** Letters that one request can name. */
export const chosenLimit = 1000

interface ReplayDeadProps {
  /** Empty for all applications. */
  readonly app: string
  readonly filter: DeadListFilter
  /** These letters alone; undefined for all of the filter. */
  readonly chosen?: readonly DeadLetterOut[] | undefined
  readonly children?: ComponentChildren
  onClose(): void
  onEnd?(): unknown
}

/** Sends dead letters again: those that were chosen, or all of a filter. */
export function ReplayDead({ children, onClose, onEnd, ...given }: ReplayDeadProps) {
  // A filter such as "last hour" moves on while the dialog is open, and rows that were sent leave the list.
  const [{ app: shown, filter, chosen }] = useState(given)
  const app = chosen === undefined ? shown : oneAppOf(chosen)
  const counted = useDeadCount(app, chosen === undefined ? filter : null)
  const { event_types: eventTypes, ...rest } = filter
  return (
    <SendAgain
      title="Replay dead letters"
      app={app}
      noun={['dead letter', 'dead letters']}
      size={chosen === undefined ? counted.data : { count: chosen.length }}
      problem={counted.error?.message}
      request={(perSecond) => {
        const body: DeadReplayIn =
          chosen === undefined
            ? { ...rest, ...(eventTypes && { eventTypes }), before: counted.data?.before ?? null, perSecond }
            : {
                letters: chosen.map(({ msgId, endpointId }) => ({ msgId, endpointId })),
                before: afterAll(chosen),
                perSecond,
              }
        return (once) =>
          app === ''
            ? call('POST /dead/replay', { body, once })
            : call('POST /app/{app_id}/dead/replay', { path: { app_id: app }, body, once })
      }}
      onClose={onClose}
      onEnd={onEnd}
    >
      {children ?? <p>Each is tried again by the rules of its endpoint, behind the endpoint's fresh deliveries.</p>}
    </SendAgain>
  )
}

/** The number of dead letters of a filter; null counts none. */
export function useDeadCount(app: string, filter: DeadListFilter | null) {
  const ofAll = useAsk('GET /dead/count', app === '' && filter !== null ? { query: filter } : null)
  const path = { app_id: app }
  const ofOne = useAsk('GET /app/{app_id}/dead/count', app !== '' && filter !== null ? { path, query: filter } : null)
  return app === '' ? ofAll : ofOne
}

/** Counts the dead letters of a filter now. */
export function countDead(app: string, filter: DeadListFilter): Promise<DeadCountOut> {
  return app === ''
    ? call('GET /dead/count', { query: filter })
    : call('GET /app/{app_id}/dead/count', { path: { app_id: app }, query: filter })
}

/** The application that all of them belong to; empty when there are several. */
function oneAppOf(letters: readonly DeadLetterOut[]): string {
  const apps = new Set(letters.map(({ appId }) => appId))
  const [app = ''] = apps
  return apps.size === 1 ? app : ''
}

/** Just after the last of them died: none of them is replayed once more when it dies again. */
function afterAll(letters: readonly DeadLetterOut[]): string {
  return new Date(Math.max(...letters.map(({ diedAt }) => toMs(diedAt) ?? 0)) + 1).toISOString()
}
