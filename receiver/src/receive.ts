import { ReceiverError } from './errors.ts'
import { handleOnce, isPromise, type OnceOptions, type OnceStore, type Outcome, type Transaction } from './once.ts'
import { bytesOf, openVerifier, type Received, type ReceivedHeaders, type VerifierOptions } from './verify.ts'

/** A genuine webhook. */
export interface Webhook {
  /** The id of the message, the same on every attempt and replay. */
  readonly id: string
  /** When the attempt was signed; undefined for the profiles `stored` and `github`, which sign no time. */
  readonly signedAt: Date | undefined
  readonly headers: ReceivedHeaders
  /** The bytes that arrived. */
  readonly body: Uint8Array
  /** The body as text. */
  text(): string
  /** The body as JSON. */
  json(): unknown
}

export interface ReceiverOptions<Tx = undefined> extends VerifierOptions, OnceOptions {
  /**
   * The work of a webhook. It has been handled when this returns. A thrown error is answered with 500, and a returned
   * Response is passed on; after an error or a Response other than 2xx, the next attempt works again.
   */
  handle(webhook: Webhook, tx: Tx): unknown
  /** Remembers handled messages, so that a repeated one is answered without work. Without it, every request is handled. */
  readonly store?: OnceStore | undefined
  /** Remembers handled messages in the transaction of the work, instead of `store`. `handle` gets the transaction. */
  readonly transaction?: Transaction<Tx> | undefined
  /** The id of a message whose sender puts it elsewhere than into a header, such as into the body. */
  readonly idOf?: ((webhook: Omit<Webhook, 'id'>) => string | undefined) | undefined
  /** Longest body, in bytes; 2 MiB by default. */
  readonly maxBodyBytes?: number | undefined
  /** Hears of errors of `handle`, of the store and of the set-up; `console.error` by default. */
  readonly onError?: ((error: unknown, id: string | undefined) => void) | undefined
}

export interface Receiver {
  /** Answers a request of `fetch`: a handler of Workers, Deno, Bun, Hono and Next. It never rejects. */
  receive(request: Request): Promise<Response>
  /** Answers a request whose bytes an adapter reads. It never rejects. */
  answer(read: () => Promise<Received>): Promise<Response>
  readonly maxBodyBytes: number
}

export const defaultMaxBodyBytes = 2 * 1024 * 1024

/** A receiver of webhooks: verifies a request, handles its message once, and answers so that the sender acts rightly. */
export function openReceiver<Tx = undefined>(options: ReceiverOptions<Tx>): Receiver {
  const { handle, store, transaction, idOf, onError = report, maxBodyBytes = defaultMaxBodyBytes } = options
  if (store !== undefined && transaction !== undefined) throw new RangeError('Set store or transaction, not both.')
  const verifier = openVerifier(options)

  async function webhookOf({ headers, body }: Received): Promise<Webhook> {
    const { id: signedId, signedAt } = await verifier.verify({ headers, body })
    const bytes = bytesOf(body)
    const text = () => new TextDecoder().decode(bytes)
    const rest = { signedAt, headers, body: bytes, text, json: () => JSON.parse(text()) as unknown }
    const id = idOf === undefined ? signedId : idOf(rest)
    if (id !== undefined && id !== '') return { id, ...rest }
    throw new ReceiverError('no_id', 'The webhook has no id.', 'Check `headers` and `idOf` of the receiver.')
  }

  function outcomeOf(webhook: Webhook): Promise<Outcome<unknown>> {
    const work = (tx: Tx) => {
      const value = handle(webhook, tx)
      return isPromise(value) ? value.then(unlessRefused) : unlessRefused(value)
    }
    if (transaction !== undefined) return transaction.run(webhook.id, work)
    const plain = () => work(undefined as Tx)
    if (store !== undefined) return handleOnce(store, webhook.id, plain, options)
    return (async () => ({ outcome: 'handled', value: await plain() }) as const)()
  }

  async function answer(read: () => Promise<Received>): Promise<Response> {
    let id: string | undefined
    try {
      const webhook = await webhookOf(await read())
      id = webhook.id
      const outcome = await outcomeOf(webhook)
      if (outcome.outcome === 'handled' && isResponse(outcome.value)) return outcome.value
      if (outcome.outcome !== 'busy') return json(200, { status: outcome.outcome })
      const retryAfter = String(Math.ceil(outcome.retryAfterMs / 1000))
      return json(409, { status: 'busy' }, { 'retry-after': retryAfter })
    } catch (error) {
      if (error instanceof Refused) return error.response
      if (!(error instanceof ReceiverError)) {
        onError(error, id)
        return json(500, { code: 'failed' })
      }
      if (error.status === 500) onError(error, id)
      return json(error.status, { code: error.code, message: error.message })
    }
  }

  return {
    answer,
    receive: (request) => answer(() => readRequest(request, maxBodyBytes)),
    maxBodyBytes,
  }
}

