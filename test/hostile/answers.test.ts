import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import { gzipSync } from 'node:zlib'
import type { OutcomeCode } from '../../src/domain/outcome.ts'
import { assertAtDeadline, exampleMessage, send, targetAt, testSender } from '../sender/sending.ts'
import { answer, type Behaviour, flood, rawReceiver } from './raw-receiver.ts'

/**
 * Every way of answering badly, played by a raw socket, with the name its outcome must have. node:test fails a file in
 * which a rejection or an exception goes unhandled, so each row also proves that nothing escaped.
 */
interface Row {
  readonly does: string
  readonly behave: Behaviour
  readonly code: OutcomeCode
  readonly status?: number
  readonly error?: RegExp
  /** The attempt ends at its deadline. Others end before, and a busy machine has time for them. */
  readonly endsAtDeadline?: true
}

/** Writes a text byte by byte for as long as the socket lives. */
function drip(socket: Socket, text: string, everyMs = 5): void {
  let at = 0
  const timer = setInterval(() => socket.write(text[at++ % text.length] as string), everyMs)
  socket.on('close', () => clearInterval(timer))
}

const says = (text: string): Behaviour => {
  return (socket) => void socket.write(text, 'latin1')
}
const saysAndCloses = (text: string): Behaviour => {
  return (socket) => void socket.end(text, 'latin1')
}

