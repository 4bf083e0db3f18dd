import { signal } from '@preact/signals'
import { useId, useRef, useState } from 'preact/hooks'
import { apiRoot } from '../../../src/domain/api.ts'
import { Button } from '../parts/button.tsx'
import { Code, indent } from '../parts/code.tsx'
import { Status } from '../parts/pill.tsx'
import type { Operation, Values } from './document.ts'
import { targetOf } from './snippets.ts'

/** The session of the dashboard in this browser, and its token against forged requests. */
const caller = signal<{ readonly name: string | null; readonly forgeryToken: string } | undefined>(undefined)

/** A pasted key. It is kept here alone: no storage, no cookie and no address has it. */
const pastedKey = signal('')

export async function loadCaller(): Promise<void> {
  const response = await fetch(`${apiRoot}/session`).catch(() => undefined)
  if (response?.ok !== true) return
  const { session } = (await response.json()) as { session: { name: string | null; csrfToken: string } | null }
  caller.value = session === null ? undefined : { name: session.name, forgeryToken: session.csrfToken }
}

/** Answers are shown up to this length, and streams are followed for this long. */
const shownCharacters = 100_000
const followMs = 10_000

interface Result {
  readonly status: number
  readonly note: string
  readonly text: string
}

interface TryProps {
  readonly operation: Operation
  readonly values: Values
  onChange(values: Values): void
}

/** Sends the operation to this server. The examples beside it follow the fields. */
export function TryForm({ operation, values, onChange }: TryProps) {
  const [result, setResult] = useState<Result>()
  const running = useRef<AbortController>(undefined)
  const { parameters, requestBody, security, method } = operation
  const needsKey = security.length > 0
  const mayChange = method !== 'GET'
  const fields = parameters.filter((each) => each.in !== 'header')
  const canSend = !needsKey || caller.value !== undefined || pastedKey.value !== ''

  async function sendIt(): Promise<void> {
    running.current?.abort()
    const abort = new AbortController()
    running.current = abort
    setResult(undefined)
    const started = performance.now()
    const show = (status: number, text: string, more = '') => {
      const ms = Math.round(performance.now() - started)
      if (running.current === abort) setResult({ status, note: `${ms} ms${more}`, text })
    }
    try {
      const response = await fetch(targetOf(operation, values), {
        ...requestInit(operation, values),
        signal: abort.signal,
      })
      const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true
      if (isStream) await follow(response, abort, (text) => show(response.status, text, ', as it comes for 10 s'))
      else {
        const text = await response.text()
        const isLong = text.length > shownCharacters
        show(response.status, text.slice(0, shownCharacters), isLong ? `, the first ${shownCharacters} characters` : '')
      }
    } catch {
      if (!abort.signal.aborted) show(0, '', ': the server cannot be reached')
    }
  }

  return (
    <section class="try" aria-label="Try it">
      <h2>Try it</h2>
      <form
        class="card"
        onSubmit={(event) => {
          event.preventDefault()
          if (canSend) void sendIt()
        }}
      >
        {needsKey && <Credential />}
        {fields.map(({ name, in: place, required, description }) => {
          const part = place === 'path' ? 'path' : 'query'
          return (
            <label class="field" key={`${place} ${name}`}>
              <span class="label">
                <code>{name}</code> {!required && <span class="optional">optional</span>}
              </span>
              <input
                name={name}
                required={required}
                title={description}
                // The browser would resolve these two, and send another request.
                {...(part === 'path' && { pattern: '(?!\\.{1,2}$).+' })}
                autocomplete="off"
                spellcheck={false}
                value={values[part][name] ?? ''}
                onInput={(event) =>
                  onChange({ ...values, [part]: { ...values[part], [name]: event.currentTarget.value } })
                }
              />
            </label>
          )
        })}
        {requestBody !== undefined && (
          <label class="field">
            <span class="label">
              Body <span class="optional">{values.contentType}</span>
            </span>
            <textarea
              name="body"
              class="code"
              rows={Math.min(16, (values.body ?? '').split('\n').length + 1)}
              spellcheck={false}
              value={values.body ?? ''}
              onInput={(event) => onChange({ ...values, body: event.currentTarget.value })}
            />
          </label>
        )}
        <div class="row">
          <Button type="submit" kind={method === 'DELETE' ? 'danger' : 'primary'} icon="send" disabled={!canSend}>
            Send request
          </Button>
          {mayChange && <span class="hint">This server carries it out.</span>}
        </div>
      </form>
      <div role="status">
        {result !== undefined && (
          <>
            <p class="outcome">
              <Status code={result.status} /> <span class="faint">{result.note}</span>
            </p>
            {result.text !== '' && <Code text={indent(result.text)} label="Answer of this server" />}
          </>
        )}
      </div>
    </section>
  )
}

/** The session of the dashboard, or a field for a key. */
function Credential() {
  const hint = useId()
  const { name } = caller.value ?? {}
  if (caller.value !== undefined && pastedKey.value === '') {
    return (
      <p class="hint">
        Sent with your session of the dashboard{name === null || name === undefined ? '' : ` (${name})`}.
      </p>
    )
  }
  return (
    <label class="field">
      <span class="label">API key</span>
      <input
        name="key"
        type="password"
        autocomplete="off"
        placeholder="sk_…"
        aria-describedby={hint}
        value={pastedKey.value}
        onInput={(event) => {
          pastedKey.value = event.currentTarget.value.trim()
        }}
      />
      <span class="hint" id={hint}>
        It stays in memory until you leave this page. Or <a href="/">sign in to the dashboard</a>.
      </span>
    </label>
  )
}

function requestInit({ method, security }: Operation, { body, contentType }: Values): RequestInit {
  const headers: Record<string, string> = {}
  const hasBody = body !== undefined && body !== ''
  if (hasBody) headers['content-type'] = contentType
  const key = security.length > 0 ? pastedKey.value : ''
  if (key !== '') headers.authorization = `Bearer ${key}`
  else if (method !== 'GET' && caller.value !== undefined) headers['x-sluice-token'] = caller.value.forgeryToken
  return { method, headers, ...(hasBody && { body }), credentials: key === '' ? 'same-origin' : 'omit' }
}

/** Shows a stream while it comes, for a while. */
async function follow(response: Response, abort: AbortController, show: (text: string) => void): Promise<void> {
  const timer = setTimeout(() => abort.abort(), followMs)
  const decoder = new TextDecoder()
  let text = ''
  const reader = response.body?.getReader()
  try {
    while (reader !== undefined) {
      const { done, value } = await reader.read()
      if (done) break
      text = (text + decoder.decode(value, { stream: true })).slice(-shownCharacters)
      show(text)
    }
  } catch (error) {
    if (!abort.signal.aborted) throw error
  } finally {
    clearTimeout(timer)
  }
}
