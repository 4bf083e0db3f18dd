import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { toApiError } from '../api/ask.ts'
import type { ApiError } from '../api/call.ts'
import { Button } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'
import { Field } from '../parts/form.tsx'
import { count, exact, perSecond as paceText, span } from '../parts/text.ts'
import { TaskProgress } from './task-progress.tsx'

/** How many deliveries a task is about. */
export interface Size {
  readonly count: number
  /** There may be more. */
  readonly more?: boolean
  /** It is the number that is looked at; fewer may be sent. */
  readonly atMost?: boolean
}

interface SendAgainProps {
  readonly title: string
  /** A sentence about the deliveries, and the fields that choose them. */
  readonly children: ComponentChildren
  /** Undefined while it is counted. */
  readonly size: Size | undefined
  /** Why it could not be counted. */
  readonly problem?: string | undefined
  /** One of them, and several. */
  readonly noun: readonly [one: string, many: string]
  /** The application whose task it becomes; empty for a task of all. */
  readonly app: string
  /**
   * The request at this pace. It is made once, at the first press, so that all presses send the same; the server carries out
   * one request per key.
   */
  request(perSecond: number | null): (once: string) => Promise<{ readonly id: string }>
  onClose(): void
  onStarted?: ((task: string) => void) | undefined
  /** Called when the task has ended. */
  onEnd?: (() => unknown) | undefined
}

type Sending = (once: string) => Promise<{ readonly id: string }>

/**
 * Sends many deliveries again, as one task of the server. It says how many and how long that takes before it begins, and shows
 * the progress afterwards. When the answer to a press is lost, a further press asks for the same task.
 */
export function SendAgain(props: SendAgainProps) {
  const { title, children, size, problem, noun, app, request, onClose, onStarted, onEnd } = props
  const [pace, setPace] = useState<number | null>(null)
  const [task, setTask] = useState<string>()
  const [pressed, setPressed] = useState<{ readonly once: string; readonly send: Sending }>()
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState<ApiError>()

  async function press(event: Event): Promise<void> {
    event.preventDefault()
    const sending = pressed ?? { once: newKey(), send: request(pace) }
    setPressed(sending)
    setBusy(true)
    setError(undefined)
    try {
      const { id } = await sending.send(sending.once)
      setTask(id)
      onStarted?.(id)
    } catch (thrown) {
      const failure = toApiError(thrown)
      setError(failure)
      if (refusedStatuses.has(failure.status)) setPressed(undefined)
    } finally {
      setBusy(false)
    }
  }

  if (task !== undefined) {
    return (
      <Dialog title={title} onClose={onClose}>
        <div class="body">
          <TaskProgress app={app} task={task} onEnd={onEnd} />
        </div>
        <footer>
          <Button onPress={onClose}>Close</Button>
        </footer>
      </Dialog>
    )
  }
  const isUnsure = error !== undefined && pressed !== undefined
  const isEmpty = size?.count === 0
  return (
    <Dialog title={title} onClose={onClose}>
      <form onSubmit={press}>
        <fieldset class="body" disabled={pressed !== undefined}>
          {children}
          <PaceField onPace={setPace} />
          <p role="status">{problem ?? sentenceOf(size, pace, noun)}</p>
          {error !== undefined && (
            <p class="problem" role="alert">
              {error.message}{' '}
              {isUnsure && 'Whether it started is unknown. Try again: one task is started, and nothing is sent twice.'}
            </p>
          )}
        </fieldset>
        <footer>
          <Button onPress={onClose}>Cancel</Button>
          <button
            type="submit"
            class="button primary"
            disabled={isBusy || size === undefined || isEmpty}
            aria-busy={isBusy}
          >
            {isUnsure ? 'Try again' : labelOf(size)}
          </button>
        </footer>
      </form>
    </Dialog>
  )
}

/** The server has carried nothing out for a request that it answered so; for any other, it is unknown. */
const refusedStatuses: ReadonlySet<number> = new Set([400, 401, 403, 404, 413, 415, 422])

/** The pace at which deliveries are sent again; null for as fast as the limits allow. */
function PaceField({ onPace }: { onPace(perSecond: number | null): void }) {
  return (
    <Field
      name="perSecond"
      label="Deliveries per second"
      schema={{
        type: 'integer',
        minimum: 1,
        maximum: 10_000,
        description: 'Empty for as fast as the limits of each endpoint allow.',
      }}
      onInput={(text) => onPace(Number(text) || null)}
    />
  )
}

function labelOf(size: Size | undefined): string {
  if (size === undefined) return 'Counting…'
  if (size.count === 0) return 'Nothing to send'
  return size.atMost ? 'Send again' : `Send ${exact(size.count)}${size.more ? '+' : ''} again`
}

/** `900 dead letters, at most 20/s: about 45 s.` */
function sentenceOf(size: Size | undefined, pace: number | null, [one, many]: SendAgainProps['noun']): string {
  if (size === undefined) return 'Counting…'
  if (size.count === 0) return `No ${one} to send.`
  const what = `${size.atMost ? 'Up to ' : ''}${size.more ? `${exact(size.count)}+ ${many}` : count(size.count, one, many)}`
  if (pace === null) return `${what}, as fast as the limits of each endpoint allow.`
  return `${what}, at most ${paceText(pace)}: ${size.more ? 'at least' : 'about'} ${span((size.count / pace) * 1000)}.`
}

/** A key that no other request has. `randomUUID` is missing outside https and loopback. */
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