const rows: readonly Row[] = [
  { does: 'answers 200', behave: says(answer('200 OK', 'ok')), code: 'delivered', status: 200 },
  { does: 'answers 204', behave: says('HTTP/1.1 204 No Content\r\n\r\n'), code: 'delivered', status: 204 },
  { does: 'answers 299', behave: says(answer('299 Odd')), code: 'delivered', status: 299 },
  { does: 'answers 200 in HTTP/1.0', behave: saysAndCloses('HTTP/1.0 200 OK\r\n\r\nok'), code: 'delivered' },
  { does: 'answers 304', behave: says('HTTP/1.1 304 Not Modified\r\n\r\n'), code: 'redirected', status: 304 },
  { does: 'answers 400', behave: says(answer('400 Bad Request')), code: 'refused', status: 400 },
  { does: 'answers 410', behave: says(answer('410 Gone')), code: 'refused', status: 410 },
  { does: 'answers 500', behave: says(answer('500 Oops')), code: 'refused', status: 500, error: /answered 500/ },
  { does: 'answers 999', behave: says(answer('999 Odd')), code: 'refused', status: 999 },

  { does: 'reads and says nothing', behave: () => {}, code: 'timeout', endsAtDeadline: true },
  {
    does: 'drips its headers',
    behave: (s) => drip(s, `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(9999)}`),
    code: 'timeout',
    endsAtDeadline: true,
  },
  {
    does: 'never ends its status line',
    behave: (socket) => {
      socket.write('HTTP/1.1 200 ')
      flood(socket, 'a'.repeat(65536))
    },
    code: 'invalid_http',
  },
  {
    does: 'drips interim answers',
    behave: (s) => drip(s, 'HTTP/1.1 102 Wait\r\n\r\n', 30),
    code: 'timeout',
    endsAtDeadline: true,
  },
  {
    does: 'floods interim answers',
    behave: (s) => flood(s, 'HTTP/1.1 103 Hints\r\n\r\n'.repeat(1000)),
    code: 'invalid_http',
  },
  {
    does: 'gives eight interim answers, then 200',
    behave: says('HTTP/1.1 103 Hints\r\n\r\n'.repeat(8) + answer('200 OK')),
    code: 'delivered',
  },
  { does: 'gives nine interim answers', behave: says('HTTP/1.1 103 Hints\r\n\r\n'.repeat(9)), code: 'invalid_http' },
  {
    does: 'says 100 Continue unasked, then 200',
    behave: says(`HTTP/1.1 100 Continue\r\n\r\n${answer('200 OK')}`),
    code: 'delivered',
    status: 200,
  },
  {
    does: 'answers 101 and switches protocols',
    behave: says('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'),
    code: 'invalid_http',
  },

  {
    does: 'drips its body after a 200',
    behave: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n')
      drip(socket, 'z')
    },
    code: 'delivered',
    status: 200,
    endsAtDeadline: true,
  },
  {
    does: 'drips its body after a 500',
    behave: (socket) => {
      socket.write('HTTP/1.1 500 Oops\r\ncontent-length: 9999\r\n\r\n')
      drip(socket, 'z')
    },
    code: 'refused',
    status: 500,
    endsAtDeadline: true,
  },
  {
    does: 'never ends its body',
    behave: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n')
      flood(socket, 'a'.repeat(65536))
    },
    code: 'delivered',
  },
  {
    does: 'never ends a chunked body',
    behave: (socket) => {
      socket.write('HTTP/1.1 503 Busy\r\ntransfer-encoding: chunked\r\n\r\n')
      flood(socket, `10000\r\n${'a'.repeat(65536)}\r\n`)
    },
    code: 'refused',
    status: 503,
  },
  {
    does: 'never ends the trailers of its body',
    behave: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n')
      flood(socket, 'x: y\r\n'.repeat(10_000))
    },
    code: 'delivered',
  },
  {
    does: 'never ends the extension of a chunk',
    behave: (socket) => {
      socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2;')
      flood(socket, 'x'.repeat(65536))
    },
    code: 'delivered',
  },
  {
    does: 'closes in mid-body',
    behave: saysAndCloses('HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhalf'),
    code: 'delivered',
  },
  {
    does: 'resets in mid-body',
    behave: (socket) =>
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\nhalf', () => socket.resetAndDestroy()),
    code: 'delivered',
  },
  {
    does: 'sends a broken chunk after a 200',
    behave: says('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n'),
    code: 'delivered',
  },
  {
    does: 'sends a body after a 204',
    behave: says('HTTP/1.1 204 No Content\r\ncontent-length: 5\r\n\r\nhello'),
    code: 'delivered',
    status: 204,
  },
  { does: 'answers twice', behave: says(answer('200 OK', 'one') + answer('500 Oops', 'two')), code: 'delivered' },

  {
    does: 'sends 100 KB of headers',
    behave: says(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`),
    code: 'invalid_http',
  },
  {
    does: 'sends 10,000 headers',
    behave: says(`HTTP/1.1 200 OK\r\n${'x: y\r\n'.repeat(10_000)}\r\n`),
    code: 'invalid_http',
  },
  { does: 'sends garbage', behave: says('\x00\x01\x02\xff garbage\r\n\r\n'), code: 'invalid_http' },
  { does: 'speaks SSH', behave: says('SSH-2.0-OpenSSH_9.6\r\n'), code: 'invalid_http' },
  { does: 'ends lines with LF alone', behave: says('HTTP/1.1 200 OK\ncontent-length: 0\n\n'), code: 'invalid_http' },
  { does: 'answers status 000', behave: says(answer('000 Nothing')), code: 'invalid_http' },
  { does: 'answers status 099', behave: says(answer('099 Nothing')), code: 'invalid_http' },
  { does: 'answers a status of letters', behave: says(answer('abc Nothing')), code: 'invalid_http' },
  { does: 'answers a status of four digits', behave: says(answer('2000 OK')), code: 'invalid_http' },
  {
    does: 'sends content-length and transfer-encoding',
    behave: says('HTTP/1.1 200 OK\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'),
    code: 'invalid_http',
  },
  {
    does: 'sends two content-lengths',
    behave: says('HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello'),
    code: 'invalid_http',
  },
  {
    does: 'sends a negative content-length',
    behave: says('HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n'),
    code: 'invalid_http',
  },
  {
    does: 'sends a huge content-length',
    behave: says('HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999999\r\n\r\n'),
    code: 'invalid_http',
  },

  { does: 'closes without an answer', behave: (socket) => socket.end(), code: 'reset', error: /without an answer/ },
  { does: 'resets without an answer', behave: (socket) => socket.resetAndDestroy(), code: 'reset' },
  {
    does: 'closes in mid-header',
    behave: saysAndCloses('HTTP/1.1 200 OK\r\nx-a: b'),
    code: 'reset',
    error: /in the middle/,
  },
  {
    does: 'resets in mid-header',
    behave: (socket) => socket.write('HTTP/1.1 200 OK\r\nx-a', () => socket.resetAndDestroy()),
    code: 'reset',
  },
]

for (const { does, behave, code, status, error, endsAtDeadline } of rows) {
  test(`a receiver that ${does} is ${code}`, async (t) => {
    const receiver = await rawReceiver(t, behave)
    const timeoutMs = endsAtDeadline ? 1000 : 20_000
    const { outcome, leaves } = await send(testSender(t), targetAt(receiver.url, { timeoutMs }))

    assert.equal(outcome.code, code, outcome.error)
    if (status !== undefined) assert.equal(outcome.status, status)
    if (error !== undefined) assert.match(outcome.error ?? '', error)
    assert.equal(outcome.error === undefined, code === 'delivered', 'every failure has a sentence')
    assert.equal(leaves, 1)
    assert.equal(receiver.requests.length, 1, 'nothing but a stale connection is tried again')
    if (endsAtDeadline) assertAtDeadline(outcome, timeoutMs)
    else assert.ok(outcome.durationMs < timeoutMs, `took ${outcome.durationMs} ms`)
  })
}

test('a receiver that never reads its 8 MB is given up at the deadline', async (t) => {
  const receiver = await rawReceiver(t, () => {}, { onConnect: (socket) => socket.pause() !== undefined })
  const message = { ...exampleMessage, body: Buffer.alloc(8 * 1024 * 1024, 'a') }
  const { outcome } = await send(testSender(t), targetAt(receiver.url, { timeoutMs: 150 }), message)

  assert.equal(outcome.code, 'timeout')
  assertAtDeadline(outcome, 150)
})

test('no redirect is followed, and the owner is shown where it pointed', async (t) => {
  const canary = await rawReceiver(t, says(answer('200 OK')))
  for (const status of ['301 Moved', '302 Found', '303 See Other', '307 Temporary', '308 Permanent']) {
    const receiver = await rawReceiver(t, says(answer(status, '', [`location: ${canary.url}`])))
    const { outcome } = await send(testSender(t), targetAt(receiver.url))

    assert.equal(outcome.code, 'redirected')
    assert.equal(outcome.status, Number(status.slice(0, 3)))
    assert.ok(outcome.error?.includes(canary.url), outcome.error)
  }
  assert.equal(canary.connections, 0)
})

test('a location is shortened and cleaned before it is shown', async (t) => {
  const nasty = `http://x/\x9b31m${'y'.repeat(5000)}`
  const receiver = await rawReceiver(t, says(answer('302 Found', '', [`location: ${nasty}`])))
  const { outcome } = await send(testSender(t), targetAt(receiver.url))

  assert.ok((outcome.error ?? '').length < 400)
  assert.match(outcome.error ?? '', /^[\x20-\x7e]+$/)
})

