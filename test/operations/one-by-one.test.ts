import assert from 'node:assert/strict'
import { test } from 'node:test'
import { OneByOne } from '../../src/operations/caller-limits.ts'

test('work of one caller is done in its order, one at a time, also after a failure; other callers do not wait', async () => {
  const works = new OneByOne()
  const ended: string[] = []
  const gates = new Map(['a1', 'a2', 'a3', 'b1'].map((name) => [name, Promise.withResolvers<string>()]))
  const started: string[] = []
  const begin = (name: string) =>
    works
      .do(name.charAt(0), () => {
        started.push(name)
        return gates.get(name)?.promise as Promise<string>
      })
      .then(
        () => ended.push(name),
        () => ended.push(`${name} failed`),
      )
  const all = [...gates.keys()].map(begin)
  assert.deepEqual(started, ['a1', 'b1'])
  gates.get('a2')?.resolve('')
  gates.get('b1')?.resolve('')
  await all[3]
  assert.deepEqual(started, ['a1', 'b1'])
  gates.get('a1')?.reject(new Error('trouble'))
  gates.get('a3')?.resolve('')
  await Promise.all(all)
  assert.deepEqual(
    [started, ended],
    [
      ['a1', 'b1', 'a2', 'a3'],
      ['b1', 'a1 failed', 'a2', 'a3'],
    ],
  )
  await new Promise((resolve) => setImmediate(resolve))
  assert.equal(works.size, 0)
})
