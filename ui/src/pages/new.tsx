import { pageItems } from '../../../src/domain/api.ts'
import { toApiError, useAsk } from '../api/ask.ts'
import { call, send } from '../api/call.ts'
import { forms } from '../api/forms.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Form } from '../parts/form.tsx'
import { say } from '../parts/toast.tsx'
import { navigate } from '../router.ts'

interface NewProps {
  readonly app: string
  onClose(): void
}

/** A dialog that adds an endpoint. The rest of its settings is on its page. */
export function AddEndpoint({ app, onClose }: NewProps) {
  return (
    <Dialog title="Add an endpoint" onClose={onClose}>
      <Form
        schema={forms.EndpointIn}
        groups={[{ fields: ['url', 'description', 'uid', 'eventTypes', 'throttleRate'] }]}
        action="Add"
        onCancel={onClose}
        onSave={async (body) => {
          const { id } = await call('POST /app/{app_id}/endpoint', {
            path: { app_id: app },
            body: body as { url: string },
          })
          say('Added.')
          navigate(`/app/${app}/endpoint/${id}`)
        }}
      />
    </Dialog>
  )
}

/** A dialog that publishes a message. The payload goes out as it is written. */
export function SendMessage({ app, onClose }: NewProps) {
  const types = useAsk('GET /event-type', { query: { limit: pageItems.most } })
  return (
    <Dialog title="Send a message" onClose={onClose}>
      <form
        onSubmit={async (event) => {
          event.preventDefault()
          const form = new FormData(event.currentTarget)
          const payload = String(form.get('payload'))
          try {
            JSON.parse(payload)
            const head = JSON.stringify({ eventType: form.get('eventType') })
            const body = `${head.slice(0, -1)},"payload":${payload}}`
            const response = await send('POST /app/{app_id}/msg', {
              path: { app_id: app },
              body,
              contentType: 'application/json',
            })
            const { id } = (await response.json()) as { id: string }
            say('Accepted.')
            navigate(`/app/${app}/msg/${id}`)
          } catch (error) {
            say(error instanceof SyntaxError ? 'The payload is not valid JSON.' : toApiError(error).message, 'bad')
          }
        }}
      >
        <div class="body">
          <label class="field">
            <span class="label">Event type</span>
            <input name="eventType" required list="event-types" autocomplete="off" placeholder="video.trending" />
            <datalist id="event-types">
              {types.data?.data.map(({ name }) => (
                <option key={name} value={name} />
              ))}
            </datalist>
          </label>
          <label class="field">
            <span class="label">Payload</span>
            <textarea
              name="payload"
              class="code"
              rows={8}
              required
              spellcheck={false}
              defaultValue={'{\n  "hello": "world"\n}'}
            />
            <span class="hint">JSON. Receivers get these bytes as they are.</span>
          </label>
        </div>
        <footer>
          <Button onPress={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" icon="send">
            Send
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}
