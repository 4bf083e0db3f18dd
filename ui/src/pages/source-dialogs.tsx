import { useState } from 'preact/hooks'
import { call } from '../api/call.ts'
import type { SourceOut, SourceProviderOut } from '../api/schema.ts'
import { act } from '../parts/act.ts'
import { Button } from '../parts/button.tsx'
import { Code } from '../parts/code.tsx'
import { confirm, Dialog } from '../parts/dialog.tsx'
import { Form } from '../parts/form.tsx'
import { say } from '../parts/toast.tsx'
import { navigate } from '../router.ts'
import { Grace } from './grace.tsx'
import { secretSchema, settingGroups, settingsSchema } from './sources.tsx'

/** The source that a page shows, by the names of its path. */
export interface At {
  readonly app_id: string
  readonly source_id: string
}

interface ChangeProps {
  readonly at: At
  readonly provider: SourceProviderOut
  onClose(): void
}

/** Changes the name and the settings of a source. */
export function ChangeSource({ at, source, provider, onClose }: ChangeProps & { readonly source: SourceOut }) {
  const schema = settingsSchema(provider)
  const isKept = (name: string) => source.sensitiveSettings.includes(name)
  return (
    <Dialog title="Change the source" wide onClose={onClose}>
      <Form
        schema={{
          ...schema,
          // A setting that is not shown stays as it is when it is left empty.
          required: ['name', ...(schema.required ?? []).filter((name) => !isKept(name))],
          properties: { ...schema.properties, name: { type: 'string', minLength: 1, maxLength: 256 } },
        }}
        groups={[{ fields: ['name'] }, ...settingGroups(provider)]}
        values={{ ...source.settings, name: source.name }}
        within="settings"
        action="Save"
        onCancel={onClose}
        onSave={async ({ name, ...settings }) => {
          const body = { name: String(name), settings }
          await call('PATCH /app/{app_id}/source/{source_id}', { path: at, body })
          say('Saved.')
          onClose()
        }}
      />
    </Dialog>
  )
}

/** A new URL; the old one works for a while. */
export function NewUrl({ at, provider, onClose }: ChangeProps) {
  const [url, setUrl] = useState<string | null>()
  if (url !== undefined) {
    return (
      <Dialog title="New URL" onClose={onClose}>
        <div class="body">
          <p>Paste it at {provider.title} before the old one stops.</p>
          <Code text={url ?? ''} label="URL" />
        </div>
      </Dialog>
    )
  }
  return (
    <Dialog title="New URL" onClose={onClose}>
      <form
        onSubmit={async (event) => {
          event.preventDefault()
          const gracePeriodSeconds = Number(new FormData(event.currentTarget).get('grace'))
          await act(async () => {
            const rotated = await call('POST /app/{app_id}/source/{source_id}/token/rotate', {
              path: at,
              body: { gracePeriodSeconds },
            })
            setUrl(rotated.url)
          }, 'The URL is changed.')
        }}
      >
        <div class="body">
          <p>For a URL that became known, or from time to time. You paste the new one at {provider.title}.</p>
          <Grace of="URL" usual="two days" />
        </div>
        <footer>
          <Button onPress={onClose}>Cancel</Button>
          <Button type="submit" kind="primary">
            Make a new URL
          </Button>
        </footer>
      </form>
    </Dialog>
  )
}

/** A new secret; requests that are signed with the old one are accepted for a while. */
export function NewSecret({ at, provider, onClose }: ChangeProps) {
  const [made, setMade] = useState<string>()
  const { secret } = provider
  const isGiven = secret?.origin === 'given'
  const { minLength = 1, description } = secretSchema(provider)
  return (
    <Dialog title="New secret" onClose={onClose}>
      {made !== undefined ? (
        <div class="body">
          <p>Paste it at {provider.title}. It is shown only now.</p>
          <Code text={made} label="secret" />
        </div>
      ) : (
        <form
          onSubmit={async (event) => {
            event.preventDefault()
            const form = new FormData(event.currentTarget)
            const written = String(form.get('secret')).trim()
            const body = { gracePeriodSeconds: Number(form.get('grace')), ...(written !== '' && { secret: written }) }
            await act(async () => {
              const rotated = await call('POST /app/{app_id}/source/{source_id}/secret/rotate', { path: at, body })
              if (rotated.secret === null) onClose()
              else setMade(rotated.secret)
            }, 'The secret is changed.')
          }}
        >
          <div class="body">
            <label class="field">
              <span class="label">
                {secret?.name}
                {!isGiven && <span class="optional">optional</span>}
              </span>
              <input
                name="secret"
                type="text"
                required={isGiven}
                minLength={minLength}
                maxLength={512}
                autocomplete="off"
                spellcheck={false}
              />
              <span class="hint">{description}</span>
            </label>
            <Grace of="secret" usual="two days" />
          </div>
          <footer>
            <Button onPress={onClose}>Cancel</Button>
            <Button type="submit" kind="primary">
              Change
            </Button>
          </footer>
        </form>
      )}
    </Dialog>
  )
}

/** Deletes a source, once its name was typed, and leaves its page. */
export async function removeSource(at: At, { name, uid }: SourceOut): Promise<void> {
  const go = await confirm({
    title: `Delete ${name}?`,
    text: 'Its URL answers 404, so the provider loses its events. Messages that arrived stay. This cannot be undone.',
    action: 'Delete',
    kind: 'danger',
    typed: uid ?? name,
  })
  if (!go) return
  if (await act(() => call('DELETE /app/{app_id}/source/{source_id}', { path: at }), 'Deleted.')) navigate('/sources')
}
