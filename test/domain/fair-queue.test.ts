import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { FairQueue } from '../../src/domain/fair-queue.ts'

test('tenants take turns, and the items of one come in their order', () => {
  const queue = new FairQueue<string>()
  for (const item of ['a1', 'a2', 'a3']) queue.push(1, item)
  queue.push(2, 'b1')
  assert.deepEqual([queue.size, queue.tenants], [4, 2])
  assert.deepEqual(drained(queue), ['a1', 'b1', 'a2', 'a3'])
  assert.deepEqual([queue.size, queue.tenants], [0, 0])
})

test('a tenant that comes back takes its turn behind those that wait', () => {
  const queue = new FairQueue<string>()
  queue.push(1, 'a1')
  queue.push(2, 'b1')
  assert.equal(queue.shift(), 'a1')
  queue.push(1, 'a2')
  assert.deepEqual(drained(queue), ['b1', 'a2'])
})

test('whatever is queued, every tenant gets its next item within one turn of each other tenant', () => {
  const pushes = fc.array(fc.record({ tenant: fc.integer({ min: 0, max: 9 }), shifts: fc.nat(2) }), { maxLength: 200 })
  fc.assert(
    fc.property(pushes, (steps) => {
      const queue = new FairQueue<number>()
      const waiting = new Map<number, number>()
      const passed = new Map<number, number>()
      const take = () => {
        const tenant = queue.shift()
        if (tenant === undefined) return
        waiting.set(tenant, (waiting.get(tenant) as number) - 1)
        for (const [other, count] of waiting)
          if (other !== tenant && count > 0) passed.set(other, (passed.get(other) ?? 0) + 1)
        assert.ok((passed.get(tenant) ?? 0) <= 9, `tenant ${tenant} was passed over`)
        passed.set(tenant, 0)
      }
      for (const { tenant, shifts } of steps) {
        queue.push(tenant, tenant)
        waiting.set(tenant, (waiting.get(tenant) ?? 0) + 1)
        for (let n = 0; n < shifts; n++) take()
      }
      while (queue.size > 0) take()
      assert.ok([...waiting.values()].every((count) => count === 0))
    }),
  )
})

test('a million items of 100,000 tenants are taken in less than two seconds of processor time', () => {
  const queue = new FairQueue<number>()
  const before = process.cpuUsage()
  for (let n = 0; n < 1_000_000; n++) queue.push(n % 100_000, n)
  assert.equal(drained(queue).length, 1_000_000)
  const { user } = process.cpuUsage(before)
  assert.ok(user < 2_000_000, `${user} µs`)
})

function drained<T>(queue: FairQueue<T>): T[] {
  const items: T[] = []
  for (let item = queue.shift(); item !== undefined; item = queue.shift()) items.push(item)
  return items
}
