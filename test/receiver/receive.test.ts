import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { memoryStore, openReceiver, type ReceiverOptions, type Webhook } from '../../receiver/src/index.ts'
import { nowMs, secret, signed } from './signed.ts'

interface Answer {
  readonly status: number
  readonly json: Record<string, unknown>
  readonly retryAfter: string | null
}

function open(options: Partial<ReceiverOptions> = {}) {
  const errors: unknown[] = []
  const handled: Webhook[] = []
  const receiver = openReceiver({
    secret,
    now: () => nowMs,
    handle: (webhook) => void handled.push(webhook),
    onError: (error) => errors.push(error),
    ...options,
  })
  async function ask(request: Request): Promise<Answer> {
    const response = await receiver.receive(request)
    const text = await response.text()
    return {
      status: response.status,
      json: text === '' ? {} : JSON.parse(text),
      retryAfter: response.headers.get('retry-after'),
    }
  }
  return { ask, errors, handled }
}

const requestOf = ({ headers, body }: { headers: Record<string, string>; body: Uint8Array<ArrayBufferLike> }) =>
  new Request('http://receiver.example/', { method: 'POST', headers, body: new Uint8Array(body) })

describe('the receiver answers', () => {
  test('200 to a genuine webhook, whose bytes the handler gets', async () => {
    const { ask, handled } = open()
    const { status, json } = await ask(requestOf(signed('{"n":1.0}')))
    assert.deepEqual([status, json], [200, { status: 'handled' }])
    const [webhook] = handled
    assert.deepEqual([webhook?.id, webhook?.signedAt?.getTime(), webhook?.text()], ['msg_1', nowMs, '{"n":1.0}'])
    assert.deepEqual(webhook?.json(), { n: 1 })
  })

  test('500 with the remedy while it has no secret, as where a build has no environment', async () => {
    for (const none of [undefined, '', [undefined], () => undefined]) {
      const { ask, errors, handled } = open({ secret: none })
      const { status, json } = await ask(requestOf(signed('x')))
      assert.deepEqual([status, json.code, handled.length], [500, 'no_secret', 0])
      assert.match(String(json.message), /Set `secret` to the secret of the endpoint/)
      assert.equal(errors.length, 1)
    }
  })

  test('by the secret of a function, which is called when the first request comes and until it has one', async () => {
    const given: (string | undefined)[] = []
    const { ask } = open({
      secret: async () => {
        given.push(given.length === 0 ? undefined : secret)
        return given.at(-1)
      },
    })
    assert.equal(given.length, 0)
    const statuses: number[] = []
    for (const id of ['msg_1', 'msg_2', 'msg_3']) statuses.push((await ask(requestOf(signed('x', { id })))).status)
    assert.deepEqual([statuses, given.length], [[500, 200, 200], 2])
    const wrong = open({ secret: () => 'no secret' })
    assert.deepEqual((await wrong.ask(requestOf(signed('x')))).json.code, 'invalid_secret')
  })

  test('200 to a duplicate without work, and the Response of a handler as it is', async () => {
    const store = memoryStore()
    const { ask, handled } = open({ store })
    await ask(requestOf(signed('x')))
    assert.deepEqual((await ask(requestOf(signed('x')))).json, { status: 'duplicate' })
    assert.equal(handled.length, 1)
    const { ask: other } = open({ store, handle: () => new Response('{"kept":true}', { status: 202 }) })
    assert.deepEqual(await other(requestOf(signed('x', { id: 'msg_2' }))), {
      status: 202,
      json: { kept: true },
      retryAfter: null,
    })
  })

  test('401 with a code to a request that is not genuine, and does not work', async () => {
    const { ask, handled, errors } = open({ store: memoryStore() })
    const { headers } = signed('x')
    const { status, json } = await ask(requestOf({ headers, body: Buffer.from('y') }))
    assert.deepEqual([status, json.code], [401, 'wrong_signature'])
    assert.match(String(json.message), /^The webhook is not genuine: the signature is wrong\. Compare the secret/)
    assert.equal((await ask(new Request('http://receiver.example/'))).status, 401)
    assert.deepEqual([handled.length, errors.length], [0, 0])
  })

  test('500 to a failure of the handler, and works at the next attempt', async () => {
    let fail = true
    let works = 0
    const handle = async () => {
      works++
      if (fail) throw new Error('the password is sesame')
    }
    const { ask, errors } = open({ store: memoryStore(), handle })
    const { status, json } = await ask(requestOf(signed('x')))
    assert.deepEqual([status, json], [500, { code: 'failed' }], 'the sender learns nothing of the error')
    assert.match(String(errors[0]), /sesame/)
    fail = false
    assert.equal((await ask(requestOf(signed('x')))).status, 200)
    assert.equal(works, 2)
  })

  test('the refusal of a handler, after which the next attempt works again', async () => {
    const answers = [new Response(null, { status: 503, headers: { 'retry-after': '7' } }), undefined]
    const { ask, errors } = open({ store: memoryStore(), handle: () => answers.shift() })
    const { status, retryAfter } = await ask(requestOf(signed('x')))
    assert.deepEqual([status, retryAfter], [503, '7'])
    assert.deepEqual((await ask(requestOf(signed('x')))).json, { status: 'handled' })
    assert.deepEqual((await ask(requestOf(signed('x')))).json, { status: 'duplicate' })
    assert.deepEqual(errors, [])
  })

  test('409 with Retry-After while another request of the message is handled', async () => {
    const gate = Promise.withResolvers<void>()
    const { ask } = open({ store: memoryStore({ now: () => nowMs }), handle: () => gate.promise, leaseSeconds: 20 })
    const first = ask(requestOf(signed('x')))
    // The first claims after the same number of turns as the second, before it.
    const second = await ask(requestOf(signed('x')))
    assert.deepEqual(second, { status: 409, json: { status: 'busy' }, retryAfter: '20' })
    gate.resolve()
    assert.equal((await first).status, 200)
  })

  test('413 to a body beyond the limit, announced or not, without reading all of it', async () => {
    const { ask, handled } = open({ maxBodyBytes: 1000 })
    assert.equal((await ask(requestOf(signed('x'.repeat(1001))))).status, 413)
    let pulled = 0
    const endless = new ReadableStream({
      pull(controller) {
        pulled++
        controller.enqueue(new Uint8Array(100))
      },
    })
    const init = { method: 'POST', body: endless, duplex: 'half' } as RequestInit
    assert.equal((await ask(new Request('http://receiver.example/', init))).status, 413)
    assert.ok(pulled < 20, `${pulled} chunks were read`)
    assert.equal((await ask(requestOf(signed('x'.repeat(1000))))).status, 200)
    assert.equal(handled.length, 1)
  })

  test('500 with the remedy when other code has read the body', async () => {
    const { ask, errors } = open()
    const request = requestOf(signed('x'))
    await request.text()
    const { status, json } = await ask(request)
    assert.deepEqual([status, json.code], [500, 'body_consumed'])
    assert.match(String(errors[0]), /before any other code reads its body/)
  })

  test('400 without an id, unless the receiver says where it is', async () => {
    const { headers, body } = signed('{"id":"evt_1"}', { profile: 'stripe' })
    const anonymous = { headers: { 'stripe-signature': headers['stripe-signature'] ?? '' }, body }
    assert.deepEqual((await open({ profile: 'stripe' }).ask(requestOf(anonymous))).json.code, 'no_id')
    const { ask, handled } = open({ profile: 'stripe', idOf: (webhook) => (webhook.json() as { id: string }).id })
    assert.equal((await ask(requestOf(anonymous))).status, 200)
    assert.equal(handled[0]?.id, 'evt_1')
  })

  test('500 when the store fails, whose error it reports', async () => {
    const broken = { ...memoryStore(), claim: () => Promise.reject(new Error('no store')) }
    const { ask, errors, handled } = open({ store: broken })
    assert.deepEqual((await ask(requestOf(signed('x')))).json, { code: 'failed' })
    assert.deepEqual([String(errors[0]), handled.length], ['Error: no store', 0])
  })
})

test('a receiver has a store or a transaction, not both', () => {
  const transaction = { run: () => Promise.resolve({ outcome: 'duplicate' as const }) }
  assert.throws(() => open({ store: memoryStore(), transaction }), RangeError)
})
