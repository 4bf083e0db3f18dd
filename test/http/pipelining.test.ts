import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { describe, type TestContext, test } from 'node:test'
import { type Chance, chanceOf } from '../attack/chance.ts'
import { eventually } from '../e2e/eventually.ts'
import { type Api, adminKey, openApi } from './api.ts'

interface Listening extends Api {
  readonly port: number
  /** The sockets that the server accepted. */
  readonly sockets: Socket[]
}

async function listening(t: TestContext, overrides: Parameters<typeof openApi>[0] = {}): Promise<Listening> {
  const api = await openApi(overrides)
  const sockets: Socket[] = []
  // Never answered: for what waits behind an answer.
  api.app.addHook('onRequest', ({ url }, _reply, done) => {
    if (!url.endsWith('?parked')) done()
  })
  api.app.server.on('connection', (socket: Socket) => sockets.push(socket))
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    await api.app.close()
    await api.store.close()
  })
  await api.ask('POST', '/app', { name: 'A', uid: 'a' })
  await api.app.listen({ host: '127.0.0.1', port: 0 })
  return { ...api, port: (api.app.server.address() as AddressInfo).port, sockets }
}

const ping = 'GET /api/v1/health/ping HTTP/1.1\r\nhost: a\r\n\r\n'
const authorization = `host: a\r\nauthorization: Bearer ${adminKey}\r\n`

function publishing(body: string, framing = `content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`): string {
  return `POST /api/v1/app/a/msg HTTP/1.1\r\n${authorization}content-type: application/json\r\n${framing}`
}

/** A client that writes bytes as it likes, and reads answers one by one. */
class Client {
  readonly socket: Socket
  #said = ''
  #isClosed = false

  private constructor(socket: Socket) {
    this.socket = socket
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      this.#said += bytes.toString('latin1')
    })
    socket.on('close', () => {
      this.#isClosed = true
    })
  }

  static async open(t: TestContext, port: number): Promise<Client> {
    const socket = connect({ port, host: '127.0.0.1', noDelay: true })
    const client = new Client(socket)
    t.after(() => socket.destroy())
    await once(socket, 'connect')
    return client
  }

  /** The next answers; fewer when the server closes the connection. `requests` are those that they answer. */
  async answers(requests: readonly string[]): Promise<string[]> {
    const found: string[] = []
    await eventually(`${requests.length} answers`, () => {
      while (found.length < requests.length) {
        const answer = this.#next((requests[found.length] as string).startsWith('HEAD'))
        if (answer === undefined) return this.#isClosed
        found.push(answer)
      }
      return true
    })
    return found
  }

  #next(isHead: boolean): string | undefined {
    const head = this.#said.indexOf('\r\n\r\n') + 4
    if (head < 4) return undefined
    if (this.#said.startsWith('HTTP/1.1 100')) {
      this.#said = this.#said.slice(head)
      return this.#next(isHead)
    }
    const length = isHead ? 0 : Number(/\r\ncontent-length: (\d+)/i.exec(this.#said.slice(0, head))?.[1] ?? 0)
    if (this.#said.length < head + length) return undefined
    const answer = this.#said.slice(0, head + length)
    this.#said = this.#said.slice(head + length)
    return answer
  }
}

/** An answer without what differs from time to time. */
function timeless(answer: string): string {
  return answer
    .replace(/\r\n(date|keep-alive): [^\r]*/gi, '')
    .replace(/(msg|ep|app)_\w{20,}/g, '$1_')
    .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'then')
    .replace(/\r\ncontent-length: \d+/i, '')
}

/** One request of any kind. `n` shows in its answer. */
function requestOf(chance: Chance, n: number): string {
  const payload = `{"eventType":"x.y","payload":{"n":${n},"text":"${'z'.repeat(chance.of([0, 10, 3000, 70_000]))}"}}`
  // An empty line, as between a head and a body, may stand between the tokens of JSON.
  const airy = `{"eventType":"x.y",\r\n\r\n"payload":{"n":${n}}\r\n\r\n}\r\n\r\n`
  return chance.of([
    () => ping,
    () => ping.replace('GET', 'HEAD'),
    () => `\r\n${ping}`,
    () => `GET /api/v1/app/none-${n} HTTP/1.1\r\n${authorization}\r\n`,
    () => `GET /api/v1/nowhere/${n} HTTP/1.1\r\nhost: a\r\n\r\n`,
    () => `GET /api/v1/nowhere/${n} HTTP/1.1\r\n\r\n`,
    () => `GET /docs?${n} HTTP/1.1\r\nhost: a\r\n\r\n`,
    () => `GET /api/v1/nowhere/${n} HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\n\r\n\r\n`,
    () => publishing(payload),
    () => publishing(airy),
    () => publishing(payload, `expect: 100-continue\r\ncontent-length: ${payload.length}\r\n\r\n${payload}`),
    () => publishing(payload, `transfer-encoding: chunked\r\n\r\n${chunks(chance, payload)}`),
    () => publishing(airy, `transfer-encoding: chunked\r\n\r\n${chunks(chance, airy)}`),
    () => publishing(`{"eventType":"x.y","payloads":${n}}`),
  ])()
}

