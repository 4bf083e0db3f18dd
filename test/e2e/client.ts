import assert from 'node:assert/strict'
import { Agent, request } from 'undici'
import { deadlineMs } from './eventually.ts'
import { apiKey } from './program.ts'

/** The producer's knowledge after a publish: stored, not stored, or unknown. */
export type Outcome =
  | { readonly state: 'accepted'; readonly id: string }
  | { readonly state: 'refused'; readonly status: number }
  | { readonly state: 'unknown' }

export interface EndpointView {
  readonly id: string
  readonly disabled: boolean
  readonly disabledReason: string | null
}

export interface AttemptView {
  readonly endpointId: string
  readonly attempt: number
  readonly code: string
  readonly responseStatusCode: number
}

export interface DestinationView {
  readonly id: string
  readonly statusText: 'success' | 'pending' | 'fail' | 'sending'
  readonly nextAttempt: string | null
}

interface Reply {
  readonly status: number
  readonly body: Buffer
}

// A connection per client call would be slow, and one kept after its server was killed would be an error of our own
// making; so connections are kept, and each server has its own client.
const timeouts = { headersTimeout: deadlineMs, bodyTimeout: deadlineMs }

/** The public API of one server, as a producer uses it. */
export class Client {
  readonly #base: string
  readonly #agent = new Agent({ ...timeouts, connections: 32, pipelining: 1 })

  constructor(base: string) {
    this.#base = base
  }

  createApplication(name: string, fields: Readonly<Record<string, unknown>> = {}): Promise<{ id: string }> {
    return this.#call('POST', '/app', { name, uid: name, ...fields })
  }

  createEndpoint(app: string, fields: Readonly<Record<string, unknown>>): Promise<EndpointView> {
    return this.#call('POST', `/app/${app}/endpoint`, fields)
  }

  changeEndpoint(app: string, endpoint: string, fields: Readonly<Record<string, unknown>>): Promise<EndpointView> {
    return this.#call('PATCH', `/app/${app}/endpoint/${endpoint}`, fields)
  }

  pauseEndpoint(app: string, endpoint: string): Promise<EndpointView> {
    return this.#call('POST', `/app/${app}/endpoint/${endpoint}/pause`)
  }

  resumeEndpoint(app: string, endpoint: string): Promise<EndpointView> {
    return this.#call('POST', `/app/${app}/endpoint/${endpoint}/resume`)
  }

  async deleteEndpoint(app: string, endpoint: string): Promise<void> {
    const reply = await this.#send('DELETE', `/app/${app}/endpoint/${endpoint}`, undefined)
    assert.equal(reply.status, 204, reply.body.toString())
  }

  endpoint(app: string, endpoint: string): Promise<EndpointView> {
    return this.#call('GET', `/app/${app}/endpoint/${endpoint}`)
  }

  async secret(app: string, endpoint: string): Promise<string> {
    const { key } = await this.#call<{ key: string }>('GET', `/app/${app}/endpoint/${endpoint}/secret`)
    return key
  }

  async attempts(app: string, message: string): Promise<AttemptView[]> {
    const page = await this.#call<{ data: AttemptView[] }>('GET', `/app/${app}/attempt/msg/${message}?limit=250`)
    return page.data
  }

  async destinations(app: string, message: string): Promise<DestinationView[]> {
    const page = await this.#call<{ data: DestinationView[] }>('GET', `/app/${app}/msg/${message}/endpoint?limit=250`)
    return page.data
  }

  /** Publishes a payload as these very bytes. Never rejects. */
  async publish(app: string, eventType: string, payload: Buffer, orderingKey: string | null = null): Promise<Outcome> {
    const head = Buffer.from(`{"eventType":"${eventType}","orderingKey":${JSON.stringify(orderingKey)},"payload":`)
    try {
      const body = Buffer.concat([head, payload, Buffer.from('}')])
      const reply = await this.#send('POST', `/app/${app}/msg?with_content=false`, body)
      if (reply.status === 202) return { state: 'accepted', id: JSON.parse(reply.body.toString()).id }
      return { state: 'refused', status: reply.status }
    } catch (error) {
      // No server listened, so no server can have stored it.
      if ((error as NodeJS.ErrnoException).code === 'ECONNREFUSED') return { state: 'refused', status: 0 }
      return { state: 'unknown' }
    }
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  async #call<T>(method: string, path: string, input?: unknown): Promise<T> {
    const reply = await this.#send(method, path, input === undefined ? undefined : Buffer.from(JSON.stringify(input)))
    assert.ok(reply.status < 300, `${method} ${path} was answered ${reply.status}: ${reply.body}`)
    return JSON.parse(reply.body.toString()) as T
  }

  async #send(method: string, path: string, body: Buffer | undefined): Promise<Reply> {
    const headers: Record<string, string> = { authorization: `Bearer ${apiKey}` }
    if (body) headers['content-type'] = 'application/json'
    const url = `${this.#base}${path}`
    const reply = await request(url, { method, headers, body: body ?? null, dispatcher: this.#agent })
    return { status: reply.statusCode, body: Buffer.from(await reply.body.arrayBuffer()) }
  }
}
