import { useState } from 'preact/hooks'
import { pageItems } from '../../../src/domain/api.ts'
import { useAsk } from '../api/ask.ts'
import { call } from '../api/call.ts'
import type { EndpointOut, LaneOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button } from '../parts/button.tsx'
import { Code } from '../parts/code.tsx'
import { confirm, Dialog } from '../parts/dialog.tsx'
import type { MenuItem } from '../parts/menu.tsx'
import { navigate } from '../router.ts'
import { mayManage, maySendAgain } from '../session.ts'
import type { EndpointPath } from './endpoint.tsx'
import { Grace } from './grace.tsx'
import { ReplayDialog } from './replay-dialog.tsx'

export type EndpointDialog = 'test' | 'replay' | 'secret' | 'rotate'

/** Everything that can be done with an endpoint beyond its first buttons. */
export function endpointMenu(
  endpoint: EndpointOut,
  lane: LaneOut | undefined,
  at: EndpointPath,
  open: (dialog: EndpointDialog) => void,
  refresh: () => Promise<void>,
): MenuItem[] {
  const run =
    (
      operation: 'circuit/open' | 'circuit/close' | 'circuit/reset' | 'lane/head/retry' | 'lane/head/skip',
      done: string,
    ) =>
    async () => {
      await act(
        () => call(`POST /app/{app_id}/endpoint/{endpoint_id}/${operation}`, { path: at, body: {} } as never),
        done,
      )
      await refresh()
    }
  const items: MenuItem[] = []
  if (maySendAgain()) items.push({ label: 'Send again…', icon: 'refresh', onPress: () => open('replay') })
  if (!mayManage()) return items
  const isClosed = lane?.circuit.state === 'closed'
  items.push(
    isClosed
      ? {
          label: 'Open the circuit',
          icon: 'pause',
          onPress: run('circuit/open', 'The circuit is open: nothing is sent.'),
        }
      : { label: 'Close the circuit', icon: 'play', onPress: run('circuit/close', 'The circuit is closed.') },
    { label: 'Close and forget failures', icon: 'check', onPress: run('circuit/reset', 'Failures are forgotten.') },
  )
  if (endpoint.order !== 'none') {
    items.push(
      {
        label: 'Retry the first delivery',
        icon: 'play',
        apart: true,
        onPress: run('lane/head/retry', 'The first delivery is retried.'),
      },
      {
        label: 'Skip the first delivery',
        icon: 'right',
        onPress: run('lane/head/skip', 'The first delivery becomes a dead letter.'),
      },
    )
  }
  items.push(
    { label: 'Show the secret', icon: 'keys', apart: true, onPress: () => open('secret') },
    { label: 'Rotate the secret…', icon: 'refresh', onPress: () => open('rotate') },
    {
      label: endpoint.disabled ? 'Enable' : 'Disable',
      icon: endpoint.disabled ? 'play' : 'close',
      apart: true,
      async onPress() {
        const disabled = !endpoint.disabled
        await act(
          () => call('PATCH /app/{app_id}/endpoint/{endpoint_id}', { path: at, body: { disabled } }),
          disabled ? 'Disabled.' : 'Enabled.',
        )
        await refresh()
      },
    },
    {
      label: 'Delete…',
      icon: 'dead',
      tone: 'bad',
      async onPress() {
        const go = await confirm({
          title: 'Delete this endpoint?',
          text: 'Its waiting deliveries are cancelled. Its messages and attempts stay. This cannot be undone.',
          action: 'Delete',
          kind: 'danger',
          typed: endpoint.uid ?? 'delete',
        })
        if (!go) return
        const done = await act(() => call('DELETE /app/{app_id}/endpoint/{endpoint_id}', { path: at }), 'Deleted.')
        if (done) navigate(`/app/${at.app_id}`)
      },
    },
  )
  return items
}

