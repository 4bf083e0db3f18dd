import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import type { Outcome } from '../../src/domain/outcome.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { freePort } from '../e2e/free-port.ts'
import { exampleMessage, send, targetAt, testSender } from '../sender/sending.ts'
import { answer, rawReceiver } from './raw-receiver.ts'

const ok = answer('200 OK', 'ok')

test('a refused connection is connect_refused and never left', async (t) => {
  const { outcome, leaves } = await send(testSender(t), targetAt(`http://127.0.0.1:${await freePort()}/`))

  assert.equal(outcome.code, 'connect_refused')
  assert.match(outcome.error ?? '', /refused the connection/)
  assert.equal(leaves, 0)
})

test('a connection is kept and used again', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(ok))
  const sender = testSender(t)
  for (let i = 0; i < 5; i++) assert.equal((await send(sender, targetAt(receiver.url))).outcome.code, 'delivered')

  assert.equal(receiver.connections, 1)
  assert.deepEqual(
    receiver.requests.map(({ nth }) => nth),
    [1, 2, 3, 4, 5],
  )
})

test('endpoints of one origin share connections, also when the next attempt starts from the end of the last', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(ok))
  const opened = testSender(t).open(targetAt(receiver.url))
  await new Promise<void>((resolve) => {
    let left = 20
    const next = (outcome?: Outcome) => {
      if (outcome) assert.equal(outcome.code, 'delivered')
      if (left-- === 0) resolve()
      else opened.send(exampleMessage, () => {}, next)
    }
    next()
  })

  assert.equal(receiver.connections, 1)
})

test('a receiver that closes after each answer is served on a new connection each time', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.end(answer('200 OK', 'ok', ['connection: close'])))
  const opened = testSender(t).open(targetAt(receiver.url))
  await new Promise<void>((resolve) => {
    let left = 10
    const next = (outcome?: Outcome) => {
      if (outcome) assert.equal(outcome.code, 'delivered', outcome.error)
      if (left-- === 0) resolve()
      else opened.send(exampleMessage, () => {}, next)
    }
    next()
  })

  assert.equal(receiver.connections, 10)
  assert.equal(receiver.requests.length, 10)
})

for (const [how, hangUp] of [
  ['closes', 'end'],
  ['resets', 'resetAndDestroy'],
] as const) {
  test(`a used connection the receiver ${how} under a new request is replaced once, as the same attempt`, async (t) => {
    const receiver = await rawReceiver(t, (socket, request) => {
      if (request.nth === 1) socket.write(ok)
      else socket[hangUp]()
    })
    const sender = testSender(t)
    await send(sender, targetAt(receiver.url))
    const { outcome, leaves } = await send(sender, targetAt(receiver.url))

    assert.equal(outcome.code, 'delivered')
    assert.equal(leaves, 1, 'the rate limit counts one attempt')
    assert.equal(receiver.connections, 2)
    const [, first, second] = receiver.requests
    assert.deepEqual([first?.nth, second?.nth], [2, 1])
    // Each request is signed at its own second.
    const unsigned = (head = '') => head.replace(/webhook-(timestamp|signature): .*\r\n/g, '')
    assert.equal(unsigned(first?.head), unsigned(second?.head))
  })
}

test('a fresh connection that is closed is not tried again, not even after a stale one', async (t) => {
  let answered = false
  const receiver = await rawReceiver(t, (socket) => {
    if (answered) socket.end()
    else socket.write(ok)
    answered = true
  })
  const sender = testSender(t)
  await send(sender, targetAt(receiver.url))
  const { outcome } = await send(sender, targetAt(receiver.url))

  assert.equal(outcome.code, 'reset')
  assert.equal(receiver.requests.length, 3, 'the first, the stale one, and one fresh one')
})

test('a used connection that breaks off in the middle of an answer is not tried again', async (t) => {
  const receiver = await rawReceiver(t, (socket, request) => {
    if (request.nth === 1) socket.write(ok)
    else socket.end('HTTP/1.1 2')
  })
  const sender = testSender(t)
  await send(sender, targetAt(receiver.url))
  const { outcome } = await send(sender, targetAt(receiver.url))

  assert.equal(outcome.code, 'reset')
  assert.equal(receiver.requests.length, 2)
})

test('the second try does not get a second deadline', async (t) => {
  const receiver = await rawReceiver(t, (socket, request) => {
    if (request.nth === 2) systemClock.after(2000, () => socket.end())
    else if (receiver.connections === 1) socket.write(ok)
  })
  const sender = testSender(t)
  await send(sender, targetAt(receiver.url))
  const { outcome, leaves } = await send(sender, targetAt(receiver.url, { timeoutMs: 3000 }))

  assert.equal(outcome.code, 'timeout')
  assert.equal(leaves, 1)
  assert.equal(receiver.requests.length, 3)
  assert.ok(outcome.durationMs >= 3000 && outcome.durationMs < 5000, `took ${outcome.durationMs} ms`)
})