test('a gzip bomb stays folded', async (t) => {
  const bomb = gzipSync(Buffer.alloc(100 * 1024 * 1024))
  const head = `HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${bomb.length}\r\n\r\n`
  const receiver = await rawReceiver(t, (socket) => {
    socket.write(head)
    socket.write(bomb)
  })
  const { outcome } = await send(testSender(t), targetAt(receiver.url, { timeoutMs: 2000 }))

  assert.equal(outcome.code, 'delivered')
  assert.deepEqual(outcome.response, bomb.subarray(0, 16 * 1024))
})

test('fifty endless bodies at once cost no memory to speak of, and their connections are closed', async (t) => {
  const receiver = await rawReceiver(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\n\r\n')
    flood(socket, 'a'.repeat(65536))
  })
  const sender = testSender(t)
  const before = process.memoryUsage().rss
  const all = await Promise.all(
    Array.from({ length: 50 }, () => send(sender, targetAt(receiver.url, { timeoutMs: 5000 }))),
  )

  for (const { outcome } of all) {
    assert.equal(outcome.code, 'delivered')
    assert.ok(outcome.durationMs < 4000, 'cut off by its length, not by the deadline')
    assert.equal(outcome.response?.length, 16 * 1024)
    assert.equal(outcome.response?.buffer.byteLength, 16 * 1024, 'no bigger buffer is held by what was kept')
  }
  // Both ends run in this process, so the bound is generous; without one this grows by 500 MB in a second.
  assert.ok(process.memoryUsage().rss - before < 64 * 1024 * 1024)
  while (receiver.open.size > 0) await new Promise((resolve) => [...receiver.open][0]?.once('close', resolve))
})

test('an answer is kept up to the limit, byte for byte', async (t) => {
  const bytes = Buffer.from([0, 255, 254, 10, 13, 0x1f, 0x8b, 7])
  for (const [length, kept] of [
    [0, 0],
    [1, 1],
    [7, 7],
    [8, 8],
    [9, 8],
    [100, 8],
  ] as const) {
    const body = Buffer.alloc(length, bytes)
    const receiver = await rawReceiver(t, (socket) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\n`)
      for (const byte of body) socket.write(Buffer.from([byte]))
    })
    const { outcome } = await send(testSender(t, { responseLimitBytes: 8 }), targetAt(receiver.url))

    assert.deepEqual(outcome.response, kept === 0 ? undefined : Buffer.alloc(kept, bytes))
  }
})

test('a slow receiver keeps no other receiver waiting', async (t) => {
  const slow = await rawReceiver(t, (socket) =>
    drip(socket, 'HTTP/1.1 200 OK\r\nx: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy'),
  )
  const quick = await rawReceiver(t, says(answer('200 OK')))
  const sender = testSender(t)
  const stuck = Array.from({ length: 100 }, () => send(sender, targetAt(slow.url, { timeoutMs: 400 })))
  const fine = await Promise.all(
    Array.from({ length: 20 }, () => send(sender, targetAt(quick.url, { timeoutMs: 60_000 }))),
  )

  for (const { outcome } of fine) assert.equal(outcome.code, 'delivered')
  for (const { outcome } of await Promise.all(stuck)) {
    assert.equal(outcome.code, 'timeout')
    assert.ok(outcome.durationMs < 30_000, `took ${outcome.durationMs} ms`)
  }
})
