import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { json } from 'node:stream/consumers'
import { describe, type TestContext, test } from 'node:test'
import express from 'express'
import { fastify } from 'fastify'
import { Hono } from 'hono'
import { expressHandler } from '../../receiver/src/express.ts'
import { fastifyReceiver } from '../../receiver/src/fastify.ts'
import { honoHandler } from '../../receiver/src/hono.ts'
import { memoryStore, openReceiver, type Receiver } from '../../receiver/src/index.ts'
import { nextApi, nextRoute } from '../../receiver/src/next.ts'
import { nodeHandler } from '../../receiver/src/node.ts'
import { nowMs, secret, signed } from './signed.ts'

const maxBodyBytes = 100_000

interface Served {
  readonly url: string
  readonly bodies: string[]
  readonly errors: unknown[]
}

/** Opens a server whose `/hook` is a receiver. */
type Serve = (t: TestContext, receiver: Receiver) => Promise<string>

async function listening(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
}

/** A server for handlers of `fetch`, as Workers, Deno and Bun have one. */
function fetching(t: TestContext, handler: (request: Request) => Response | Promise<Response>): Promise<string> {
  return listening(t, async (request, response) => {
    const body = request.method === 'GET' ? null : (request as unknown as ReadableStream)
    const headers = new Headers(request.headers as Record<string, string>)
    const init = { method: request.method, headers, body, duplex: 'half' } as RequestInit
    const answer = await handler(new Request(`http://localhost${request.url}`, init))
    response.writeHead(answer.status, Object.fromEntries(answer.headers))
    response.end(Buffer.from(await answer.arrayBuffer()))
  })
}

const adapters: Readonly<Record<string, Serve>> = {
  'node:http': (t, receiver) => listening(t, nodeHandler(receiver)),
  fetch: (t, receiver) => fetching(t, receiver.receive),
  express: (t, receiver) => {
    const app = express()
    app.post('/hook', expressHandler(receiver))
    app.use(express.json())
    return listening(t, app)
  },
  'express behind express.raw': (t, receiver) => {
    const app = express()
    app.post('/hook', express.raw({ type: '*/*', limit: maxBodyBytes }), expressHandler(receiver))
    return listening(t, app)
  },
  fastify: async (t, receiver) => {
    const app = fastify({ bodyLimit: 10 })
    await app.register(fastifyReceiver(receiver, '/hook'))
    await app.listen({ port: 0, host: '127.0.0.1' })
    t.after(() => app.close())
    return `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/hook`
  },
  hono: (t, receiver) => {
    const app = new Hono()
    app.post('/hook', honoHandler(receiver))
    return fetching(t, (request) => app.fetch(request))
  },
  'next, app router': (t, receiver) => fetching(t, nextRoute(receiver)),
  'next, pages router': (t, receiver) => listening(t, nextApi(receiver)),
}

async function serve(t: TestContext, how: Serve): Promise<Served> {
  const bodies: string[] = []
  const errors: unknown[] = []
  const receiver = openReceiver({
    secret,
    maxBodyBytes,
    now: () => nowMs,
    store: memoryStore(),
    handle: (webhook) => void bodies.push(webhook.text()),
    onError: (error) => errors.push(error),
  })
  return { url: await how(t, receiver), bodies, errors }
}