function chunks(chance: Chance, body: string): string {
  let framed = ''
  for (let at = 0; at < body.length; ) {
    const size = 1 + chance.below(Math.min(body.length - at, chance.of([3, 40, 70_000])))
    framed += `${size.toString(16)}\r\n${body.slice(at, at + size)}\r\n`
    at += size
  }
  return `${framed}0\r\n${chance.once(2) ? 'x-trailer: 1\r\n' : ''}\r\n`
}

/** Writes bytes cut at random places, each piece as a packet of its own where the machine allows. */
async function writeInPieces(socket: Socket, chance: Chance, bytes: Buffer): Promise<void> {
  const longest = chance.of([1, 4, 60, 5000, 100_000, 10_000_000])
  const mostPieces = 400
  for (let at = 0, pieces = 0; at < bytes.length && !socket.destroyed; pieces++) {
    const size = pieces >= mostPieces ? bytes.length : 1 + chance.below(longest)
    socket.write(bytes.subarray(at, at + size))
    at += size
    if (!chance.once(3)) await new Promise((resolve) => setImmediate(resolve))
  }
}

describe('requests that are sent without waiting', () => {
  const seeds = Array.from({ length: 6 }, (_, i) => Number(process.env.PIPELINE_SEED ?? 1) + i)
  for (const seed of seeds) {
    test(`get the answers, in order, that they get one at a time (seed ${seed})`, async (t) => {
      const api = await listening(t, { bodyLimitBytes: 256 * 1024 })
      const chance = chanceOf(seed)
      const requests = Array.from({ length: 60 }, (_, i) => requestOf(chance, i))
      const alone = await Client.open(t, api.port)
      const expected: string[] = []
      for (const request of requests) {
        alone.socket.write(request)
        expected.push(...(await alone.answers([request])))
      }
      assert.equal(expected.length, requests.length, `closed after ${expected.at(-1)}`)
      for (let round = 0; round < 3; round++) {
        const client = await Client.open(t, api.port)
        const written = writeInPieces(client.socket, chance, Buffer.from(requests.join('')))
        const answers = await client.answers(requests)
        await written
        assert.deepEqual(answers.map(timeless), expected.map(timeless), `round ${round}`)
      }
      const publishes = expected.filter((answer) => answer.startsWith('HTTP/1.1 202')).length
      assert.equal((await api.store.counts()).messages, 4 * publishes)
      assert.deepEqual(api.bugs, [])
    })
  }

  test('begin 16 at a time on one connection, and each of 3,000 is answered', async (t) => {
    const api = await listening(t)
    let open = 0
    let most = 0
    api.app.server.on('request', (_request, response) => {
      most = Math.max(most, ++open)
      response.once('close', () => open--)
    })
    const requests = Array.from({ length: 3000 }, (_, i) =>
      i % 3 === 0 ? ping : publishing(`{"eventType":"x.y","payload":{"n":${i}}}`),
    )
    const client = await Client.open(t, api.port)
    client.socket.write(requests.join(''))
    const answers = await client.answers(requests)
    assert.equal(answers.length, 3000)
    assert.equal((await api.store.counts()).messages, 2000)
    assert.ok(most <= 16, `${most} were open at once`)
    assert.ok(most > 1, 'requests of one connection are carried out side by side')
  })

  test('begin in turns of the event loop that stay short, over all connections', async (t) => {
    const api = await listening(t)
    let begun = 0
    let most = 0
    let isCounting = false
    api.app.server.on('request', () => {
      most = Math.max(most, ++begun)
      if (isCounting) return
      isCounting = true
      setImmediate(() =>
        setImmediate(() => {
          begun = 0
          isCounting = false
        }),
      )
    })
    const clients = await Promise.all(Array.from({ length: 20 }, () => Client.open(t, api.port)))
    // The server accepts one connection in a turn; the packets shall come in the same one.
    for (const client of clients) {
      client.socket.write(ping)
      await client.answers([ping])
    }
    most = 0
    const requests = Array.from({ length: 500 }, () => ping)
    for (const client of clients) client.socket.write(requests.join(''))
    for (const client of clients) assert.equal((await client.answers(requests)).length, 500)
    // 5 ms of a fast machine, with room; before, these were the 10,000 of all packets.
    assert.ok(most <= 1500, `${most} began in two turns`)
  })

  test('wait in the kernel behind 16 that are not answered: the server holds one packet', async (t) => {
    const api = await listening(t)
    const client = await Client.open(t, api.port)
    client.socket.write(`GET /api/v1/health/ping?parked HTTP/1.1\r\nhost: a\r\n\r\n${ping.repeat(100)}`)
    await eventually('held requests', () => api.sockets[0] !== undefined && api.sockets[0].readableLength > 0)
    const socket = api.sockets[0] as Socket
    const read = socket.bytesRead
    for (let i = 0; i < 50; i++) {
      client.socket.write('G')
      await new Promise((resolve) => setImmediate(resolve))
    }
    client.socket.write(Buffer.alloc(8 * 2 ** 20, ping))
    // A request of another client shows that the server has been through its sockets since.
    const other = await Client.open(t, api.port)
    for (let i = 0; i < 3; i++) {
      other.socket.write(ping)
      await other.answers([ping])
    }
    assert.ok(socket.bytesRead - read <= 64 * 1024, `${socket.bytesRead - read} bytes were read`)
    assert.ok(socket.readableLength <= 128 * 1024, `${socket.readableLength} bytes are held`)
  })

  test('that come before a hang-up leave nothing open', async (t) => {
    const api = await listening(t)
    for (const end of ['end', 'resetAndDestroy'] as const) {
      const client = await Client.open(t, api.port)
      client.socket.write(ping.repeat(3000))
      await client.answers([ping])
      client.socket[end]()
    }
    await eventually('the connections are closed', () => api.sockets.every(({ destroyed }) => destroyed))
    assert.deepEqual(api.bugs, [])
  })
})