/** The Response of a handler that did not handle its message. It ends the claim as an error does. */
class Refused extends Error {
  readonly response: Response

  constructor(response: Response) {
    super(`The handler answered ${response.status}.`)
    this.response = response
  }
}

function unlessRefused(value: unknown): unknown {
  if (isResponse(value) && !value.ok) throw new Refused(value)
  return value
}

/** Some frameworks have a Response class of their own beside the global one. */
function isResponse(value: unknown): value is Response {
  const { status, headers } = (value ?? {}) as Partial<Response>
  return typeof status === 'number' && typeof headers?.get === 'function'
}

function json(status: number, content: object, headers: Record<string, string> = {}): Response {
  const all = { 'content-type': 'application/json', ...headers }
  return new Response(JSON.stringify(content), { status, headers: all })
}

function report(error: unknown, id: string | undefined): void {
  console.error(
    id === undefined ? 'A webhook could not be received:' : `The webhook ${id} could not be handled:`,
    error,
  )
}

/** The bytes of a request of `fetch`, up to a limit. */
async function readRequest(request: Request, maxBodyBytes: number): Promise<Received> {
  const { headers } = request
  if (request.bodyUsed) {
    throw bodyConsumed('Give the request to the receiver before any other code reads its body, or give it a clone.')
  }
  if (Number(headers.get('content-length')) > maxBodyBytes) throw bodyTooLarge(maxBodyBytes)
  const chunks: Uint8Array[] = []
  let length = 0
  const reader = request.body?.getReader()
  const read = () => reader?.read().catch((error: unknown) => Promise.reject(bodyIncomplete(error)))
  for (let part = await read(); part?.done === false; part = await read()) {
    length += part.value.length
    if (length > maxBodyBytes) {
      await reader?.cancel()
      throw bodyTooLarge(maxBodyBytes)
    }
    chunks.push(part.value)
  }
  return { headers, body: concatenated(chunks, length) }
}

export function concatenated(chunks: readonly Uint8Array[], length: number): Uint8Array {
  if (chunks.length === 1) return chunks[0] as Uint8Array
  const all = new Uint8Array(length)
  let at = 0
  for (const chunk of chunks) {
    all.set(chunk, at)
    at += chunk.length
  }
  return all
}

export function bodyTooLarge(maxBodyBytes: number): ReceiverError {
  const message = `The body is longer than ${maxBodyBytes} bytes.`
  return new ReceiverError(
    'body_too_large',
    message,
    'Raise `maxBodyBytes` of the receiver if such messages are wanted.',
  )
}

/** Anyone can hang up, so `onError` does not hear of it. */
export function bodyIncomplete(cause?: unknown): ReceiverError {
  const message = 'The sender hung up before the end of the body.'
  return new ReceiverError('body_incomplete', message, 'The sender has to send the request again.', { cause })
}

export function bodyConsumed(remedy: string): ReceiverError {
  return new ReceiverError('body_consumed', 'The body was read before the receiver could verify its bytes.', remedy)
}
