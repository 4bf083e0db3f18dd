import assert from 'node:assert/strict'
import { test } from 'node:test'
import { assertRemaining, begin, longMs, type Open } from './harness.ts'

export function delivering(open: Open): void {
  test('rows are read in the order they were accepted, from the head or behind a given row', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const keys: number[] = []
    for (let i = 0; i < 5; i++) keys.push((await world.publish([endpoint])).key)
    const read = async (after: { dueAt: number; message: number } | null, limit: number) => {
      const [due] = await world.store.readDue([{ endpoint: endpoint.key, class: 0, after, limit }])
      assert(due)
      return due.rows
    }
    const head = await read(null, 2)
    assert.deepEqual(
      head.map((row) => row.message),
      keys.slice(0, 2),
    )
    const rest = await read(head[1] ?? null, 10)
    assert.deepEqual(
      rest.map((row) => row.message),
      keys.slice(2),
    )
    assert.deepEqual(await read(rest[2] ?? null, 10), [])
    const again = await read(null, 2)
    assert.deepEqual(
      again.map((row) => row.message),
      keys.slice(0, 2),
    )
  })

  test('fresh rows are read by their names, with the messages that are wanted', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [one, other] = [await world.endpoint(app), await world.endpoint(app)]
    const first = await world.publish([one, other])
    const second = await world.publish([one], { expiresInMs: longMs })
    await world.publish([one], { delayMs: longMs })
    const rows = await world.rows(one)
    const nameOf = (endpoint: typeof one, { message, dueAt }: (typeof rows)[number], withMessage = false) => {
      return { endpoint: endpoint.key, message, dueAt, withMessage }
    }
    const [a, b] = rows as [(typeof rows)[number], (typeof rows)[number]]
    const found = await world.store.readNamed([nameOf(other, a), nameOf(one, b, true), nameOf(other, b, true)])
    const placed = found.rows.map((row) => [row.endpoint, row.message, row.class, row.dueAt, row.attempts, row.variant])
    assert.deepEqual(
      placed.toSorted(([x = 0], [y = 0]) => Number(y) - Number(x)),
      [
        [other.key, first.key, 0, a.dueAt, 0, null],
        [one.key, second.key, 0, b.dueAt, 0, null],
      ].toSorted(([x = 0], [y = 0]) => Number(y) - Number(x)),
    )
    const expiry = found.rows.find(({ message }) => message === second.key)?.expiresInMs
    assertRemaining(expiry ?? undefined, longMs)
    assert.deepEqual(found.messages, await world.store.loadMessages([second.key]))

    const worker = await world.join()
    await world.settle(worker, world.settlement(one, a, { state: 'waiting', waitMs: 0 }))
    const later = { ...nameOf(other, a), dueAt: a.dueAt + 1 }
    assert.deepEqual(await world.store.readNamed([nameOf(one, a, true), later]), { rows: [], messages: [] })
    assert.deepEqual(await world.store.readNamed([]), { rows: [], messages: [] })
  })

  test('rows published in one group, all due at one instant, are not skipped by the cursor', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const publication = await world.publication([endpoint])
    await world.store.publish(Array.from({ length: 7 }, () => publication))
    const seen: number[] = []
    let after: { dueAt: number; message: number } | null = null
    for (;;) {
      const [due] = await world.store.readDue([{ endpoint: endpoint.key, class: 0, after, limit: 3 }])
      const last = due?.rows.at(-1)
      if (!due || !last) break
      seen.push(...due.rows.map((row) => row.message))
      after = last
    }
    assert.equal(new Set(seen).size, 7)
    assert.equal(seen.length, 7)
  })

  test('several reads are answered in their order, each with the rows of its endpoint and class', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    const [first, second] = [await world.endpoint(app), await world.endpoint(app)]
    const one = await world.publish([first])
    const two = await world.publish([second])
    const read = { after: null, limit: 10 }
    const answers = await world.store.readDue([
      { ...read, endpoint: second.key, class: 0 },
      { ...read, endpoint: first.key, class: 1 },
      { ...read, endpoint: 4711, class: 0 },
      { ...read, endpoint: first.key, class: 0 },
      { ...read, endpoint: first.key, class: 2 },
    ])
    assert.deepEqual(
      answers.map((answer) => answer.rows.map((row) => row.message)),
      [[two.key], [], [], [one.key], []],
    )
    assert.deepEqual(await world.store.readDue([]), [])
  })

  test('all classes of a queue, read together from the front, are as each of them alone, however long the queue is', async (t) => {
    const world = await begin(t, open)
    const app = await world.application()
    for (const length of [0, 1, 16, 17, 40]) {
      const endpoint = await world.endpoint(app)
      for (let n = 0; n < length; n++) await world.publish([endpoint])
      if (length > 0) await world.publish([endpoint], { delayMs: 1 })
      if (length > 1) await world.publish([endpoint], { delayMs: longMs })
      await world.pass(20)
      const reads = ([0, 1, 2] as const).map((c) => ({ endpoint: endpoint.key, class: c, after: null, limit: 192 }))
      const together = await world.store.readDue(reads)
      const apart = (await Promise.all(reads.map((read) => world.store.readDue([read])))).flat()
      const placesOf = ({ rows }: (typeof apart)[number]) => rows.map((row) => [row.class, row.dueAt, row.message])
      assert.deepEqual(together.map(placesOf), apart.map(placesOf), `${length} rows`)
      assert.deepEqual(
        together.map(({ nextInMs }) => nextInMs !== undefined),
        [false, length > 1, false],
      )
      assert.deepEqual(
        together.map(({ rows }) => rows.length),
        [length, length > 0 ? 1 : 0, 0],
      )
    }
  })

  test('a fresh row says that nothing was tried yet and how old it is', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { key } = await world.publish([endpoint])
    await world.pass(50)
    const row = await world.head(endpoint)
    const { message, class: itsClass, attempts, priorAttempts } = row
    assert.deepEqual(
      { message, itsClass, attempts, priorAttempts },
      { message: key, itsClass: 0, attempts: 0, priorAttempts: 0 },
    )
    assert(row.ageMs >= 50 && row.ageMs < 60_000, `${row.ageMs} ms old`)
  })

  test('timed rows are read when due, the earliest first, with the wait for the next', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    await world.publish([endpoint], { delayMs: longMs })
    // Seconds apart, so that a busy machine does not turn them round.
    const late = await world.publish([endpoint], { delayMs: 3000 })
    const early = await world.publish([endpoint], { delayMs: 50 })
    await world.pass(3050)
    const read = { endpoint: endpoint.key, class: 1, after: null, limit: 3 } as const
    const [due] = await world.store.readDue([read])
    assert.deepEqual(
      due?.rows.map((row) => row.message),
      [early.key, late.key],
    )
    assertRemaining(due?.nextInMs, longMs)
    const [behind] = await world.store.readDue([{ ...read, after: due?.rows[0] ?? null }])
    assert.deepEqual(
      behind?.rows.map((row) => row.message),
      [late.key],
    )
    // As many as asked for: there is nothing to wait for yet.
    const [full] = await world.store.readDue([{ ...read, limit: 2 }])
    assert.deepEqual([full?.rows.length, full?.nextInMs], [2, undefined])
  })

  test('no wait is named where nothing is timed', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    await world.publish([endpoint])
    const reads = ([0, 1, 2] as const).map((c) => ({ endpoint: endpoint.key, class: c, after: null, limit: 5 }))
    const answers = await world.store.readDue(reads)
    assert.deepEqual(
      answers.map((answer) => answer.nextInMs),
      [undefined, undefined, undefined],
    )
  })

  test('fresh and replayed rows are read whatever their instant says', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const { worker } = await world.owningOne(endpoint)
    const { key } = await world.publish([endpoint])
    await world.harness.sql(`update pending set due_at = 99999999999999, class = 2 where message = ${key}`)
    await world.harness.sql('update pending set due_at = 99999999999999 where class = 0')
    assert.equal((await world.rows(endpoint, 0)).length, 1)
    assert.equal((await world.rows(endpoint, 2)).length, 1)
    await world.release(worker, endpoint)
    await world.claim(worker)
  })

  test('messages are loaded to be sent, and those that no longer exist are left out', async (t) => {
    const world = await begin(t, open)
    const endpoint = await world.endpoint(await world.application())
    const body = new Uint8Array([123, 34, 0, 255, 125])
    const { key, id } = await world.publish([endpoint], { body, eventType: 'a.b', contentType: 'text/x' })
    const loaded = await world.store.loadMessages([1, key])
    assert.deepEqual(
      loaded.map((message) => ({ ...message, body: [...message.body] })),
      [
        {
          key,
          id,
          eventType: 'a.b',
          contentType: 'text/x',
          headers: null,
          trace: null,
          arrivedHeaders: null,
          body: [...body],
          variant: null,
          signature: null,
        },
      ],
    )
    assert.deepEqual(await world.store.loadMessages([]), [])
  })
}