describe('what follows a request in its packet and is refused', () => {
  const body = '{"eventType":"x.y","payload":{}}'
  const refused = {
    'bytes that are no HTTP': ['hello\r\n\r\n', 400],
    'a request that never ends': ['GET / HTTP/1.1\r\nhost: a\r\n', 408],
    'a request with two lengths': [publishing('', 'content-length: 1\r\ncontent-length: 2\r\n\r\n'), 400],
    'a body that is no chunk': [publishing('', 'transfer-encoding: chunked\r\n\r\nzz\r\n'), 400],
    'headers that are too large': [`GET / HTTP/1.1\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`, 431],
  } as const
  for (const [name, [bytes, status]] of Object.entries(refused)) {
    test(`${name}: the publish is answered with 202, then the rest with ${status}`, async (t) => {
      const api = await listening(t, { requestTimeoutMs: 300 })
      const client = await Client.open(t, api.port)
      client.socket.write(publishing(body) + publishing(body) + bytes)
      const closed = once(client.socket, 'close')
      const answers = await client.answers(['POST', 'POST', 'other'])
      assert.deepEqual(
        answers.map((answer) => answer.slice(9, 12)),
        ['202', '202', String(status)],
      )
      client.socket.end()
      await closed
      assert.equal((await api.store.counts()).messages, 2)
      assert.deepEqual(api.bugs, [])
    })
  }
})

test('a second host or authorization header is refused, and none of both is taken', async (t) => {
  const api = await listening(t)
  const body = '{"eventType":"x.y","payload":{}}'
  for (const header of ['host: b', 'Host: a', 'authorization: Bearer other', `Authorization: Bearer ${adminKey}`]) {
    const client = await Client.open(t, api.port)
    client.socket.write(publishing(body, `${header}\r\ncontent-length: ${body.length}\r\n\r\n${body}`))
    const [answer = ''] = await client.answers(['POST'])
    assert.match(answer, /^HTTP\/1\.1 400 /, header)
    assert.match(answer, new RegExp(`"The header ${header.split(':')[0]?.toLowerCase()} came twice`), header)
  }
  assert.equal((await api.store.counts()).messages, 0)
})
