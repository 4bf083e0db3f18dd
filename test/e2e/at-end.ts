import type { TestContext } from 'node:test'

const ends = new WeakMap<TestContext, (() => unknown)[]>()

/**
 * Does something when the test ends, however it ends: the last comer's first, so that a process is gone before the files
 * it writes to. (`t.after` alone goes in the order of asking.)
 */
export function atEnd(t: TestContext, end: () => unknown): void {
  const known = ends.get(t)
  if (known) {
    known.push(end)
    return
  }
  const list = [end]
  ends.set(t, list)
  t.after(async () => {
    for (const each of list.toReversed()) await each()
  })
}