for (const [name, how] of Object.entries(adapters)) {
  test(`${name}: verifies the bytes that arrive, whatever their type, and handles each message once`, async (t) => {
    const { url, bodies } = await serve(t, how)
    const types = ['application/json', 'text/plain', 'application/x-www-form-urlencoded', 'nonsense', '']
    for (const [i, type] of types.entries()) {
      const text = `{"n":1.0, "i":${i}}`
      const { headers, body } = signed(text, { id: `msg_${i}` })
      const content: Record<string, string> = type === '' ? {} : { 'content-type': type }
      const post = (bytes: Uint8Array) =>
        fetch(url, { method: 'POST', headers: { ...headers, ...content }, body: new Uint8Array(bytes) })
      assert.equal((await post(Buffer.from(`${text} `))).status, 401)
      const answer = await post(body)
      assert.deepEqual([answer.status, await answer.json()], [200, { status: 'handled' }], type)
      assert.equal(answer.headers.get('content-type'), 'application/json')
      assert.deepEqual(await (await post(body)).json(), { status: 'duplicate' })
      assert.equal(bodies.at(-1), text)
    }
    assert.equal(bodies.length, types.length)
  })

  test(`${name}: refuses a body beyond the limit`, async (t) => {
    const { url, bodies } = await serve(t, how)
    for (const announced of [true, false]) {
      const { headers, body } = signed(Buffer.alloc(3 * maxBodyBytes))
      const sent = announced ? new Uint8Array(body) : new Blob([new Uint8Array(body)]).stream()
      const init = { method: 'POST', headers, body: sent, duplex: 'half' } as RequestInit
      // A server may close the connection before the sender has read the answer.
      const status = await fetch(url, init).then(
        (answer) => answer.status,
        () => 413,
      )
      assert.equal(status, 413)
    }
    assert.deepEqual(bodies, [])
    const { headers, body } = signed('x')
    assert.equal((await fetch(url, { method: 'POST', headers, body: new Uint8Array(body) })).status, 200)
  })
}

describe('a parser that ran before the receiver', () => {
  const parsed: Readonly<Record<string, { how: Serve; remedy: RegExp }>> = {
    express: {
      how: (t, receiver) => {
        const app = express()
        app.use(express.json())
        app.post('/hook', expressHandler(receiver))
        return listening(t, app)
      },
      remedy: /Mount the receiver before app\.use\(express\.json\(\)\)/,
    },
    'next, pages router': {
      how: (t, receiver) =>
        listening(t, async (request, response) => {
          const body: unknown = await json(request)
          await nextApi(receiver)(Object.assign(request, { body }), response)
        }),
      remedy: /bodyParser: false/,
    },
    hono: {
      how: (t, receiver) => {
        const app = new Hono()
        app.use(async (context, next) => {
          await context.req.json()
          await next()
        })
        app.post('/hook', honoHandler(receiver))
        return fetching(t, (request) => app.fetch(request))
      },
      remedy: /before any other code reads its body/,
    },
  }
  for (const [name, { how, remedy }] of Object.entries(parsed)) {
    test(`is named as the cause, with the remedy for ${name}`, async (t) => {
      const { url, bodies, errors } = await serve(t, how)
      const { headers, body } = signed('{"n":1.0}')
      const all = { ...headers, 'content-type': 'application/json' }
      const answer = await fetch(url, { method: 'POST', headers: all, body: new Uint8Array(body) })
      assert.equal(answer.status, 500)
      const { code, message } = (await answer.json()) as { code: string; message: string }
      assert.equal(code, 'body_consumed')
      assert.match(message, remedy)
      assert.match(String(errors[0]), remedy)
      assert.deepEqual(bodies, [])
    })
  }
})

for (const name of ['node:http', 'fetch']) {
  test(`${name}: a sender that hangs up in the middle harms no other request and fills no log`, async (t) => {
    const cut = Promise.withResolvers<number>()
    const watched: Serve = (t, receiver) => {
      const answer = async (asking: Promise<Response>) => {
        const response = await asking
        cut.resolve(response.status)
        return response
      }
      return (adapters[name] as Serve)(t, {
        ...receiver,
        answer: (read) => answer(receiver.answer(read)),
        receive: (request) => answer(receiver.receive(request)),
      })
    }
    const { url, errors, bodies } = await serve(t, watched)
    const { hostname, port } = new URL(url)
    const socket = connect(Number(port), hostname)
    await once(socket, 'connect')
    socket.write('POST /hook HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhalf')
    socket.destroy()
    assert.equal(await cut.promise, 400)
    const { headers, body } = signed('x')
    assert.equal((await fetch(url, { method: 'POST', headers, body: new Uint8Array(body) })).status, 200)
    assert.deepEqual([bodies, errors], [['x'], []])
  })
}
