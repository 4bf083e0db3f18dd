import { useState } from 'preact/hooks'
import { toApiError } from '../api/ask.ts'
import { call } from '../api/call.ts'
import type { EndpointTrialOut } from '../api/schema.ts'
import { Button, CopyButton } from '../parts/button.tsx'
import { Code, indent } from '../parts/code.tsx'
import { Field } from '../parts/form.tsx'
import { Section } from '../parts/page.tsx'
import { Pill } from '../parts/pill.tsx'
import { span, words } from '../parts/text.ts'
import { maySendAgain } from '../session.ts'
import { EventPicker, useEventTypes } from './event-picker.tsx'
import { ownApp } from './portal-session.ts'

/** The fields of an endpoint that a customer chooses. */
export interface Chosen {
  readonly url: string
  readonly description: string
  readonly eventTypes: readonly string[] | null
  readonly throttleRate: number | null
}

interface FormProps {
  readonly values: Chosen
  /** The secret of an endpoint that is about to be created: tests are signed with it. */
  readonly secret?: string
  readonly action: string
  onSave(chosen: Chosen): Promise<unknown>
  onCancel?(): void
}

/** The guided form of an endpoint: where, which events, how fast, and a test before it is saved. */
export function EndpointForm({ values, secret, action, onSave, onCancel }: FormProps) {
  const [chosen, setChosen] = useState(values)
  const [problems, setProblems] = useState<Readonly<Record<string, string>>>({})
  const set = (change: Partial<Chosen>) => setChosen((before) => ({ ...before, ...change }))
  const rest = Object.entries(problems).filter(([name]) => !['url', 'description', 'throttleRate'].includes(name))

  async function save(event: Event): Promise<void> {
    event.preventDefault()
    setProblems({})
    if (chosen.eventTypes?.length === 0) {
      return setProblems({ eventTypes: 'Select at least one event type, or choose all events.' })
    }
    try {
      await onSave(chosen)
    } catch (error) {
      const { fields, message } = toApiError(error)
      const own = Object.fromEntries(Object.entries(fields).map(([at, text]) => [at.split('.')[0] ?? '', text]))
      setProblems(Object.keys(own).length === 0 ? { '': message } : own)
    }
  }

  return (
    <form class="guided" onSubmit={save}>
      <Step title="Where" text="The URL that receives the requests.">
        <Field
          name="url"
          label="URL"
          isRequired
          schema={{ type: 'string', maxLength: 2000, description: 'Such as https://example.com/webhooks.' }}
          value={values.url}
          problem={problems.url}
          onInput={(url) => set({ url: url.trim() })}
        />
        <Field
          name="description"
          schema={{ type: 'string' }}
          value={values.description}
          problem={problems.description}
          onInput={(description) => set({ description })}
        />
      </Step>
      <Step title="Which events" text="The endpoint gets these and no others.">
        <EventPicker value={chosen.eventTypes} onChange={(eventTypes) => set({ eventTypes })} />
      </Step>
      <Step title="How fast" text="Deliveries beyond the limit wait. None is lost.">
        <Field
          name="throttleRate"
          label="Requests per second"
          schema={{
            type: 'integer',
            minimum: 1,
            maximum: 1_000_000,
            description: 'Leave empty for the default limit.',
          }}
          value={values.throttleRate}
          problem={problems.throttleRate}
          onInput={(text) => set({ throttleRate: text === '' ? null : Number(text) })}
        />
      </Step>
      {maySendAgain() && (
        <Step title="Test" text="Sends one example now. Nothing is saved.">
          {secret !== undefined && <NewSecret secret={secret} />}
          <Trial url={chosen.url} secret={secret} eventTypes={chosen.eventTypes} />
        </Step>
      )}
      <footer>
        {rest.map(([name, text]) => (
          <p key={name} class="problem" role="alert">
            {text}
          </p>
        ))}
        {onCancel && <Button onPress={onCancel}>Cancel</Button>}
        <Button type="submit" kind="primary">
          {action}
        </Button>
      </footer>
    </form>
  )
}

function Step({ title, text, children }: { title: string; text: string; children: preact.ComponentChildren }) {
  return (
    <Section title={title} note={text}>
      <div class="inside step">{children}</div>
    </Section>
  )
}

/** The secret of an endpoint that does not exist yet, so that the receiver can have it before the first request. */
function NewSecret({ secret }: { secret: string }) {
  const [isShown, setShown] = useState(false)
  return (
    <div class="field">
      <span class="label">Signing secret</span>
      <SecretLine secret={isShown ? secret : undefined} onShow={() => setShown(true)} />
      <span class="hint">If your receiver verifies signatures, give it the secret before the test.</span>
    </div>
  )
}

/** A secret behind a press. */
export function SecretLine({ secret, onShow }: { secret: string | undefined; onShow(): unknown }) {
  return (
    <div class="secret">
      <code>{secret ?? '••••••••••••••••••••••••'}</code>
      {secret === undefined ? <Button onPress={onShow}>Show</Button> : <CopyButton text={secret} label="Copy secret" />}
    </div>
  )
}

interface TrialProps {
  readonly url: string
  readonly secret: string | undefined
  readonly eventTypes: readonly string[] | null
}

/** Sends an example to the URL of the form, and shows the answer. */
function Trial({ url, secret, eventTypes }: TrialProps) {
  const { types = [] } = useEventTypes()
  const names = types.map(({ name }) => name).filter((name) => eventTypes?.includes(name) ?? true)
  const [wanted, setWanted] = useState('')
  const [result, setResult] = useState<EndpointTrialOut | string>()
  const eventType = names.includes(wanted) ? wanted : names[0]

  async function send(): Promise<void> {
    setResult(undefined)
    const body = { url, ...(eventType !== undefined && { eventType }), ...(secret !== undefined && { secret }) }
    await call('POST /app/{app_id}/endpoint/test', { path: { app_id: ownApp() }, body }).then(
      setResult,
      (error: unknown) => setResult(toApiError(error).message),
    )
  }

  return (
    <>
      <div class="row">
        {names.length > 0 && (
          <select
            name="trialEvent"
            aria-label="Event type of the example"
            value={eventType}
            onChange={(event) => setWanted(event.currentTarget.value)}
          >
            {names.map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        )}
        <Button icon="send" disabled={url === ''} onPress={send}>
          Send test
        </Button>
      </div>
      <div class="trial" role="status">
        {typeof result === 'string' && <p class="problem">{result}</p>}
        {typeof result === 'object' && <TrialResult result={result} />}
      </div>
    </>
  )
}

function TrialResult({ result }: { result: EndpointTrialOut }) {
  const { delivered, code, responseStatusCode, responseDurationMs, response, error } = result
  const answer = responseStatusCode === 0 ? (error ?? words(code)) : `It answered ${responseStatusCode}`
  return (
    <>
      <p>
        <Pill state={delivered ? 'success' : 'fail'} label={delivered ? 'It works.' : 'It did not work.'} />{' '}
        <span class="soft">
          {answer}
          {responseStatusCode !== 0 && ` after ${span(responseDurationMs)}.`}
        </span>
      </p>
      {response !== '' && <Code text={indent(response)} label="answer" />}
    </>
  )
}