test('an idle connection the receiver closed is noticed before it is used', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(ok))
  const sender = testSender(t)
  await send(sender, targetAt(receiver.url))
  const [socket] = receiver.open
  assert.ok(socket)
  const closed = once(socket, 'close')
  socket.end()
  await closed
  const { outcome } = await send(sender, targetAt(receiver.url))

  assert.equal(outcome.code, 'delivered')
  assert.deepEqual(
    receiver.requests.map(({ nth }) => nth),
    [1, 1],
  )
})

test('an unrequested answer is not taken for the answer to the next request', async (t) => {
  const receiver = await rawReceiver(t, (socket, request) => {
    socket.write(
      request.nth === 1 && receiver.connections === 1 ? ok + answer('200 OK', 'smuggled') : answer('500 Oops'),
    )
  })
  const sender = testSender(t)
  await send(sender, targetAt(receiver.url))
  const { outcome } = await send(sender, targetAt(receiver.url))

  assert.equal(outcome.status, 500)
})

test('an attempt aborted in flight ends as aborted, once, and closes its connection', async (t) => {
  const arrived = Promise.withResolvers<void>()
  const receiver = await rawReceiver(t, () => arrived.resolve())
  const opened = testSender(t).open(targetAt(receiver.url, { timeoutMs: 5000 }))
  const outcomes: Outcome[] = []
  const abort = opened.send(
    exampleMessage,
    () => {},
    (outcome) => outcomes.push(outcome),
  )
  await arrived.promise
  abort()
  abort()

  assert.deepEqual(
    outcomes.map(({ code }) => code),
    ['aborted'],
  )
  for (const socket of receiver.open) await once(socket, 'close')
})

test('an attempt aborted before it connected never reaches the receiver', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(ok))
  const sender = testSender(t)
  const opened = sender.open(targetAt(receiver.url))
  const ended = Promise.withResolvers<Outcome>()
  let leaves = 0
  opened.send(exampleMessage, () => leaves++, ended.resolve)()

  assert.equal((await ended.promise).code, 'aborted')
  // A later attempt has come and gone by the time we look, so a ghost would have shown itself.
  assert.equal((await send(sender, targetAt(receiver.url))).outcome.code, 'delivered')
  assert.equal(receiver.requests.length, 1)
  assert.equal(leaves, 0)
})

test('an attempt that may not leave any more once it is connected is never written', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(ok))
  const sender = testSender(t)
  const opened = sender.open(targetAt(receiver.url))
  for (const connection of ['new', 'reused']) {
    const ended = Promise.withResolvers<Outcome>()
    const before = receiver.requests.length
    let leaves = 0
    opened.send(
      exampleMessage,
      () => leaves++,
      ended.resolve,
      () => false,
    )
    assert.equal((await ended.promise).code, 'aborted', connection)
    assert.equal((await send(sender, targetAt(receiver.url))).outcome.code, 'delivered')
    assert.equal(receiver.requests.length, before + 1, connection)
    assert.equal(leaves, 0)
  }
})

test('an attempt aborted after its status arrived ends by its status', async (t) => {
  const receiver = await rawReceiver(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbegun')
  })
  const sender = testSender(t)
  const ended = send(sender, targetAt(receiver.url, { timeoutMs: 5000 }))
  // The answer is on its way when it can be read here too.
  const probe = testSender(t)
  await send(probe, targetAt(receiver.url, { timeoutMs: 50 }))
  await sender.close()

  assert.equal((await ended).outcome.code, 'delivered')
})

test('closing ends every attempt as aborted, closes every socket, and refuses what comes after', async (t) => {
  const arrived = Promise.withResolvers<void>()
  const receiver = await rawReceiver(t, () => {
    if (receiver.requests.length === 10) arrived.resolve()
  })
  const sender = testSender(t)
  const target = targetAt(receiver.url, { timeoutMs: 5000 })
  const all = Array.from({ length: 10 }, () => send(sender, target))
  await arrived.promise
  await sender.close()

  for (const { outcome } of await Promise.all(all)) assert.equal(outcome.code, 'aborted')
  for (const socket of receiver.open) await once(socket, 'close')
  const { outcome, leaves } = await send(sender, target)
  assert.equal(outcome.code, 'aborted')
  assert.equal(leaves, 0)
})

test('nothing is called back before send has returned', async (t) => {
  const sender = testSender(t)
  for (const target of [targetAt('http://10.0.0.1/'), targetAt('http://127.0.0.1:1/')]) {
    for (const contentType of ['application/json', 'broken\r\nheader: x']) {
      const outcome = await new Promise<Outcome>((resolve, reject) => {
        let returned = false
        sender.open(target).send(
          { ...exampleMessage, contentType },
          () => {},
          (ended) => {
            if (returned) resolve(ended)
            else reject(new Error('too early'))
          },
        )
        returned = true
      })
      assert.notEqual(outcome.code, 'delivered')
    }
  }
})

test('a content type with a line break is blocked, and nothing is sent', async (t) => {
  const receiver = await rawReceiver(t, (socket) => void socket.write(ok))
  const { outcome, leaves } = await send(testSender(t), targetAt(receiver.url), {
    ...exampleMessage,
    contentType: 'text/plain\r\nx-injected: 1',
  })

  assert.equal(outcome.code, 'blocked')
  assert.equal(leaves, 0)
  assert.equal(receiver.requests.length, 0)
})