/** The dialogs of an endpoint, of which one is open at a time. */
export function useEndpointDialogs(at: EndpointPath) {
  const [shown, open] = useState<EndpointDialog>()
  const close = () => open(undefined)
  return {
    open,
    render(endpoint: EndpointOut, refresh: () => Promise<void>) {
      if (shown === 'test') return <TestDialog at={at} endpoint={endpoint} onClose={close} onDone={refresh} />
      if (shown === 'replay') return <ReplayDialog at={at} onClose={close} onEnd={refresh} />
      if (shown === 'secret') return <SecretDialog at={at} onClose={close} />
      if (shown === 'rotate') return <RotateDialog at={at} onClose={close} />
      return null
    },
  }
}

interface DialogProps {
  readonly at: EndpointPath
  onClose(): void
}

/** Sends an example of an event type to this endpoint alone. */
export function TestDialog({
  at,
  endpoint,
  onClose,
  onDone,
}: DialogProps & { endpoint: EndpointOut; onDone(): Promise<void> }) {
  const types = useAsk('GET /event-type', { query: { limit: pageItems.most } })
  const names = types.data?.data.map(({ name }) => name) ?? []
  const wanted = endpoint.eventTypes ?? []
  const sorted = [...names].sort((a, b) => Number(wanted.includes(b)) - Number(wanted.includes(a)))
  return (
    <Dialog title="Send a test event" onClose={onClose}>
      <form
        onSubmit={async (event) => {
          event.preventDefault()
          const eventType = String(new FormData(event.currentTarget).get('eventType'))
          const done = await act(
            () => call('POST /app/{app_id}/endpoint/{endpoint_id}/send-example', { path: at, body: { eventType } }),
            'The test event is on its way.',
          )
          if (!done) return
          onClose()
          await onDone()
        }}
      >
        <div class="body">
          <label class="field">
            <span class="label">Event type</span>
            <select name="eventType" required>
              {(types.isLoading ? [] : [...sorted, 'svix.ping']).map((name) => (
                <option key={name}>{name}</option>
              ))}
            </select>
            <span class="hint">An example of its schema is delivered to this endpoint alone, by its own rules.</span>
          </label>
        </div>
        <footer>
          <Button onPress={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" icon="send" disabled={types.isLoading}>
            Send
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}

function SecretDialog({ at, onClose }: DialogProps) {
  const secret = useAsk('GET /app/{app_id}/endpoint/{endpoint_id}/secret', { path: at })
  return (
    <Dialog title="Signing secret" onClose={onClose}>
      <div class="body">
        <p class="soft">Receivers check signatures with it. The audit log notes that it was shown.</p>
        {secret.error && <p class="problem">{secret.error.message}</p>}
        {secret.data && <Code text={secret.data.key} label="secret" />}
      </div>
    </Dialog>
  )
}

/** A new secret; the old one works for a while. */
export function RotateDialog({ at, onClose }: DialogProps) {
  const [made, setMade] = useState<string>()
  const [until, setUntil] = useState<number>()
  return (
    <Dialog title="Rotate the secret" onClose={onClose}>
      {made === undefined ? (
        <form
          onSubmit={async (event) => {
            event.preventDefault()
            const gracePeriodSeconds = Number(new FormData(event.currentTarget).get('grace'))
            const done = await act(
              () =>
                call('POST /app/{app_id}/endpoint/{endpoint_id}/secret/rotate', {
                  path: at,
                  body: { gracePeriodSeconds },
                }),
              'The secret is changed.',
            )
            if (!done) return
            setUntil(gracePeriodSeconds === 0 ? undefined : Date.now() + gracePeriodSeconds * 1000)
            setMade((await call('GET /app/{app_id}/endpoint/{endpoint_id}/secret', { path: at })).key)
          }}
        >
          <div class="body">
            <p>Deliveries are signed with the new and the old secret until the old one stops.</p>
            <Grace of="secret" usual="a day" />
          </div>
          <footer>
            <Button onPress={onClose}>Cancel</Button>
            <Button type="submit" kind="primary">
              Rotate
            </Button>
          </footer>
        </form>
      ) : (
        <div class="body">
          <p>
            {until === undefined
              ? 'The old secret no longer works. This is the new one:'
              : `The old secret works until ${new Date(until).toLocaleString()}. Until then, deliveries carry signatures of both. This is the new one:`}
          </p>
          <Code text={made} label="new secret" />
        </div>
      )}
    </Dialog>
  )
}
