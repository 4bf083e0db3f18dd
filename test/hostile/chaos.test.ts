import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { test } from 'node:test'
import type { Outcome } from '../../src/domain/outcome.ts'
import { systemClock } from '../../src/runtime/clock.ts'
import { exampleMessage, targetAt, testSender } from '../sender/sending.ts'
import { answer, rawReceiver } from './raw-receiver.ts'

/** Mulberry32: the same row of numbers for the same seed. */
function seeded(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The receiver's behaviours. The good ones are more frequent, so that connections are used again. */
const moods: readonly ((socket: Socket) => void)[] = [
  ...Array.from({ length: 8 }, () => (socket: Socket) => void socket.write(answer('200 OK', 'ok'))),
  (socket) => void socket.write(answer('500 Oops', 'no')),
  (socket) => void socket.end(answer('200 OK', 'ok', ['connection: close'])),
  (socket) => void socket.end(answer('200 OK', 'ok')), // Closes without having said so.
  (socket) => void systemClock.after(3, () => socket.write(answer('200 OK', 'late'))),
  (socket) => void socket.end(),
  (socket) => void socket.resetAndDestroy(),
  (socket) => void socket.write('garbage\r\n\r\n'),
  (socket) => void socket.write('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf'),
  (socket) => void socket.write('HTTP/1.1 200'),
  (socket) => void socket.write(answer('200 OK', 'one') + answer('200 OK', 'two')),
  () => {},
]

/** Resolves when the socket is closed. `once` would reject, where the sender reset the connection. */
function closing(socket: Socket): Promise<void> {
  return new Promise((resolve) => socket.on('close', () => resolve()))
}

for (const seed of [1, 2, 3]) {
  test(`in a crowd of attempts at a moody receiver, each ends once and none is sent that was not (seed ${seed})`, async (t) => {
    const random = seeded(seed)
    const receiver = await rawReceiver(t, (socket) => moods[Math.floor(random() * moods.length)]?.(socket))
    const sender = testSender(t)
    const opened = sender.open(targetAt(receiver.url, { timeoutMs: 60 }))
    const ends = new Map<string, Outcome[]>()
    const leaves = new Map<string, number>()
    const total = 600

    await new Promise<void>((resolve) => {
      let begun = 0
      let ended = 0
      const begin = () => {
        if (begun === total) return
        const id = `msg_${begun++}`
        const abort = opened.send(
          { ...exampleMessage, id },
          () => leaves.set(id, (leaves.get(id) ?? 0) + 1),
          (outcome) => {
            ends.set(id, [...(ends.get(id) ?? []), outcome])
            begin()
            if (++ended === total) resolve()
          },
        )
        if (random() < 0.05) systemClock.soon(abort)
      }
      for (let i = 0; i < 40; i++) begin()
    })
    await sender.close()
    // The receiver has seen all its connections close, so it has read everything that was written before.
    while (receiver.open.size > 0) await closing([...receiver.open][0] as Socket)

    const arrivals = new Map<string, number>()
    for (const { head } of receiver.requests) {
      const id = /^webhook-id: (.*)$/m.exec(head)?.[1] ?? ''
      arrivals.set(id, (arrivals.get(id) ?? 0) + 1)
    }
    for (let i = 0; i < total; i++) {
      const id = `msg_${i}`
      assert.equal(ends.get(id)?.length, 1, id)
      const left = leaves.get(id) ?? 0
      assert.ok(left <= 1, id)
      assert.ok((arrivals.get(id) ?? 0) <= 2 * left, `${id} left ${left} times and arrived ${arrivals.get(id)} times`)
      assert.notEqual(ends.get(id)?.[0]?.code, 'internal', ends.get(id)?.[0]?.error)
      if (ends.get(id)?.[0]?.code === 'delivered') assert.ok((arrivals.get(id) ?? 0) >= 1, id)
    }
  })
}
